//! `/v1/check`, `/v1/peek`, `/v1/report` and `/v1/refund`.
//!
//! One request is answered with 200 or 429. A batch is answered with 200 and a
//! verdict for each of its requests, which are decided one after the other, at
//! one instant. A long answer to a batch is made part by part, as fast as the
//! caller reads it (`batch`).
//!
//! Invariants: all of a batch is read before any of it is decided; a large one
//! counts against [`LARGE_RESPONSES`] until its answer is read.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tollgate_core::{Operation, Time};

use super::batch::{BatchParts, ResponseBody};
use super::error::V1Error;
use super::from_wire::{self, BatchReader, V1Request};
use super::schemas::{BodySchema, DecidedSchema};
use super::to_wire::{self, BatchBody, V1Response};
use crate::body::{self, LARGE_RESPONSES, ReceivedBody};
use crate::bounds::{BATCH_SHORT, JSON_BODY_MAX, RESPONSE_LARGE, RESPONSE_PART};
use crate::service::Service;
use crate::telemetry::CallSpan;
use crate::turn::Turn;
use tollgate_http::CallerView;
use tollgate_http::response::{HeaderLines, HeaderSink, ResponseHeaders};
use tollgate_metrics::Call;

/// The paths, what is done at them, and how that is described.
pub(super) const PATHS: [(&str, Operation, &str); 4] = [
    ("/v1/check", Operation::Check, "May this happen? Takes its cost if so."),
    ("/v1/peek", Operation::Peek, "What would a check answer? Changes nothing."),
    ("/v1/report", Operation::Report, "This has happened: takes its cost even where it does not fit."),
    (
        "/v1/refund",
        Operation::Refund,
        "This has not happened after all: gives its cost back, never above full.",
    ),
];

/// What is done at a path.
pub(crate) fn operation(path: &str) -> Option<Operation> {
    PATHS.iter().find(|(own, ..)| *own == path).map(|(_, operation, _)| *operation)
}

/// Answers a request whose body is still to come.
#[utoipa::path(
    post, path = "/v1/check", tag = "decide", request_body = BodySchema, responses(DecidedSchema)
)]
pub(super) async fn receive_and_answer(
    service: Arc<Service>,
    operation: Operation,
    request: Request<Body>,
) -> Response {
    let start = service.now();
    let mut span = service.tracer().call(name(operation), |name| request.headers().get(name)?.to_str().ok());
    let deciding = async {
        let received = receive(request).await?;
        let now = if received.has_waited { service.now() } else { start };
        if from_wire::is_batch(&received.bytes) {
            let batch = Batch { service: &service, operation, now, body: &received.bytes };
            return answer_batch(batch, || received.bytes.clone()).await;
        }
        decide(&service, operation, &received.bytes, now, &mut span).await
    };
    let decided = deciding.await;
    if let Err(error) = &decided {
        span.failed(&error.to_string());
    }
    counted::<ResponseHeaders>(&service, start, decided).into()
}

/// The path of an operation, which its span is called by.
fn name(operation: Operation) -> &'static str {
    PATHS.iter().find(|(_, own, _)| *own == operation).map_or("/v1", |(path, ..)| path)
}

/// Answers a request whose body of a content type is there, as of `now`. It has
/// no span: where there are any, calls do not come this way.
pub(crate) async fn answer(
    service: &Arc<Service>,
    operation: Operation,
    content_type: Option<&[u8]>,
    bytes: &[u8],
    now: Time,
) -> V1Response<HeaderLines> {
    let decided = if !may_be_json(content_type) {
        Err(V1Error::MediaType)
    } else if from_wire::is_batch(bytes) {
        let batch = Batch { service, operation, now, body: bytes };
        answer_batch(batch, || Bytes::copy_from_slice(bytes)).await
    } else {
        decide(service, operation, bytes, now, &mut CallSpan::default()).await
    };
    counted(service, now, decided)
}

