//! `/healthcheck`: 200 `OK` or 500, and `?verbose` for the reasons.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Context;
use crate::source::RuleStatus;

/// What `?verbose` tells.
#[derive(Serialize)]
struct HealthBody<'a> {
    healthy: bool,
    components: HealthComponents,
    /// Which server of the store cannot be asked, why in its own words, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_error: Option<String>,
    rules: RuleStatusBody<'a>,
    addresses: AddressesBody,
}

/// What must be well.
#[derive(Serialize)]
struct HealthComponents {
    /// The rules are as they should be.
    config: &'static str,
    /// The store answers; `degraded` where limits are decided without it.
    store: &'static str,
    /// The process is not about to end.
    sigterm: &'static str,
}

/// How the rules came to be.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RuleStatus)]
pub(crate) struct RuleStatusBody<'a> {
    /// Where they come from.
    origin: &'a str,
    /// Whether any are in force.
    loaded: bool,
    /// When they were loaded, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    loaded_at_unix_s: Option<u64>,
    /// The files, or the resources of an xDS server.
    files: &'a [String],
    /// How many domains.
    domains: usize,
    /// How many rules.
    rules: usize,
    /// How many loads succeeded, ever.
    loads: u64,
    /// How many failed, ever.
    failures: u64,
    /// What is odd about them.
    warnings: &'a [String],
    /// Why the newest set was refused; empty if it is in force.
    errors: &'a [String],
    /// The first of them, each with the line of the file that it is about.
    error_excerpts: &'a [String],
    /// Why nothing new can come, such as a server that cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    source_error: Option<&'a str>,
}

#[derive(Serialize)]
struct AddressesBody {
    grpc: String,
    http: String,
    admin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prometheus: Option<String>,
}

/// Answers a request.
pub(super) async fn answer(State(context): State<Context>, RawQuery(query): RawQuery) -> Response {
    let health = context.service.health();
    let state = health.state();
    let status = if state.is_healthy() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if !query.is_some_and(|query| is_verbose(&query)) {
        return if state.is_healthy() { (status, "OK").into_response() } else { status.into_response() };
    }
    let word = |is_well: bool| if is_well { "ok" } else { "failed" };
    let known = health.rules();
    let body = HealthBody {
        healthy: state.is_healthy(),
        components: HealthComponents {
            config: word(state.config),
            store: match (state.store, state.needs_store) {
                (true, _) => "ok",
                (false, false) => "degraded",
                (false, true) => "failed",
            },
            sigterm: word(!state.stopping),
        },
        store_error: context.service.limiter().store().outage(),
        rules: RuleStatusBody::from(&*known),
        addresses: AddressesBody {
            grpc: context.addresses.grpc.to_string(),
            http: context.addresses.http.to_string(),
            admin: context.addresses.admin.to_string(),
            prometheus: context.addresses.prometheus.map(|address| address.to_string()),
        },
    };
    (status, Json(body)).into_response()
}

fn is_verbose(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "verbose" | "verbose=" | "verbose=1" | "verbose=true"))
}

impl<'a> From<&'a RuleStatus> for RuleStatusBody<'a> {
    fn from(status: &'a RuleStatus) -> Self {
        Self {
            origin: &status.origin,
            loaded: status.is_loaded(),
            loaded_at_unix_s: status.loaded_at.map(|at| at.get() / 1_000_000),
            files: &status.files,
            domains: status.domains,
            rules: status.rules,
            loads: status.loads,
            failures: status.failures,
            warnings: &status.warnings,
            errors: status.last_error.as_ref().map_or(&[], |failure| &failure.problems),
            error_excerpts: status.last_error.as_ref().map_or(&[], |failure| &failure.excerpts),
            source_error: status.source_error.as_deref(),
        }
    }
}
