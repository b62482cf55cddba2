//! Sends a request that was deferred, and keeps what the upstream answers.
//!
//! Called by the server's worker once the limiter has room. It takes the route that fits at that time,
//! so that a reload in between counts.
//!
//! Deliberately not here: when it is sent, and how often.

use std::pin::Pin;

use http::header::{HOST, HeaderName, HeaderValue, RETRY_AFTER};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Bytes};
use tollgate_core::Micros;
use tollgate_defer::credentials::is_kept;
use tollgate_defer::{DeferConfig, DeferredRequest, KeptResponse};
use tollgate_http::Checker;

use crate::Gateway;
use crate::error::GatewayError;
use crate::exchange::is_idempotent;
use crate::fields;
use crate::forward::{OutgoingRequest, SendRecord};
use crate::request_body::{BodyFate, RequestBody};
use crate::response_body::ResponseBody;
use crate::route::RouteQuery;
use crate::timed_body::TimedBody;

/// What became of one attempt.
#[derive(Debug)]
pub enum DeferredAttempt {
    /// The upstream has answered.
    Answered(KeptResponse),
    /// It is worth another try.
    Failed {
        /// Why.
        reason: String,
        /// Not before that, says the upstream.
        retry_after: Option<Micros>,
        /// What it said besides.
        response: Option<KeptResponse>,
    },
}

/// Answers that are worth another try: the upstream says that it is busy or broken.
const RETRIED: [StatusCode; 7] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

impl<C: Checker> Gateway<C> {
    /// Sends a request that was deferred.
    pub async fn send_deferred(&self, request: &DeferredRequest, config: &DeferConfig) -> DeferredAttempt {
        match self.answer_to(request, config).await {
            Err(error) => {
                DeferredAttempt::Failed { reason: error.to_string(), retry_after: None, response: None }
            }
            Ok(response) => match StatusCode::from_u16(response.status) {
                Ok(status) if RETRIED.contains(&status) => DeferredAttempt::Failed {
                    reason: format!("the upstream answered with {}", status.as_u16()),
                    retry_after: retry_after(&response),
                    response: Some(response),
                },
                Ok(_) | Err(_) => DeferredAttempt::Answered(response),
            },
        }
    }

    async fn answer_to(
        &self,
        request: &DeferredRequest,
        config: &DeferConfig,
    ) -> Result<KeptResponse, GatewayError> {
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| GatewayError::Method)?;
        let path: PathAndQuery = request.path.parse().map_err(|_| GatewayError::Host)?;
        let mut headers = headers_of(request);
        let routes = self.routes.load();
        let route = routes.find(&RouteQuery {
            host: request.host.as_deref(),
            path: path.path().as_bytes(),
            method: &method,
            headers: (&headers).into(),
        });
        let route = route.cloned().ok_or(GatewayError::NoRoute)?;
        drop(routes);
        if let Some(host) = request.host.as_deref().and_then(|host| HeaderValue::from_str(host).ok()) {
            headers.insert(HOST, host);
        }
        let (has_body, is_idempotent) = (!request.body.is_empty(), is_idempotent(&method));
        let body = RequestBody::whole(Bytes::from(request.body.clone()));
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = method;
        *outgoing.uri_mut() = path.into();
        *outgoing.version_mut() = Version::HTTP_11;
        *outgoing.headers_mut() = headers;
        let fate = BodyFate::default();
        let outgoing =
            OutgoingRequest { request: outgoing, fate, has_body, is_idempotent, is_upgrade: false };
        let mut record = SendRecord::default();
        let (response, lease) = route.group.send(outgoing, &route.timeouts, &mut record).await?;
        let (idle, deadline) = (route.timeouts.idle, record.deadline);
        let response = response
            .map(|body| ResponseBody::upstream(TimedBody::new(body, idle).until(deadline), lease, None));
        keep(response, config).await
    }
}

fn headers_of(request: &DeferredRequest) -> HeaderMap {
    let header = |(name, value): &(String, Vec<u8>)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter().filter_map(header) {
        headers.append(name, value);
    }
    headers
}

/// What is kept of an answer.
async fn keep(response: Response<ResponseBody>, config: &DeferConfig) -> Result<KeptResponse, GatewayError> {
    let (mut parts, mut body) = response.into_parts();
    fields::remove_hop_by_hop(&mut parts.headers);
    let kept = parts.headers.iter().filter(|(name, _)| is_kept(name.as_str(), &config.keep_headers));
    let headers = kept.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while !is_cut {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| GatewayError::NoAnswer)?;
        let piece = frame.data_ref().map_or(&[][..], |piece| piece.as_ref());
        let room = config.max_body.saturating_sub(bytes.len());
        is_cut = piece.len() > room;
        bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }
    Ok(KeptResponse { status: parts.status.as_u16(), headers, body: bytes, is_cut })
}

/// When the upstream wants to see it again; only whole seconds are understood.
fn retry_after(response: &KeptResponse) -> Option<Micros> {
    let (_, value) = response.headers.iter().find(|(name, _)| *name == RETRY_AFTER.as_str())?;
    std::str::from_utf8(value).ok()?.trim().parse().ok().map(Micros::from_secs)
}
