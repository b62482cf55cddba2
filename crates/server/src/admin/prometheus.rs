//! A part of Prometheus' HTTP API on the admin listener, over history.
//!
//! Grafana and `promtool` read a history with it as they read Prometheus: the URL of the
//! data source is `http://ADMIN/prometheus`.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | parameters of a query or a form → when, and which expression |
//! | `to_wire` | values and errors → JSON as Prometheus writes it |
//!
//! Deliberately not here: the query language; `tollgate_history::promql` knows it.

mod from_wire;
mod to_wire;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::get;
use tollgate_history::promql::{self, Instants, LabelSet, Metric, PromValue};
use tollgate_history::query::HistoryReader;

use crate::history::HistoryQueryError;
use crate::service::Service;
use from_wire::PromParams;
use to_wire::{PromApiError, respond};

/// Label sets and label values of one response, at most.
const ROWS_MAX: usize = 10_000;

/// The paths of the API.
pub(crate) fn router() -> Router<Arc<Service>> {
    Router::new()
        .route("/prometheus", get(about))
        .route("/prometheus/", get(about))
        .route("/prometheus/api/v1/query", get(query).post(query))
        .route("/prometheus/api/v1/query_range", get(query_range).post(query_range))
        .route("/prometheus/api/v1/series", get(series).post(series))
        .route("/prometheus/api/v1/labels", get(labels).post(labels))
        .route("/prometheus/api/v1/label/{name}/values", get(values))
        .route("/prometheus/api/v1/metadata", get(metadata))
        .route("/prometheus/api/v1/status/buildinfo", get(build))
}

async fn query(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let response = async {
        let params = PromParams::read(request).await?;
        let at_ms = params.instant("time")?.unwrap_or_else(|| service.now().get() / 1_000);
        let instants = Instants::One { at_ms };
        let value = evaluate(&service, params.expression()?, instants).await?;
        Ok(to_wire::instant(&value, at_ms))
    };
    respond(response.await)
}

async fn query_range(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let response = async {
        let params = PromParams::read(request).await?;
        let instants = params.range()?;
        let value = evaluate(&service, params.expression()?, instants).await?;
        Ok(to_wire::range(&value, instants))
    };
    respond(response.await)
}

async fn series(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let response = async {
        let params = PromParams::read(request).await?;
        let selectors = params.selectors();
        if selectors.is_empty() {
            return Err(PromApiError::bad("there is no match[]; send one such as tollgate_requests_total"));
        }
        let found = run(&service, move |reader| {
            let mut all: Vec<LabelSet> = Vec::new();
            for selector in &selectors {
                let rest = ROWS_MAX.saturating_sub(all.len());
                all.extend(reader.promql_series(selector, rest)?);
            }
            Ok(all)
        });
        Ok(to_wire::label_sets(&found.await?))
    };
    respond(response.await)
}

async fn labels() -> Response {
    respond(Ok(to_wire::texts(&promql::LABELS)))
}

async fn values(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Response {
    let response = async {
        let selectors = PromParams::read(request).await?.selectors();
        let found = run(&service, move |reader| reader.promql_values(&name, &selectors, ROWS_MAX));
        Ok(to_wire::texts(&found.await?))
    };
    respond(response.await)
}

async fn metadata(request: Request<Body>) -> Response {
    let response = async {
        let params = PromParams::read(request).await?;
        let is_wanted = |metric: &Metric| params.metric().is_none_or(|name| name == metric.name());
        let wanted: Vec<Metric> = Metric::ALL.into_iter().filter(is_wanted).collect();
        Ok(to_wire::metadata(&wanted))
    };
    respond(response.await)
}

/// For whoever opens the address of the data source in a browser.
async fn about() -> &'static str {
    "This is the address of a Prometheus data source: add it in Grafana, or run\n  \
     promtool query instant http://THIS-HOST/prometheus 'sum(rate(tollgate_requests_total[5m]))'\n\
     What it answers is under /prometheus/api/v1/.\n"
}

async fn build() -> Response {
    respond(Ok(to_wire::build()))
}

async fn evaluate(
    service: &Service,
    expression: String,
    instants: Instants,
) -> Result<PromValue, PromApiError> {
    run(service, move |reader| reader.promql(&expression, instants)).await
}

/// Runs a query. An error of the language is not an error of the history.
async fn run<R: Send + 'static>(
    service: &Service,
    query: impl Fn(&HistoryReader<'_>) -> Result<R, promql::Error> + Send + 'static,
) -> Result<R, PromApiError> {
    let history = service.history().ok_or(HistoryQueryError::Off)?;
    let result = history.query(service.now(), move |reader| match query(reader) {
        Err(promql::Error::History(error)) => Err(error),
        result => Ok(result),
    });
    Ok(result.await??)
}
