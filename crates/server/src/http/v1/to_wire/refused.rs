//! Errors → problems: why a call got no answer, and what to send instead.

use std::borrow::Cow;

use axum::http::header::ALLOW;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::refusal::Refusal;
use super::Written;
use crate::body::BodyError;
use crate::service::ServiceError;
use tollgate_http::response::{Headers, PROBLEM_JSON};

/// Why a call got no answer (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// What the status is called.
    title: &'a str,
    /// The status.
    status: u16,
    /// What is wrong.
    detail: String,
    /// Where in the body it is wrong, as a JSON pointer (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pointer: Option<&'a str>,
    /// What to send instead.
    fix: Cow<'a, str>,
}

/// What a caller is told who gets no answer.
pub(crate) fn refuse(refusal: &Refusal) -> Response {
    self::refusal(refusal).into()
}

/// The same, to be sent in whatever way.
pub(crate) fn refusal(refusal: &Refusal) -> Written {
    let (status, fix) = status_and_fix(refusal);
    let pointer = match refusal {
        Refusal::Field { pointer, .. } => Some(pointer.as_str()),
        Refusal::Body(_)
        | Refusal::MediaType
        | Refusal::Service(_)
        | Refusal::NoSuchPath { .. }
        | Refusal::History { .. }
        | Refusal::Method { .. } => None,
    };
    let title = status.canonical_reason().unwrap_or_default();
    let body = ProblemBody { title, status: status.as_u16(), detail: refusal.to_string(), pointer, fix };
    let mut headers = Headers::new();
    if let Refusal::Method { allowed } = refusal {
        headers.push((ALLOW, HeaderValue::from_static(allowed)));
    }
    Written::new(status, PROBLEM_JSON, headers, &body)
}

fn status_and_fix(refusal: &Refusal) -> (StatusCode, Cow<'_, str>) {
    match refusal {
        Refusal::Field { fix, .. } => (StatusCode::BAD_REQUEST, fix.into()),
        Refusal::Body(error) => match error {
            BodyError::TooLarge { max } => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("send at most {max} bytes").into())
            }
            BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "send the body faster".into()),
            BodyError::Broken => (StatusCode::BAD_REQUEST, "send the whole body".into()),
            BodyError::Crowded => (StatusCode::SERVICE_UNAVAILABLE, "send it again later".into()),
        },
        Refusal::MediaType => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the header content-type: application/json".into())
        }
        Refusal::Service(error) => match error {
            ServiceError::NoDomain | ServiceError::NoDescriptors => {
                (StatusCode::BAD_REQUEST, "send a domain and at least one descriptor".into())
            }
            ServiceError::NoRules => (StatusCode::SERVICE_UNAVAILABLE, "send it again later".into()),
        },
        Refusal::NoSuchPath { .. } => {
            (StatusCode::NOT_FOUND, "see /v1/openapi.json for what there is".into())
        }
        Refusal::History { status, fix, .. } => (*status, (*fix).into()),
        Refusal::Method { allowed } => {
            (StatusCode::METHOD_NOT_ALLOWED, format!("use one of these: {allowed}").into())
        }
    }
}
