//! `/v1/history` of the admin listener: how many, of what, when.
//!
//! | module | what it holds |
//! |---|---|
//! | `params` | the query of a request → a question |
//! | `answers` | an answer in the format that was asked for |
//! | `shapes` | what answers look like, for the OpenAPI document |
//!
//! Deliberately not here: what is counted and how; `crate::history` keeps it.

mod answers;
mod params;
mod shapes;

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tollgate_history::query::Rows;
use tollgate_history::{By, Error, Outcome};

use crate::history::{Keeper, Kept, Unanswered};
use crate::http::v1::error::V1Error;
use crate::http::v1::to_wire;
use crate::service::Service;
use answers::respond;
use params::{Format, Params};
pub(super) use shapes::{LabelsSchema, SeriesSchema, StatusSchema, SummarySchema, TopSchema, ValuesSchema};

/// Names that one answer has at most.
const NAMES_MAX: u64 = 1_000;
/// Rows of a top list, where nothing else is said.
const ROWS_USUAL: u64 = 100;

/// The curve of a route, a rule or a key, by verdict.
#[utoipa::path(
    get, path = "/v1/history/series", tag = "history", operation_id = "history_series",
    params(
        ("by" = Option<String>, Query, description = "`route`, `rule` or `key`.", example = "route"),
        ("name" = Option<String>, Query, description = "A name, perhaps with `*` at its end; everything if absent.", example = "/cart"),
        ("from" = Option<String>, Query, description = "RFC 3339, unix seconds, or `now-6h`.", example = "now-6h"),
        ("to" = Option<String>, Query, description = "The same; now if absent.", example = "now"),
        ("last" = Option<String>, Query, description = "A span before `to`, in place of `from`; a day if both are absent.", example = "24h"),
        ("step" = Option<String>, Query, description = "A span or seconds; `auto` chooses.", example = "5m"),
        ("max_points" = Option<u64>, Query, description = "How many points a chosen step gives at most; 300 if absent.", example = 300),
        ("compare" = Option<String>, Query, description = "`previous_period`, `previous_week` or `previous_year`.", example = "previous_period"),
        ("verdict" = Option<String>, Query, description = "Only these, with commas between them.", example = "denied,soft"),
        ("format" = Option<String>, Query, description = "`json`, `ndjson` or `csv`.", example = "json"),
    ),
    responses(shapes::SeriesResponses)
)]
pub(super) async fn series(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    let asking = async {
        let params = Params::read(query, params::SERIES)?;
        let (question, verdicts) = (params.series(now_s(&service))?, params.verdicts()?);
        let format = params.format()?;
        let mut answer = ask(&service, move |history| history.series(&question)).await?;
        if let Some(verdicts) = verdicts {
            answer.keep(|curve| verdicts.iter().any(|verdict| verdict.name() == curve.verdict));
        }
        Ok(respond(format, &answer))
    };
    answered(asking.await)
}

/// The routes, rules or keys with the most, and the rest in one row.
#[utoipa::path(
    get, path = "/v1/history/top", tag = "history", operation_id = "history_top",
    params(
        ("by" = Option<String>, Query, description = "`route`, `rule` or `key`.", example = "route"),
        ("from" = Option<String>, Query, description = "RFC 3339, unix seconds, or `now-6h`.", example = "now-1h"),
        ("to" = Option<String>, Query, description = "The same; now if absent.", example = "now"),
        ("last" = Option<String>, Query, description = "A span before `to`, in place of `from`; a day if both are absent.", example = "1h"),
        ("order" = Option<String>, Query, description = "`total` or `denied`.", example = "total"),
        ("limit" = Option<u64>, Query, description = "Rows at most; 100 if absent.", example = 10),
        ("format" = Option<String>, Query, description = "`json`, `ndjson` or `csv`.", example = "json"),
    ),
    responses(shapes::TopResponses)
)]
pub(super) async fn top(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    let asking = async {
        let params = Params::read(query, params::TOP)?;
        let ((question, order), format) = (params.top(now_s(&service))?, params.format()?);
        Ok(respond(format, &ask(&service, move |history| history.top_by(&question, order)).await?))
    };
    answered(asking.await)
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
    responses(shapes::SummaryResponses)
)]
pub(super) async fn summary(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    let asking = async {
        let params = Params::read(query, params::SUMMARY)?;
        let (span, format) = (params.span(now_s(&service))?, params.format()?);
        Ok(respond(format, &ask(&service, move |history| history.summary(span)).await?))
    };
    answered(asking.await)
}