/// Counts the call, and makes a response of an error.
fn counted<H: HeaderSink + Default>(
    service: &Service,
    start: Time,
    decided: Result<V1Response<H>, V1Error>,
) -> V1Response<H> {
    service.metrics().served(Call::Http, service.now().since(start));
    decided.unwrap_or_else(|error| to_wire::error(&error))
}

async fn decide<H: HeaderSink + Default>(
    service: &Service,
    operation: Operation,
    bytes: &[u8],
    now: Time,
    span: &mut CallSpan,
) -> Result<V1Response<H>, V1Error> {
    let tell = |view: &CallerView<'_>| {
        span.decided(Some(view.request().domain), view.reply().outcome());
        to_wire::one(view)
    };
    decide_one(service, operation, now, &from_wire::request(bytes)?, tell).await
}

/// Decides one request, and hands `tell` what the caller is to see of it.
pub(super) async fn decide_one<R>(
    service: &Service,
    operation: Operation,
    now: Time,
    wire: &V1Request<'_>,
    tell: impl FnOnce(&CallerView<'_>) -> R,
) -> Result<R, V1Error> {
    let entries = wire.entries();
    let descriptors = wire.descriptors(&entries, operation == Operation::Refund);
    let request = wire.request(&descriptors);
    let reply = service.operate(&request, operation, now).await?;
    Ok(tell(&CallerView::new(&service.answers().responses, &request, &reply)))
}

/// A batch that has arrived.
struct Batch<'a> {
    service: &'a Arc<Service>,
    operation: Operation,
    now: Time,
    body: &'a [u8],
}

/// Decides a batch, or as much of it as makes the first part of its answer.
/// `owned` makes the body one's own; it is called only for a long answer.
async fn answer_batch<H: Default>(
    batch: Batch<'_>,
    owned: impl FnOnce() -> Bytes,
) -> Result<V1Response<H>, V1Error> {
    let Batch { service, operation, now, body } = batch;
    let mut rest = BatchRest {
        service: Arc::clone(service),
        operation,
        now,
        body: Bytes::new(),
        decided: 0,
        turn: Turn::default(),
    };
    let mut replies = BatchBody::new();
    // A short batch has most likely a short answer, and needs nothing of its own.
    if body.len() <= BATCH_SHORT {
        let requests = from_wire::batch(body)?;
        for request in &requests {
            let decisions = decide_one(service, operation, now, request, |view| replies.add(view)).await?;
            rest.decided += 1;
            rest.turn.decided(decisions).await;
            if replies.len() >= RESPONSE_PART {
                break;
            }
        }
        if rest.decided == requests.len() {
            return Ok(to_wire::batch(ResponseBody::Whole(replies.finish())));
        }
    }
    rest.body = owned();
    let parts = BatchParts::new(|sender| rest.decide(replies, sender));
    Ok(to_wire::batch(parts.begin().await?))
}

/// What is to be decided of a batch while its answer is written.
struct BatchRest {
    service: Arc<Service>,
    operation: Operation,
    now: Time,
    body: Bytes,
    /// How many requests are decided already.
    decided: usize,
    turn: Turn,
}

impl BatchRest {
    /// Decides it, and returns the last part of the answer.
    async fn decide(self, mut replies: BatchBody, parts: mpsc::Sender<Vec<u8>>) -> Result<Vec<u8>, V1Error> {
        let Self { service, operation, now, body, decided, mut turn } = self;
        let mut held = LARGE_RESPONSES.none();
        if body.len() >= RESPONSE_LARGE {
            held.add(body.len())?;
        }
        from_wire::check_batch(&body, &mut turn).await?;
        for request in BatchReader::new(&body).flatten().skip(decided) {
            if replies.len() >= RESPONSE_PART {
                // The receiver is gone only if this future is, too.
                drop(parts.send(replies.take_part()).await);
            }
            let decisions = decide_one(&service, operation, now, &request, |view| replies.add(view)).await?;
            turn.decided(decisions).await;
        }
        Ok(replies.finish())
    }
}

