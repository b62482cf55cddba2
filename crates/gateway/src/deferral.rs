//! A request that is denied now and sent later: takes it in, and says what became of it.
//!
//! Called by `exchange`: for a request that only limits with `over_limit: defer` deny, and for
//! whoever asks at the path of the 202. The rest of its way is `deferred_send`.
//!
//! Invariants: it is in the queue before its client is told so. What may hold credentials is not kept.
//! What cannot be sent later (an upgrade, a gRPC call, a body that is too long) is denied.

use std::pin::Pin;
use std::time::Duration;

use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use hyper::Response;
use hyper::body::{Body as _, Incoming};
use tollgate_core::{Micros, Outcome, Time, Verdict};
use tollgate_defer::credentials::is_kept;
use tollgate_defer::request::HeaderList;
use tollgate_defer::{DeferConfig, DeferService, DeferredId, DeferredRequest, TakeInError};
use tollgate_http::admission::deferral::Deferral;
use tollgate_http::response::PROBLEM_JSON;
use tollgate_http::{Admission, Checker};

use crate::Gateway;
use crate::deferred_wire::{self, DEFERRED_PATH, id_of, is_open, location};
use crate::error::GatewayError;
use crate::fields::{self, HopRequest, Origin};
use crate::problem::{ClientProtocol, with_problem};
use crate::response_body::ResponseBody;
use crate::route_table::Route;
use crate::target::RequestTarget;

/// What makes an upstream do a thing once that is sent twice.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The type of what is told about such requests.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request that is to be sent later.
pub(crate) struct DeferralOffer<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) target: &'a RequestTarget,
    pub(crate) origin: &'a Origin<'a>,
    /// How long a piece of its body may take.
    pub(crate) idle: Duration,
}

impl<'a> DeferralOffer<'a> {
    fn deferred_parts(&self, deferral: &Deferral, body: Vec<u8>) -> DeferredParts<'a> {
        let Self { parts, target, origin, .. } = self;
        let mut headers = parts.headers.clone();
        fields::join_cookies(&mut headers);
        let decided = (Verdict::Delay { wait: deferral.retry_after }, Some(deferral.rule.as_str()));
        fields::write_origin(&mut headers, origin, target.host.as_ref(), decided);
        let (host, path) = (target.host_text(), target.path.as_str());
        DeferredParts { method: &parts.method, host, path, headers, body }
    }
}

/// A request that is to be sent later, as its upstream is to get it.
#[derive(Debug)]
pub struct DeferredParts<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Whom it is for, if it says.
    pub host: Option<&'a str>,
    /// Its path with its query.
    pub path: &'a str,
    /// Its headers, those that are not kept among them.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Vec<u8>,
}

impl DeferredParts<'_> {
    /// The request as it is kept, taken in at `accepted`: without what may hold credentials, and with a
    /// key that lets the upstream notice a second attempt.
    pub fn kept(self, deferral: &Deferral, config: &DeferConfig, accepted: Time) -> DeferredRequest {
        let Self { method, host, path, mut headers, body } = self;
        let id = DeferredId::random();
        DeferredRequest {
            id,
            accepted,
            expires: accepted + Micros::from(config.max_age),
            key: deferral.line.clone(),
            rule: deferral.rule.clone(),
            check: deferral.check.clone(),
            method: method.as_str().to_owned(),
            host: host.map(str::to_owned),
            path: path.to_owned(),
            headers: kept_headers(&mut headers, id, &config.keep_headers),
            body,
        }
    }
}

/// Why a request is not taken in.
enum NotTaken {
    /// It is denied, for this reason besides.
    Denied(String),
    /// Its body is wrong.
    Broken(GatewayError),
}

impl<C: Checker> Gateway<C> {
    /// What takes requests in, if there is any and this one could be sent later.
    pub(crate) fn deferring_for(&self, parts: &Parts, hop: &HopRequest) -> Option<&DeferService> {
        let service = self.deferring.as_deref().filter(|service| service.handle().is_some())?;
        let is_grpc = ClientProtocol::of(parts.version, &parts.headers) == ClientProtocol::Grpc;
        (!is_grpc && hop.upgrade.is_none()).then_some(service)
    }

    /// Whether a request of this route may be taken in, or asks about one that was, so that it must not
    /// take the short way.
    pub(crate) fn is_deferring(&self, route: &Route, path: &[u8]) -> bool {
        self.deferring.as_deref().is_some_and(|service| service.handle().is_some())
            && (self.checker.defers(route.admission.mapping().domain())
                || path.starts_with(DEFERRED_PATH.as_bytes()))
    }

