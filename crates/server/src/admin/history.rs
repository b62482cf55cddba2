//! `/v1/history` of the admin listener: how many, of what, when.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | the query string of a request → a query |
//! | `to_wire` | results and errors → responses |
//! | `schemas` | what responses look like, for the OpenAPI document |
//!
//! Deliberately not here: what is counted and how; `crate::history` knows.

mod from_wire;
mod schemas;
mod to_wire;

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use tollgate_history::query::{HistoryReader, Tabular};
use tollgate_history::{Error, SeriesKind, time_text};

use crate::history::{HistoryQueryError, HistoryService};
use crate::http::v1::error::V1Error;
use crate::service::Service;
pub(super) use from_wire::HistoryParams;
pub(super) use schemas::{
    ForgottenSchema, LabelsSchema, SeriesSchema, StatusSchema, SummarySchema, TopSchema, ValuesSchema,
};
pub(super) use to_wire::respond;
use to_wire::{ForgottenBody, LabelsBody, ValuesBody};

/// Names of one response, at most.
const NAMES_MAX: u64 = 1_000;

/// The curve of a route, a rule or a key, by outcome.
#[utoipa::path(
    get, path = "/v1/history/series", tag = "history", operation_id = "history_series",
    params(
        ("by" = Option<String>, Query, description = "`route`, `rule` or `key`.", example = "route"),
        ("name" = Option<String>, Query, description = "A name, perhaps with `*` at its end; everything if absent. Up to 100 names, each a parameter of its own, have curves of their own, and a `*` is one of their letters then.", example = "/cart"),
        ("domain" = Option<String>, Query, description = "Only rules of this domain, and their keys.", example = "shop"),
        ("rule" = Option<String>, Query, description = "Only this rule, and its keys.", example = "login"),
        ("from" = Option<String>, Query, description = "RFC 3339, unix seconds, or `now-6h`.", example = "now-6h"),
        ("to" = Option<String>, Query, description = "The same; now if absent.", example = "now"),
        ("last" = Option<String>, Query, description = "A span before `to`, in place of `from`; a day if both are absent.", example = "24h"),
        ("step" = Option<String>, Query, description = "A span or seconds; `auto` chooses.", example = "5m"),
        ("max_points" = Option<u64>, Query, description = "How many points a chosen step gives at most; 300 if absent.", example = 300),
        ("compare" = Option<String>, Query, description = "`previous_period`, `previous_week` or `previous_year`.", example = "previous_period"),
        ("outcome" = Option<String>, Query, description = "Only these, with commas between them.", example = "denied,soft"),
        ("format" = Option<String>, Query, description = "`json`, `ndjson` or `csv`.", example = "json"),
    ),
    responses(schemas::SeriesResponses)
)]
pub(super) async fn series(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    tabular(&service, query, from_wire::SERIES, |params, now_s| {
        let query = params.series(now_s)?;
        Ok(move |reader: &HistoryReader<'_>| reader.series(&query))
    })
    .await
}

/// The routes, rules or keys with the most, and the rest in one row.
#[utoipa::path(
    get, path = "/v1/history/top", tag = "history", operation_id = "history_top",
    params(
        ("by" = Option<String>, Query, description = "`route`, `rule` or `key`.", example = "route"),
        ("domain" = Option<String>, Query, description = "Only rules of this domain, and their keys.", example = "shop"),
        ("rule" = Option<String>, Query, description = "Only this rule, and its keys.", example = "login"),
        ("from" = Option<String>, Query, description = "RFC 3339, unix seconds, or `now-6h`.", example = "now-1h"),
        ("to" = Option<String>, Query, description = "The same; now if absent.", example = "now"),
        ("last" = Option<String>, Query, description = "A span before `to`, in place of `from`; a day if both are absent.", example = "1h"),
        ("order" = Option<String>, Query, description = "`total` or `denied`.", example = "total"),
        ("limit" = Option<u64>, Query, description = "Rows at most; 100 if absent.", example = 10),
        ("format" = Option<String>, Query, description = "`json`, `ndjson` or `csv`.", example = "json"),
    ),
    responses(schemas::TopResponses)
)]
pub(super) async fn top(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    tabular(&service, query, from_wire::TOP, |params, now_s| {
        let query = params.top(now_s)?;
        Ok(move |reader: &HistoryReader<'_>| reader.top(&query))
    })
    .await
}

/// All requests in a few numbers.
#[utoipa::path(
    get, path = "/v1/history/summary", tag = "history", operation_id = "history_summary",
    params(
        ("from" = Option<String>, Query, description = "RFC 3339, unix seconds, or `now-6h`.", example = "now-7d"),
        ("to" = Option<String>, Query, description = "The same; now if absent.", example = "now"),
        ("last" = Option<String>, Query, description = "A span before `to`, in place of `from`; a day if both are absent.", example = "7d"),
        ("format" = Option<String>, Query, description = "`json`, `ndjson` or `csv`.", example = "json"),
    ),
    responses(schemas::SummaryResponses)
)]
pub(super) async fn summary(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    tabular(&service, query, from_wire::SUMMARY, |params, now_s| {
        let range = params.range(now_s)?;
        Ok(move |reader: &HistoryReader<'_>| reader.summary(range))
    })
    .await
}

/// What one can ask by, and how many names there are.
#[utoipa::path(
    get,
    path = "/v1/history/labels",
    tag = "history",
    operation_id = "history_labels",
    responses(schemas::LabelsResponses)
)]
pub(super) async fn labels(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    respond(async {
        HistoryParams::read(query, &[])?;
        let count = |reader: &HistoryReader<'_>, kind| (kind, reader.names(kind, "", usize::MAX).len());
        let counts = run(&service, move |reader| Ok(SeriesKind::ALL.map(|kind| count(reader, kind)))).await?;
        Ok(to_wire::json(&LabelsBody::new(&counts)))
    })
    .await
}

