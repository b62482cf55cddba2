//! Answers and refusals → responses.
//!
//! Invariant: a refusal by a limit carries the marker `X-Tollgate-Verdict:
//! deny`, and nothing else does, so that a proxy that turns a 403 into a 429
//! turns no other.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use crate::http::v1::to_wire::problem;
use crate::service::{Service, ServiceError};
use tollgate_http::response::{PROBLEM_JSON, QuotaProblem, VERDICT};
use tollgate_http::{Admission, MappingDenial};

/// Why a question gets no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthzError {
    /// The settings do not say what to make of a request.
    #[error("there is no mapping from HTTP requests to descriptors")]
    NoMapping,
    /// Whoever asks may not.
    #[error("only trusted proxies may ask here")]
    Untrusted,
    /// A header that must be there once.
    #[error("the header {name} is there twice")]
    Twice {
        /// Which one.
        name: HeaderName,
    },
    /// A header that must be text.
    #[error("the header {name} is not text")]
    NoText {
        /// Which one.
        name: HeaderName,
    },
    /// Two descriptions of the request that differ.
    #[error("two of these describe different requests: X-Forwarded-…, X-Original-…, the path of the call")]
    Disagree,
    /// No status for a refusal.
    #[error("?deny= has no status for a denial")]
    DenyStatus,
    /// The mapping denies it.
    #[error(transparent)]
    Mapping(MappingDenial),
    /// It could not be decided.
    #[error(transparent)]
    Service(ServiceError),
}

impl AuthzError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoMapping => StatusCode::NOT_FOUND,
            Self::Untrusted => StatusCode::FORBIDDEN,
            Self::Mapping(denial) => StatusCode::from_u16(denial.status()).unwrap_or(StatusCode::FORBIDDEN),
            Self::Twice { .. } | Self::NoText { .. } | Self::Disagree | Self::DenyStatus => {
                StatusCode::BAD_REQUEST
            }
            Self::Service(ServiceError::NoDomain | ServiceError::NoDescriptors) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::Service(ServiceError::NoRules) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What to do about it.
    const fn fix(&self) -> &'static str {
        match self {
            Self::NoMapping => "write mapping: in tollgate.yaml",
            Self::Untrusted => "list the address of the proxy in mapping.trusted_proxies",
            Self::Twice { .. } => "let the proxy overwrite what clients send",
            Self::NoText { .. } => "let the proxy send text",
            Self::Disagree => {
                "let the proxy overwrite what clients send, or set forward_auth.request_from to the kind that it writes"
            }
            Self::DenyStatus => "write ?deny=403 or ?deny=429",
            Self::Mapping(denial) => denial.fix(),
            Self::Service(ServiceError::NoDomain | ServiceError::NoDescriptors) => "correct the mapping",
            Self::Service(ServiceError::NoRules) => "send it again later",
        }
    }
}

/// What a proxy is told that gets no answer.
pub(super) fn error(error: &AuthzError) -> Response {
    problem(error.status(), None, error.to_string(), error.fix().into()).into()
}

/// The response to an answer; a denial has the status that was asked for.
pub(super) fn respond(admission: Admission<Service>, deny_status: u16) -> Response {
    let mut response = Response::new(Body::empty());
    if let Some(problem) = admission.problem {
        let bytes = QuotaProblem { status: deny_status, ..*problem }.to_bytes();
        *response.status_mut() = StatusCode::from_u16(deny_status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        *response.body_mut() = Body::from(bytes);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    }
    let headers = response.headers_mut();
    headers.extend(admission.headers);
    headers.insert(VERDICT, HeaderValue::from_static(admission.verdict.word()));
    response
}
