//! `/v1/keys` of the admin listener: what the counters of a key hold, and
//! forgetting it.
//!
//! A key is named as a request is: `?domain=shop&user_id=42`, with the entries
//! in their order, or by the body of a check.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use hyper::body::Bytes;
use serde::Serialize;
use tollgate_core::Operation;
use tollgate_limiter::Reply;
use utoipa::{IntoResponses, ToSchema};

use crate::bounds::{ENTRIES_MAX, KEY_MAX, VALUE_MAX};
use crate::http::v1::decide::{is_json, receive};
use crate::http::v1::error::{FieldError, V1Error};
use crate::http::v1::from_wire::{self, V1Request};
use crate::http::v1::schemas::RequestSchema;
use crate::http::v1::to_wire::{self, ProblemBody, VerdictName};
use crate::service::Service;

/// What the counters of a key hold.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(super) struct KeyBody<'a> {
    /// One for each limit that the key meets.
    counters: Vec<CounterBody<'a>>,
}

/// What one counter holds.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Counter)]
pub(super) struct CounterBody<'a> {
    /// Which descriptor of the request it is for, from 0.
    descriptor: usize,
    /// The rule's name, or its path if it has none.
    #[schema(nullable = false)]
    rule: Option<&'a str>,
    /// Where the rule stands: the domain and the levels, joined by dots.
    #[schema(nullable = false)]
    path: Option<&'a str>,
    /// The algorithm.
    algorithm: &'static str,
    /// What the limit lets through at once.
    limit: u64,
    /// What is taken.
    used: u64,
    /// How many of cost 1 would pass at this instant.
    remaining: u64,
    /// By how many percent the limit may be exceeded now, because it is soft, or elastic and the load is low.
    exceed_percent: u32,
    /// When it is as good as new, nothing else happening.
    reset_after_ms: u64,
    /// What a request of cost 1 would be told by this limit.
    next: VerdictName,
    /// When a request of cost 1 would pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_after_ms: Option<u64>,
    /// Why it would be denied, if not because the limit is used up: `penalty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
    /// What it says is not enforced.
    shadow: bool,
    /// It was looked up without the store, which could not be asked.
    degraded: bool,
    /// The limit is that of an override and not that of the rule; absent if not.
    #[serde(skip_serializing_if = "to_wire::is_false")]
    overridden: bool,
}

/// What came of a reset.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reset)]
pub(super) struct ResetBody {
    /// How many counters held anything.
    forgotten: usize,
}

type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// What comes back for a look at a key.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum InspectedSchema {
    /// What its counters hold.
    #[response(status = 200)]
    Fine(KeyBody<'static>),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// What comes back for a reset.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
enum ForgottenSchema {
    /// The key is as good as new.
    #[response(status = 200)]
    Fine(ResetBody),
    /// The request is not as it must be.
    #[response(status = "4XX", content_type = "application/problem+json")]
    Bad(ProblemBody<'static>),
    /// No rules are loaded yet.
    #[response(status = 503, content_type = "application/problem+json")]
    Later(ProblemBody<'static>),
}

/// Looks at the key of a query.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys", operation_id = "inspect",
    params(
        ("domain" = String, Query, min_length = 1, description = "The domain of a rule file.", example = "shop"),
        ("key" = String, Query, description = "Each further parameter is an entry of the descriptor, in order; `key` stands for any name.", example = "value"),
    ),
    responses(InspectedSchema)
)]
pub(super) async fn inspect(State(service): State<Arc<Service>>, query: Pairs) -> Response {
    respond(async { look(&service, &from_query(query)?).await }.await)
}

/// Looks at the key of a body.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", operation_id = "inspect_by_body",
    request_body = RequestSchema,
    responses(InspectedSchema)
)]
pub(super) async fn inspect_body(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    respond(async { look(&service, &from_body(&receive_json(request).await?)?).await }.await)
}

/// Forgets the key of a query.
#[utoipa::path(
    delete, path = "/v1/keys", tag = "keys", operation_id = "reset",
    params(
        ("domain" = String, Query, min_length = 1, description = "The domain of a rule file.", example = "shop"),
        ("key" = String, Query, description = "Each further parameter is an entry of the descriptor, in order; `key` stands for any name.", example = "value"),
    ),
    responses(ForgottenSchema)
)]
pub(super) async fn reset(State(service): State<Arc<Service>>, query: Pairs) -> Response {
    respond(async { forget(&service, &from_query(query)?).await }.await)
}