    /// Takes in what is to be sent later, and answers it with a 202. None if there is nothing to take
    /// in, or that fails, and it is denied as the admission says.
    ///
    /// # Errors
    /// If its body is wrong.
    pub(crate) async fn defer(
        &self,
        admission: &mut Admission<C>,
        offer: &DeferralOffer<'_>,
        body: &mut Incoming,
    ) -> Result<Option<Response<ResponseBody>>, GatewayError> {
        let (Some(service), Some(deferral)) = (self.deferring.as_deref(), admission.deferral.take()) else {
            return Ok(None);
        };
        let taken = match read_whole(service, offer, body).await {
            Ok(bytes) => {
                let parts = offer.deferred_parts(&deferral, bytes);
                let request = parts.kept(&deferral, service.config(), self.checker.calendar());
                let response = taken(&request, deferral.retry_after);
                service.take_in(request, self.checker.calendar()).await.map(|()| response).map_err(refusal)
            }
            Err(error) => Err(error),
        };
        let error = match taken {
            Ok(response) => {
                deferral.taken(&*self.checker);
                return Ok(Some(response));
            }
            Err(error) => error,
        };
        deferral.refused(&*self.checker);
        match error {
            NotTaken::Broken(error) => Err(error),
            NotTaken::Denied(reason) => {
                admission.outcome = Some(Outcome::Denied);
                if let Some(problem) = &mut admission.problem {
                    problem.detail.push_str(&format!("; it cannot be sent later: {reason}"));
                }
                Ok(None)
            }
        }
    }

    /// The answer to whoever asks what became of a request; none if this is about none.
    pub(crate) async fn deferred_status(
        &self,
        method: &Method,
        target: &RequestTarget,
    ) -> Option<Response<ResponseBody>> {
        let service = self.deferring.as_deref().filter(|service| service.handle().is_some())?;
        let id = id_of(target.path.path()).filter(|_| [Method::GET, Method::HEAD].contains(method))?;
        let known = service.status(id).await;
        let Ok(known) = known else {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Some(with_problem(status, deferred_wire::problem(status, deferred_wire::UNREADABLE)));
        };
        let (status, body) = deferred_wire::status(id, known.as_ref());
        let mut response = Response::new(ResponseBody::text(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let kind = if status.is_success() { JSON } else { HeaderValue::from_static(PROBLEM_JSON) };
        headers.insert(CONTENT_TYPE, kind);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if known.as_ref().is_some_and(is_open) {
            headers.insert(RETRY_AFTER, HeaderValue::from(1));
        }
        Some(response)
    }
}

fn refusal(error: TakeInError) -> NotTaken {
    NotTaken::Denied(error.to_string())
}

/// The 202.
fn taken(request: &DeferredRequest, retry_after: Micros) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(deferred_wire::taken(request, retry_after)));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    let location = HeaderValue::try_from(location(request.id)).expect("an id is of letters and digits");
    headers.insert(LOCATION, location);
    headers.insert(RETRY_AFTER, HeaderValue::from(retry_after.as_secs_ceil().max(1)));
    response
}

/// The whole body, if it is no longer than what is kept.
async fn read_whole(
    service: &DeferService,
    offer: &DeferralOffer<'_>,
    body: &mut Incoming,
) -> Result<Vec<u8>, NotTaken> {
    let DeferralOffer { parts, idle, .. } = offer;
    let max = service.config().max_body;
    let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let known = if body.is_end_stream() { Some(0) } else { length };
    let _reserved = service.reserve(known).map_err(refusal)?;
    let mut bytes = Vec::with_capacity(known.unwrap_or(0));
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        let frame = tokio::time::timeout(*idle, frame).await;
        let frame = frame.map_err(|_| NotTaken::Broken(GatewayError::SlowRequestBody))?;
        let Some(frame) = frame else { return Ok(bytes) };
        let frame = frame.map_err(|_| NotTaken::Broken(GatewayError::RequestBody))?;
        // Trailers are not kept.
        let Some(piece) = frame.data_ref() else { continue };
        if bytes.len() + piece.len() > max {
            return Err(refusal(TakeInError::Body { max }));
        }
        bytes.extend_from_slice(piece);
    }
}

/// The headers that are kept.
fn kept_headers(headers: &mut HeaderMap, id: DeferredId, keep_headers: &[String]) -> HeaderList {
    for name in [EXPECT, CONTENT_LENGTH, HOST] {
        headers.remove(name);
    }
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        let key = HeaderValue::try_from(id.to_string()).expect("an id is of letters and digits");
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    let kept = headers.iter().filter(|(name, _)| is_kept(name.as_str(), keep_headers));
    kept.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}
