//! Tollgate's own HTTP interface.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | JSON → requests |
//! | `to_wire` | answers → JSON; errors → problems |
//! | `error` | why a call gets no answer, and what to send instead |
//! | `decide` | `/v1/check`, `/v1/peek`, `/v1/report`, `/v1/refund` |
//! | `defer` | `/v1/defer` and `/v1/deferred/ID`: requests that are sent later |
//! | `batch` | the answer to several requests in one body, part by part |
//! | `deferred_schemas` | how the latter are described |
//! | `openapi` | the document that describes all of it |
//!
//! Deliberately not here: connections and their bounds (`listen`), what callers
//! are told besides (`tollgate_http::response`), and the paths of the admin listener (`admin`).

mod batch;
pub(crate) mod decide;
mod defer;
mod deferred_schemas;
pub(crate) mod error;
pub(crate) mod from_wire;
pub(crate) mod openapi;
pub(crate) mod schemas;
pub(crate) mod to_wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};

use crate::service::Service;
use error::V1Error;

pub(crate) use batch::{BatchParts, ResponseBody};
pub(crate) use decide::{answer, operation};
pub(crate) use to_wire::{JSON, V1Response};

/// The paths for callers of the limiter.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let mut router = Router::new().route("/v1/openapi.json", only("GET", get(openapi::document)));
    for (path, operation, _) in decide::PATHS {
        let answer = move |State(service), request| decide::receive_and_answer(service, operation, request);
        router = router.route(path, only("POST", post(answer)));
    }
    router
        .route("/v1/defer", only("POST", post(defer::take)))
        .route("/v1/deferred/{id}", only("GET", get(defer::status)))
        .with_state(service)
}

/// The answer for a path that is none.
pub(crate) async fn no_such_path(uri: Uri) -> Response {
    to_wire::error(&V1Error::NoSuchPath { path: uri.path().to_owned() }).into()
}

/// Refuses other methods than `allowed` with a problem that names them.
pub(crate) fn only(allowed: &'static str, methods: MethodRouter<Arc<Service>>) -> MethodRouter<Arc<Service>> {
    methods.fallback(async move || Response::from(to_wire::error(&V1Error::Method { allowed })))
}
