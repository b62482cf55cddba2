//! HTTP: `/json` and `/healthcheck`, as Envoy's rate limit service has them, and `/v1`.
//!
//! | module | what it holds |
//! |---|---|
//! | `json` | `/json`: Envoy's call as JSON |
//! | `v1` | Tollgate's own interface |
//! | `authz` | `/v1/authz`: proxies ask before they forward |
//! | `healthcheck` | `/healthcheck` |
//! | `direct` | requests to `/v1/check` and its like that come whole |
//! | `serve` | connections, with TLS or without |
//!
//! Deliberately not here: connections and their bounds (`listen`), and what
//! Envoy's messages mean (`grpc`).

mod authz;
mod direct;
mod healthcheck;
mod json;
mod serve;
pub(crate) mod v1;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

use crate::listen::Addresses;
use crate::service::Service;

pub(crate) use authz::{Authz, Peer};
pub(crate) use healthcheck::RuleStatusBody;
pub(crate) use serve::{ServeHttp, SharedBody};

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
    let authz = authz::router(context.clone());
    Router::new()
        .route("/json", any(json::answer))
        .route("/healthcheck", any(healthcheck::answer))
        .with_state(context)
        .merge(v1)
        .merge(authz)
        .fallback(v1::no_such_path)
}
