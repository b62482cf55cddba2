//! `/v1/defer`: a request is taken now, and sent to the gateway's upstream once its limits have room.
//! `/v1/deferred/ID`: what became of it.
//!
//! Invariants: it is kept before its caller is told so. A limit that does not say `over_limit: defer`
//! denies it as `/v1/check` would.
//!
//! Deliberately not here: sending (`crate::deferred`), and what a result looks like
//! (`tollgate_gateway::deferred_wire`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::Response;
use tollgate_core::{Micros, Operation};
use tollgate_defer::credentials::is_kept;
use tollgate_defer::{DeferService, DeferredId, TakeInError};
use tollgate_gateway::{DeferredParts, deferred_wire};
use tollgate_http::CallerView;
use tollgate_http::admission::deferral::Deferral;
use tollgate_http::response::{PROBLEM_JSON, ResponseHeaders};
use tollgate_metrics::Call;

use super::decide::receive;
use super::deferred_schemas::{DeferBodySchema, DeferredSchema, StatusSchema};
use super::error::{V1Error, escape};
use super::from_wire::{DeferCall, defer_call};
use super::to_wire::{self, JSON};
use crate::deferred::defers;
use crate::service::Service;
use tollgate_http::Checker as _;

/// Take this request now, and send it to the gateway's upstream once its limits have room.
#[utoipa::path(
    post, path = "/v1/defer", tag = "defer", operation_id = "defer",
    request_body = DeferBodySchema, responses(DeferredSchema)
)]
pub(super) async fn take(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let start = service.now();
    let taken = async {
        let received = receive(request).await?;
        take_in(&service, defer_call(&received.bytes)?).await
    };
    let taken = taken.await;
    service.metrics().served(Call::Http, service.now().since(start));
    taken.unwrap_or_else(|error| to_wire::error(&error).into())
}

async fn take_in(service: &Service, call: DeferCall<'_>) -> Result<Response, V1Error> {
    let deferring = deferring(service)?;
    check_call(deferring, &call)?;
    let entries = call.check.entries();
    let descriptors = call.check.descriptors(&entries, false);
    let request = call.check.request(&descriptors);
    let mut reply = service.ask(&request, Operation::Peek, service.now(), Micros::MAX).await?;
    if reply.deferring().is_none() && !reply.verdict.is_deny() {
        return Err(V1Error::NoAnswer {
            status: StatusCode::CONFLICT,
            detail: "no limit that this request meets puts anything off".to_owned(),
            fix: "write over_limit: defer on the limit, or send the request yourself",
        });
    }
    reply.line_up(Micros::ZERO);
    if !Deferral::is_possible(&reply) {
        // Another limit denies it, and counts it as it counts every other.
        let reply = service.operate(&request, Operation::Check, service.now()).await?;
        let view = CallerView::new(&service.answers().responses, &request, &reply);
        return Ok(to_wire::one(&view).into());
    }
    let deferral = Deferral::new(&request, reply);
    let kept = deferred_parts(&call).kept(&deferral, deferring.config(), service.calendar());
    let view = CallerView::new(&service.answers().responses, &request, deferral.reply());
    let mut headers: ResponseHeaders = view.headers();
    headers.retain(|(name, _)| *name != RETRY_AFTER);
    let (body, location) =
        (deferred_wire::taken(&kept, deferral.retry_after), deferred_wire::location(kept.id));
    let taken = deferring.take_in(kept, service.calendar()).await;
    if let Err(error) = taken {
        deferral.refused(service);
        return Err(refusal(&error));
    }
    headers.push((RETRY_AFTER, HeaderValue::from(deferral.retry_after.as_secs_ceil().max(1))));
    headers.push((LOCATION, HeaderValue::try_from(location).expect("an id is of letters and digits")));
    deferral.taken(service);
    Ok(to_wire::whole(StatusCode::ACCEPTED, JSON, headers, body))
}