/// What one can ask by, and how many names there are.
#[utoipa::path(
    get,
    path = "/v1/history/labels",
    tag = "history",
    operation_id = "history_labels",
    responses(shapes::LabelsResponses)
)]
pub(super) async fn labels(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    let asking = async {
        Params::read(query, &[])?;
        let count = |history: &Kept, by: By| LabelBody {
            name: by.name(),
            values: history.names(by, "", usize::MAX).len(),
        };
        let labels = ask(&service, move |history| Ok(By::ALL.map(|by| count(history, by)))).await?;
        let verdicts = Outcome::ALL.map(Outcome::name);
        Ok(answers::json(&LabelsBody { labels: labels.into(), verdicts: verdicts.into() }))
    };
    answered(asking.await)
}

/// The names that begin so, sorted.
#[utoipa::path(
    get, path = "/v1/history/labels/{name}/values", tag = "history", operation_id = "history_label_values",
    params(
        ("name" = String, Path, description = "`route`, `rule` or `key`.", example = "route"),
        ("prefix" = Option<String>, Query, description = "How they begin.", example = "/c"),
        ("limit" = Option<u64>, Query, description = "How many at most; 1000 if absent.", example = 10),
    ),
    responses(shapes::ValuesResponses)
)]
pub(super) async fn values(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    query: RawQuery,
) -> Response {
    let asking = async {
        let params = Params::read(query, params::VALUES)?;
        let by: By = name.parse().map_err(|_| V1Error::NoSuchPath {
            path: format!("/v1/history/labels/{name}/values; there are route, rule and key"),
        })?;
        let limit = params.number("limit", NAMES_MAX, NAMES_MAX)?;
        let start = params.text("prefix").unwrap_or_default().to_owned();
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut values =
            ask(&service, move |history| Ok(history.names(by, &start, most.saturating_add(1)))).await?;
        let more = values.len() > most;
        values.truncate(most);
        Ok(answers::json(&ValuesBody { name: by.name(), values, more }))
    };
    answered(asking.await)
}

/// How history itself is doing: what is kept, what waits, what was lost.
#[utoipa::path(
    get,
    path = "/v1/history/status",
    tag = "history",
    operation_id = "history_status",
    responses(shapes::StatusResponses)
)]
pub(super) async fn status(State(service): State<Arc<Service>>, query: RawQuery) -> Response {
    let asking = async {
        Params::read(query, &[])?;
        let (keeper, now) = (Arc::clone(keeper(&service)?), service.now());
        // Only a panic could end it early.
        let looking = tokio::task::spawn_blocking(move || keeper.look(now)).await;
        let status = looking.map_err(|_| V1Error::from(Unanswered::Broken))?;
        Ok(answers::json(&status))
    };
    answered(asking.await)
}

#[derive(Debug, Serialize)]
struct LabelsBody {
    labels: Vec<LabelBody>,
    verdicts: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct LabelBody {
    name: &'static str,
    values: usize,
}

#[derive(Debug, Serialize)]
struct ValuesBody {
    name: &'static str,
    values: Vec<String>,
    /// Whether there are more than these.
    more: bool,
}

fn now_s(service: &Service) -> u64 {
    service.now().get() / 1_000_000
}

fn keeper(service: &Service) -> Result<&Arc<Keeper>, V1Error> {
    service.history().ok_or_else(|| Unanswered::Off.into())
}

async fn ask<T: Send + 'static>(
    service: &Service,
    question: impl Fn(&Kept) -> Result<T, Error> + Send + 'static,
) -> Result<T, V1Error> {
    Ok(keeper(service)?.ask(service.now(), question).await?)
}

fn answered(answer: Result<Response, V1Error>) -> Response {
    answer.unwrap_or_else(|error| to_wire::error(&error).into())
}

impl From<Unanswered> for V1Error {
    fn from(why: Unanswered) -> Self {
        let (status, fix) = match why {
            Unanswered::Off => {
                (StatusCode::SERVICE_UNAVAILABLE, "start the server with TOLLGATE_HISTORY=true")
            }
            Unanswered::Closed { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "see the log and /v1/history/status, and ask again")
            }
            Unanswered::Busy | Unanswered::Slow => {
                (StatusCode::SERVICE_UNAVAILABLE, "ask again later, or about a shorter time")
            }
            Unanswered::Broken | Unanswered::History(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "see the log and /v1/history/status")
            }
        };
        Self::History { status, detail: why.to_string(), fix }
    }
}
