//! HTTP: `/json` and `/healthcheck`, as Envoy's rate limit service has them, and `/v1`.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | JSON → Envoy's request |
//! | `to_wire` | Envoy's response → JSON; errors → status codes |
//! | `json` | `/json` |
//! | `healthcheck` | `/healthcheck` |
//! | `direct` | requests to `/v1/check` and its like that come whole |
//! | `serve` | connections, with TLS or without |
//!
//! Deliberately not here: connections and their bounds (`listen`), and what
//! Envoy's messages mean (`grpc`).

mod direct;
mod from_wire;
mod healthcheck;
mod json;
mod serve;
mod to_wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

use crate::authz::{self, Authz};
use crate::listen::Addresses;
use crate::service::Service;
use crate::v1;

pub(crate) use serve::ServeHttp;
pub(crate) use to_wire::whole;

/// What the handlers need.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) service: Arc<Service>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) authz: Arc<Authz>,
}

/// All paths of the HTTP listener.
pub(crate) fn router(context: Context) -> Router {
    let v1 = v1::router(Arc::clone(&context.service));
    let authz = authz::router(Arc::clone(&context.service), Arc::clone(&context.authz));
    Router::new()
        .route("/json", any(json::answer))
        .route("/healthcheck", any(healthcheck::answer))
        .with_state(context)
        .merge(v1)
        .merge(authz)
        .fallback(v1::no_such_path)
}
