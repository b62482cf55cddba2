//! Tollgate's own HTTP interface.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | JSON → requests |
//! | `to_wire` | answers → JSON; errors → problems |
//! | `refusal` | why a call gets no answer, and what to send instead |
//! | `decide` | `/v1/check`, `/v1/peek`, `/v1/report`, `/v1/refund` |
//! | `history` | `/v1/history` of the admin listener: how many, of what, when |
//! | `keys` | `/v1/keys` of the admin listener: a key is looked at or reset |
//! | `rules` | `/v1/rules` of the admin listener: the rules in force |
//! | `openapi` | the documents that describe all of it |
//!
//! Deliberately not here: connections and their bounds (`listen`), and what
//! people are told besides (`tell`).

mod decide;
mod from_wire;
mod history;
mod keys;
mod openapi;
mod refusal;
mod rules;
mod to_wire;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};

use crate::service::Service;
use refusal::Refusal;

pub(crate) use decide::{answer, operation};
pub(crate) use to_wire::Written;

/// The paths for callers of the limiter.
pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/check", only("POST", post(decide::check)))
        .route("/v1/peek", only("POST", post(decide::peek)))
        .route("/v1/report", only("POST", post(decide::report)))
        .route("/v1/refund", only("POST", post(decide::refund)))
        .route("/v1/openapi.json", only("GET", get(openapi::for_callers)))
        .with_state(service)
}

/// The paths for operators.
pub(crate) fn admin_router() -> Router<Arc<Service>> {
    let keys = get(keys::inspect).post(keys::inspect_body).delete(keys::reset);
    Router::new()
        .route("/v1/keys", only("GET, POST, DELETE", keys))
        .route("/v1/keys/reset", only("POST", post(keys::reset_body)))
        .route("/v1/rules", only("GET", get(rules::list)))
        .route("/v1/history/series", only("GET", get(history::series)))
        .route("/v1/history/top", only("GET", get(history::top)))
        .route("/v1/history/summary", only("GET", get(history::summary)))
        .route("/v1/history/labels", only("GET", get(history::labels)))
        .route("/v1/history/labels/{name}/values", only("GET", get(history::values)))
        .route("/v1/history/status", only("GET", get(history::status)))
        .route("/v1/openapi.json", only("GET", get(openapi::for_operators)))
}

/// The answer for a path that is none.
pub(crate) async fn no_such_path(uri: Uri) -> Response {
    to_wire::refuse(&Refusal::NoSuchPath { path: uri.path().to_owned() })
}

/// Refuses other methods than `allowed` with a problem that names them.
fn only(allowed: &'static str, methods: MethodRouter<Arc<Service>>) -> MethodRouter<Arc<Service>> {
    methods.fallback(async move || to_wire::refuse(&Refusal::Method { allowed }))
}