/// The names that begin so, sorted.
#[utoipa::path(
    get, path = "/v1/history/labels/{name}/values", tag = "history", operation_id = "history_label_values",
    params(
        ("name" = String, Path, description = "`route`, `rule` or `key`.", example = "route"),
        ("prefix" = Option<String>, Query, description = "How they begin.", example = "/c"),
        ("limit" = Option<u64>, Query, description = "How many at most; 1000 if absent.", example = 10),
    ),
    responses(schemas::ValuesResponses)
)]
pub(super) async fn values(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    query: RawQuery,
) -> Response {
    respond(async {
        let params = HistoryParams::read(query, from_wire::VALUES)?;
        let kind: SeriesKind = name.parse().map_err(|_| V1Error::NoSuchPath {
            path: format!("/v1/history/labels/{name}/values; there are route, rule and key"),
        })?;
        let limit = params.number("limit", NAMES_MAX, NAMES_MAX)?;
        let prefix = params.text("prefix").unwrap_or_default().to_owned();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut values =
            run(&service, move |reader| Ok(reader.names(kind, &prefix, limit.saturating_add(1)))).await?;
        let more = values.len() > limit;
        values.truncate(limit);
        Ok(to_wire::json(&ValuesBody { name: kind.name(), values, more }))
    })
    .await
}

/// Erases a key from history, of all rules or of those that are named.
#[utoipa::path(
    delete, path = "/v1/history/keys", tag = "history", operation_id = "history_forget",
    params(
        ("name" = String, Query, description = "The key, as `top?by=key` shows it; in clear if names are hashed.", example = "user_id=42"),
        ("domain" = Option<String>, Query, description = "Only under rules of this domain.", example = "shop"),
        ("rule" = Option<String>, Query, description = "Only under this rule.", example = "login"),
    ),
    responses(schemas::ForgottenResponses)
)]
pub(super) async fn forget(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    respond(async {
        let params = HistoryParams::read(query, from_wire::FORGET)?;
        let (key, filter) = params.key()?;
        let forgotten = history(&service)?.forget_key(&key, filter, service.now()).await?;
        Ok(to_wire::json(&ForgottenBody { forgotten }))
    })
    .await
}

/// How history itself is doing: what is kept, what waits, what was lost.
#[utoipa::path(
    get,
    path = "/v1/history/status",
    tag = "history",
    operation_id = "history_status",
    responses(schemas::StatusResponses)
)]
pub(super) async fn status(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    respond(async {
        HistoryParams::read(query, &[])?;
        let (history, now) = (Arc::clone(history(&service)?), service.now());
        // It may wait for a write. Only a panic could end it early.
        let status = tokio::task::spawn_blocking(move || history.status(now)).await;
        Ok(to_wire::json(&status.map_err(|_| HistoryQueryError::Broken)?))
    })
    .await
}

/// Responds with a result in the format that was asked for. `parse` makes the query.
async fn tabular<Q, R>(
    service: &Service,
    query: RawQuery,
    names: &[&str],
    parse: impl FnOnce(&HistoryParams, u64) -> Result<Q, V1Error>,
) -> Response
where
    Q: Fn(&HistoryReader<'_>) -> Result<R, Error> + Send + 'static,
    R: Tabular + Serialize + Send + 'static,
{
    respond(async {
        let params = HistoryParams::read(query, names)?;
        let query = parse(&params, time_text::now_s(service.now()))?;
        let format = params.format()?;
        Ok(to_wire::tabular(format, &run(service, query).await?))
    })
    .await
}

/// Asks the history.
pub(super) async fn run<R: Send + 'static>(
    service: &Service,
    query: impl Fn(&HistoryReader<'_>) -> Result<R, Error> + Send + 'static,
) -> Result<R, V1Error> {
    Ok(history(service)?.query(service.now(), query).await?)
}

fn history(service: &Service) -> Result<&Arc<HistoryService>, HistoryQueryError> {
    service.history().ok_or(HistoryQueryError::Off)
}