/// The body of a request, if it is JSON.
pub(crate) async fn receive(request: Request<Body>) -> Result<ReceivedBody, V1Error> {
    if !may_be_json(request.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes())) {
        return Err(V1Error::MediaType);
    }
    Ok(body::receive(request.into_body(), JSON_BODY_MAX).await?)
}

/// What programs say of a body when nobody told them what it is: `curl -d` the
/// first, `fetch` of a browser the second, libraries that were given bytes the last.
const UNTOLD: [&[u8]; 3] = [b"application/x-www-form-urlencoded", b"text/plain", b"application/octet-stream"];

/// Whether a body of a content type may be JSON: it is said to be, or not said to be anything else.
fn may_be_json(content_type: Option<&[u8]>) -> bool {
    if is_json(content_type) {
        return true;
    }
    let kind = media_type(content_type);
    kind.is_empty() || UNTOLD.iter().any(|untold| kind.eq_ignore_ascii_case(untold))
}

/// Whether a body is said to be JSON. A page of another web site cannot say so
/// without asking first.
pub(crate) fn is_json(content_type: Option<&[u8]>) -> bool {
    let kind = media_type(content_type);
    [&b"/json"[..], b"+json"].iter().any(|end| {
        let start = kind.len().saturating_sub(end.len());
        kind.get(start..).is_some_and(|found| found.eq_ignore_ascii_case(end))
    })
}

/// A content type without its parameters; empty if there is none.
fn media_type(content_type: Option<&[u8]>) -> &[u8] {
    let kind = content_type.unwrap_or_default();
    kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::testing;

    #[test]
    fn a_body_is_json_unless_it_is_said_to_be_something_else() {
        for kind in ["", " ", "application/json", "Application/JSON; charset=utf-8", "text/json"] {
            assert!(may_be_json(Some(kind.as_bytes())), "{kind}");
        }
        for kind in ["application/vnd.shop+json", "application/x-www-form-urlencoded", "text/plain; a=b"] {
            assert!(may_be_json(Some(kind.as_bytes())), "{kind}");
        }
        for kind in ["multipart/form-data; boundary=x", "application/xml", "text/html", "json", "x/jsonp"] {
            assert!(!may_be_json(Some(kind.as_bytes())), "{kind}");
        }
        assert!(may_be_json(None) && !is_json(None) && !is_json(Some(b"text/plain")));
    }

    /// A giant batch held up all others of its worker.
    #[test]
    fn a_batch_gives_way_after_every_few_decisions() {
        let rules = "domain: d\ndescriptors: [{ key: k, rate_limit: { requests_per_unit: 9, unit: day } }]\n";
        let service = testing::service(rules);
        let turns = |request: &str, requests: usize| {
            let body = format!("[{}]", vec![request; requests].join(","));
            let answering = async {
                let now = service.now();
                let answered = answer(&service, Operation::Check, None, body.as_bytes(), now).await;
                let ResponseBody::Parts(mut parts) = answered.body else { return };
                while parts.next().await.is_some() {}
            };
            let mut answering = pin!(answering);
            (0..1_000).take_while(|_| answering.as_mut().now_or_never().is_none()).count()
        };
        assert_eq!(turns(r#"{"domain":"d","descriptors":[{"k":"x"}]}"#, 40), 1);
        // 31 while it is read, and 62 while it is decided and written.
        assert!(turns(r#"{"domain":"d","descriptors":[{"k":"x"},{"k":"y"}]}"#, 1_000) >= 93);
        assert_eq!(turns(r#"{"domain":"d","descriptors":[{"other":"x"}]}"#, 31), 0);
    }

    #[test]
    fn each_path_does_what_it_says() {
        assert_eq!(operation("/v1/check"), Some(Operation::Check));
        assert_eq!(operation("/v1/refund"), Some(Operation::Refund));
        assert_eq!(operation("/v1/check?x=1"), None);
        assert_eq!(operation("/json"), None);
    }
}
