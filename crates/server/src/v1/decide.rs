//! `/v1/check`, `/v1/peek`, `/v1/report` and `/v1/refund`.
//!
//! One request is answered with 200 or 429. A batch is answered with 200 and a
//! verdict for each of its requests, which are decided one after the other.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use hyper::body::Bytes;
use tollgate_core::Operation;

use super::from_wire::{self, Asked};
use super::openapi::{BodySchema, DecidedSchema};
use super::refusal::Refusal;
use super::to_wire;
use crate::body;
use crate::bounds::JSON_BODY_MAX;
use crate::metrics::Call;
use crate::service::Service;
use crate::tell::Told;

/// May this happen? Takes its cost if so.
#[utoipa::path(
    post, path = "/v1/check", tag = "decide", operation_id = "check",
    request_body = BodySchema,
    responses(DecidedSchema)
)]
pub(super) async fn check(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    answer(&service, Operation::Check, request).await
}

/// What would a check answer? Changes nothing.
#[utoipa::path(
    post, path = "/v1/peek", tag = "decide", operation_id = "peek",
    request_body = BodySchema,
    responses(DecidedSchema)
)]
pub(super) async fn peek(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    answer(&service, Operation::Peek, request).await
}

/// This has happened: takes its cost even where it does not fit.
#[utoipa::path(
    post, path = "/v1/report", tag = "decide", operation_id = "report",
    request_body = BodySchema,
    responses(DecidedSchema)
)]
pub(super) async fn report(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    answer(&service, Operation::Report, request).await
}

/// This has not happened after all: gives its cost back, never above full.
#[utoipa::path(
    post, path = "/v1/refund", tag = "decide", operation_id = "refund",
    request_body = BodySchema,
    responses(DecidedSchema)
)]
pub(super) async fn refund(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    answer(&service, Operation::Refund, request).await
}

async fn answer(service: &Service, operation: Operation, request: Request<Body>) -> Response {
    let start = service.now();
    let answered = decide(service, operation, request).await;
    service.metrics().served(Call::Http, service.now().since(start));
    answered.unwrap_or_else(|refusal| to_wire::refuse(&refusal))
}

async fn decide(
    service: &Service,
    operation: Operation,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    let bytes = take(request).await?;
    match from_wire::body(&bytes)? {
        from_wire::Body::One(asked) => decide_one(service, operation, &asked, to_wire::one).await,
        from_wire::Body::Batch(batch) => {
            let mut replies = to_wire::Replies::new(batch.len());
            for asked in &batch {
                let add = |told: &Told<'_>| replies.add(told);
                decide_one(service, operation, asked, add).await?;
            }
            Ok(replies.respond())
        }
    }
}

/// Decides one request, and hands what there is to tell about it to `tell`.
async fn decide_one<R>(
    service: &Service,
    operation: Operation,
    asked: &Asked<'_>,
    tell: impl FnOnce(&Told<'_>) -> R,
) -> Result<R, Refusal> {
    let entries = asked.entries();
    let descriptors = asked.descriptors(&entries, operation == Operation::Refund);
    let request = asked.request(&descriptors);
    let answer = service.operate(&request, operation).await?;
    Ok(tell(&Told::new(service.answers(), &request, &answer)))
}

/// The bytes of a request whose body is JSON.
pub(super) async fn take(request: Request<Body>) -> Result<Bytes, Refusal> {
    if !is_json(request.headers()) {
        return Err(Refusal::MediaType);
    }
    Ok(body::take(request.into_body(), JSON_BODY_MAX).await?)
}

/// Whether a body is JSON, or not said to be anything else.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return true };
    let kind = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let lower = kind.to_ascii_lowercase();
    lower == b"application/json" || (lower.starts_with(b"application/") && lower.ends_with(b"+json"))
}
