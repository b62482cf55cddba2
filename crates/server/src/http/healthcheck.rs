//! `/healthcheck`: 200 `OK` or 500, and `?verbose` for the reasons.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::Context;
use crate::source::RuleStatus;

/// What `?verbose` tells.
#[derive(Serialize)]
struct Verbose<'a> {
    healthy: bool,
    components: Components,
    rules: Rules<'a>,
    addresses: Addresses,
}

/// What must be well.
#[derive(Serialize)]
struct Components {
    /// The rules are as they should be.
    config: &'static str,
    /// The store answers; `degraded` where limits are decided without it.
    store: &'static str,
    /// The process is not about to end.
    sigterm: &'static str,
}

#[derive(Serialize)]
struct Rules<'a> {
    origin: &'a str,
    loaded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded_at_unix_s: Option<u64>,
    files: &'a [String],
    domains: usize,
    rules: usize,
    loads: u64,
    failures: u64,
    warnings: &'a [String],
    /// Why the newest set was refused; empty if it is in force.
    errors: &'a [String],
    /// Why nothing new can come, such as a server that cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_error: Option<&'a str>,
}

#[derive(Serialize)]
struct Addresses {
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
    let verbose = Verbose {
        healthy: state.is_healthy(),
        components: Components {
            config: word(state.config),
            store: match (state.store, state.needs_store) {
                (true, _) => "ok",
                (false, false) => "degraded",
                (false, true) => "failed",
            },
            sigterm: word(!state.stopping),
        },
        rules: rules(&known),
        addresses: Addresses {
            grpc: context.addresses.grpc.to_string(),
            http: context.addresses.http.to_string(),
            admin: context.addresses.admin.to_string(),
            prometheus: context.addresses.prometheus.map(|address| address.to_string()),
        },
    };
    (status, Json(verbose)).into_response()
}

fn is_verbose(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "verbose" | "verbose=" | "verbose=1" | "verbose=true"))
}

fn rules(known: &RuleStatus) -> Rules<'_> {
    Rules {
        origin: &known.origin,
        loaded: known.is_loaded(),
        loaded_at_unix_s: known.loaded_at.map(|at| at.get() / 1_000_000),
        files: &known.files,
        domains: known.domains,
        rules: known.rules,
        loads: known.loads,
        failures: known.failures,
        warnings: &known.warnings,
        errors: known.last_error.as_ref().map_or(&[], |failure| &failure.problems),
        source_error: known.source_error.as_deref(),
    }
}
