//! A part of Prometheus' HTTP interface on the admin listener, over history.
//!
//! Grafana and `promtool` read a history with it as they read Prometheus: the
//! address of the data source is `http://ADMIN/prometheus`.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | parameters of a query or a form → when, and which expression |
//! | `to_wire` | values and errors → JSON as Prometheus writes it |
//!
//! Deliberately not here: the language; `tollgate_history::promql` knows it.

mod from_wire;
mod to_wire;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use tollgate_history::promql::{self, Instants, Labels, Metric, Value};

use crate::history::{Kept, Unanswered};
use crate::service::Service;
use from_wire::Params;
use to_wire::{Refusal, respond};

/// Label sets and label values that one answer has at most.
const ROWS_MAX: usize = 10_000;

/// The paths that tools of Prometheus ask at.
pub(crate) fn router() -> Router<Arc<Service>> {
    let both = |handler: fn() -> MethodRouter<Arc<Service>>| handler();
    Router::new()
        .route("/prometheus/api/v1/query", both(|| get(query).post(query)))
        .route("/prometheus/api/v1/query_range", both(|| get(query_range).post(query_range)))
        .route("/prometheus/api/v1/series", both(|| get(series).post(series)))
        .route("/prometheus/api/v1/labels", both(|| get(labels).post(labels)))
        .route("/prometheus/api/v1/label/{name}/values", get(values))
        .route("/prometheus/api/v1/metadata", get(metadata))
        .route("/prometheus/api/v1/status/buildinfo", get(build))
}

async fn query(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let asking = async {
        let params = Params::read(request).await?;
        let at_ms = params.instant("time")?.unwrap_or_else(|| service.now().get() / 1_000);
        let instants = Instants::One { at_ms };
        let value = evaluated(&service, params.expression()?, instants).await?;
        Ok(to_wire::instant(&value, at_ms))
    };
    respond(asking.await)
}

async fn query_range(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let asking = async {
        let params = Params::read(request).await?;
        let instants = params.range()?;
        let value = evaluated(&service, params.expression()?, instants).await?;
        Ok(to_wire::range(&value, instants))
    };
    respond(asking.await)
}

async fn series(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let asking = async {
        let params = Params::read(request).await?;
        let selectors = params.selectors();
        if selectors.is_empty() {
            return Err(Refusal::bad("there is no match[]; send one such as tollgate_requests_total"));
        }
        let found = ask(&service, move |history| {
            let mut all: Vec<Labels> = Vec::new();
            for selector in &selectors {
                let rest = ROWS_MAX.saturating_sub(all.len());
                all.extend(history.promql_series(selector, rest)?);
            }
            Ok(all)
        });
        Ok(to_wire::label_sets(&found.await?))
    };
    respond(asking.await)
}

async fn labels() -> Response {
    respond(Ok(to_wire::texts(&promql::LABELS)))
}

async fn values(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Response {
    let asking = async {
        let found = ask(&service, move |history| Ok(history.promql_values(&name, ROWS_MAX)));
        Ok(to_wire::texts(&found.await?))
    };
    respond(asking.await)
}

async fn metadata() -> Response {
    respond(Ok(to_wire::metadata(&Metric::ALL)))
}

async fn build() -> Response {
    respond(Ok(to_wire::build()))
}

async fn evaluated(service: &Service, expression: String, instants: Instants) -> Result<Value, Refusal> {
    ask(service, move |history| history.promql(&expression, instants)).await
}

/// Asks history; what the language says about a question is no failure of history.
async fn ask<T: Send + 'static>(
    service: &Service,
    question: impl Fn(&Kept) -> Result<T, promql::Error> + Send + 'static,
) -> Result<T, Refusal> {
    let keeper = service.history().ok_or(Unanswered::Off)?;
    let asked = keeper.ask(service.now(), move |history| match question(history) {
        Err(promql::Error::History(error)) => Err(error),
        answer => Ok(answer),
    });
    Ok(asked.await??)
}