/// What takes requests in, if anything does.
fn deferring(service: &Service) -> Result<&Arc<DeferService>, V1Error> {
    let (status, detail, fix) = match service.deferring() {
        None => (
            StatusCode::CONFLICT,
            "there is no gateway, which sends what is deferred",
            "start the server with --gateway and --upstream",
        ),
        Some(deferring) if deferring.handle().is_some() => return Ok(deferring),
        Some(_) if defers(&service.limiter().rules()) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the queue of deferred requests is not open",
            "send it again later, or see the log of the server for the reason",
        ),
        Some(_) => (
            StatusCode::CONFLICT,
            "no limit in force puts anything off",
            "write over_limit: defer on the limit, or send the request yourself",
        ),
    };
    Err(V1Error::NoAnswer { status, detail: detail.to_owned(), fix })
}

/// What is not kept must not be lost silently.
fn check_call(deferring: &DeferService, call: &DeferCall<'_>) -> Result<(), V1Error> {
    let config = deferring.config();
    if call.body.len() > config.max_body {
        return Err(refusal(&TakeInError::Body { max: config.max_body }));
    }
    let secret = call.headers.keys().find(|name| !is_kept(name.as_str(), &config.keep_headers));
    let Some(name) = secret else { return Ok(()) };
    Err(V1Error::Field {
        pointer: format!("/request/headers/{}", escape(name.as_str())),
        detail: "this header may hold credentials, which are not kept".to_owned(),
        fix: format!("leave it out, or set TOLLGATE_DEFER_KEEP_HEADERS={name}"),
    })
}

/// What its upstream is to get.
fn deferred_parts<'a>(call: &'a DeferCall<'_>) -> DeferredParts<'a> {
    DeferredParts {
        method: &call.method,
        host: call.host.as_deref(),
        path: call.path.as_str(),
        headers: call.headers.clone(),
        body: call.body.clone(),
    }
}

fn refusal(error: &TakeInError) -> V1Error {
    let (status, fix) = match error {
        TakeInError::Full => (StatusCode::TOO_MANY_REQUESTS, "send it again later"),
        TakeInError::Body { .. } => {
            (StatusCode::PAYLOAD_TOO_LARGE, "send less, or raise TOLLGATE_DEFER_MAX_BODY")
        }
        TakeInError::Closed | TakeInError::Store(_) | _ => {
            (StatusCode::SERVICE_UNAVAILABLE, "send it again later")
        }
    };
    V1Error::NoAnswer { status, detail: format!("the request is not taken: {error}"), fix }
}

/// What became of a request that was taken with 202.
#[utoipa::path(
    get, path = "/v1/deferred/{id}", tag = "defer", operation_id = "deferred",
    params(("id" = String, Path, description = "The id of the 202.", pattern = "^[0-9a-f]{32}$")),
    responses(StatusSchema)
)]
pub(super) async fn status(State(service): State<Arc<Service>>, Path(id): Path<String>) -> Response {
    let unknown = || V1Error::NoAnswer {
        status: StatusCode::NOT_FOUND,
        detail: "no request with this id is known, or its result is no longer kept".to_owned(),
        fix: "ask for the Location of a 202",
    };
    let (Some(deferring), Ok(id)) = (service.deferring(), id.parse::<DeferredId>()) else {
        return to_wire::error(&unknown()).into();
    };
    let Ok(known) = deferring.status(id).await else {
        let (status, detail) = (StatusCode::SERVICE_UNAVAILABLE, deferred_wire::UNREADABLE.to_owned());
        return to_wire::error(&V1Error::NoAnswer { status, detail, fix: "ask again later" }).into();
    };
    let mut headers = ResponseHeaders::from_iter([(CACHE_CONTROL, HeaderValue::from_static("no-store"))]);
    if known.as_ref().is_some_and(deferred_wire::is_open) {
        headers.push((RETRY_AFTER, HeaderValue::from(1)));
    }
    let (status, body) = deferred_wire::status(id, known.as_ref());
    to_wire::whole(status, if status.is_success() { JSON } else { PROBLEM_JSON }, headers, body)
}