/// Forgets the key of a body.
#[utoipa::path(
    post, path = "/v1/keys/reset", tag = "keys", operation_id = "reset_by_body",
    request_body = RequestSchema,
    responses(ForgottenSchema)
)]
pub(super) async fn reset_body(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    respond(async { forget(&service, &from_body(&receive_json(request).await?)?).await }.await)
}

pub(super) fn respond(answered: Result<Response, V1Error>) -> Response {
    answered.unwrap_or_else(|error| to_wire::error(&error).into())
}

async fn look(service: &Service, wire: &V1Request<'_>) -> Result<Response, V1Error> {
    let entries = wire.entries();
    let descriptors = wire.descriptors(&entries, false);
    let request = wire.request(&descriptors);
    let at = service.now();
    let now = service.operate(&request.with_cost(0), Operation::Peek, at).await?;
    let next = service.operate(&request.with_cost(1), Operation::Peek, at).await?;
    let counters = now.decisions.iter().enumerate().map(|(index, _)| counter(&now, &next, index));
    Ok(to_wire::respond(&KeyBody { counters: counters.flatten().collect() }))
}

fn counter<'a>(now: &'a Reply, next: &Reply, index: usize) -> Option<CounterBody<'a>> {
    let decision = now.decisions.get(index)?;
    // Between the two looks the rules may have changed.
    let next = next.decisions.get(index).unwrap_or(decision);
    let rule = now.rule(decision);
    Some(CounterBody {
        descriptor: decision.descriptor,
        rule: rule.map(|rule| rule.name()),
        path: rule.map(|rule| rule.path.as_str()),
        algorithm: decision.algorithm.name(),
        limit: decision.limit,
        used: decision.used,
        remaining: decision.remaining,
        exceed_percent: decision.exceed_percent,
        reset_after_ms: decision.reset_after.as_millis_ceil(),
        next: next.verdict.into(),
        next_after_ms: to_wire::next_after_ms(next.verdict),
        reason: next.reason(),
        shadow: decision.mode.is_shadow(),
        degraded: decision.degraded,
        overridden: now.is_overridden(decision),
    })
}

async fn forget(service: &Service, wire: &V1Request<'_>) -> Result<Response, V1Error> {
    let entries = wire.entries();
    let descriptors = wire.descriptors(&entries, false);
    let request = wire.request(&descriptors);
    let forgotten = service.reset(&request).await?;
    // What operators change by hand is told; the names are a stranger's, so they are quoted.
    tracing::info!(domain = ?request.domain, descriptors = ?request.descriptors, forgotten, "a key was reset");
    Ok(to_wire::respond(&ResetBody { forgotten }))
}

/// The body of a request. What changes a counter must be said to be JSON.
pub(super) async fn receive_json(request: Request<Body>) -> Result<Bytes, V1Error> {
    if !is_json(request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes())) {
        return Err(V1Error::MediaType);
    }
    Ok(receive(request).await?.bytes)
}

/// The key that a body names.
fn from_body(bytes: &[u8]) -> Result<V1Request<'_>, V1Error> {
    if from_wire::is_batch(bytes) { Err(FieldError::OneKey.at("")) } else { from_wire::request(bytes) }
}

/// The key that a query names.
fn from_query(query: Pairs) -> Result<V1Request<'static>, V1Error> {
    let Query(mut pairs) = query.map_err(|_| FieldError::Query.at(""))?;
    let domain = pairs.iter().position(|(key, _)| key == "domain").map(|at| pairs.remove(at).1);
    let domain =
        domain.filter(|domain| !domain.is_empty()).ok_or_else(|| FieldError::Domain.at("/domain"))?;
    let is_long = |(key, value): &(String, String)| key.len() > KEY_MAX || value.len() > VALUE_MAX;
    if pairs.is_empty() || pairs.len() > ENTRIES_MAX || domain.len() > KEY_MAX || pairs.iter().any(is_long) {
        return Err(FieldError::Query.at(""));
    }
    Ok(V1Request::from_entries(domain, pairs))
}
