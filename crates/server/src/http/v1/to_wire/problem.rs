//! Errors → problems: why a call got no answer, and what to send instead.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::http::header::ALLOW;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::error::V1Error;
use super::V1Response;
use crate::body::BodyError;
use crate::service::ServiceError;
use tollgate_http::response::{HeaderSink, PROBLEM_JSON};

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
pub(crate) fn error<H: HeaderSink + Default>(error: &V1Error) -> V1Response<H> {
    let (status, fix) = status_and_fix(error);
    let pointer = match error {
        V1Error::Field { pointer, .. } => Some(pointer.as_str()),
        V1Error::Body(_)
        | V1Error::MediaType
        | V1Error::Service(_)
        | V1Error::NoSuchPath { .. }
        | V1Error::NoAnswer { .. }
        | V1Error::Method { .. } => None,
    };
    let mut response: V1Response<H> = problem(status, pointer, error.to_string(), fix);
    if let V1Error::Method { allowed } = error {
        response.headers.text(ALLOW, allowed);
    }
    response
}

/// What is wrong, where, and what to do about it.
pub(crate) fn problem<H: Default>(
    status: StatusCode,
    pointer: Option<&str>,
    detail: String,
    fix: Cow<'_, str>,
) -> V1Response<H> {
    let title = status.canonical_reason().unwrap_or_default();
    let body = ProblemBody { title, status: status.as_u16(), detail, pointer, fix };
    V1Response::new(status, PROBLEM_JSON, H::default(), &body)
}

fn status_and_fix(error: &V1Error) -> (StatusCode, Cow<'_, str>) {
    match error {
        V1Error::Field { fix, .. } => (StatusCode::BAD_REQUEST, fix.into()),
        V1Error::Body(error) => match error {
            BodyError::TooLarge { max } => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("send at most {max} bytes").into())
            }
            BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "send the body faster".into()),
            BodyError::Broken => (StatusCode::BAD_REQUEST, "send the whole body".into()),
            BodyError::Crowded | BodyError::Unread => {
                (StatusCode::SERVICE_UNAVAILABLE, "send it again later".into())
            }
        },
        V1Error::MediaType => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the header content-type: application/json".into())
        }
        V1Error::Service(error) => match error {
            ServiceError::NoDomain | ServiceError::NoDescriptors => {
                (StatusCode::BAD_REQUEST, "send a domain and at least one descriptor".into())
            }
            ServiceError::NoRules => (StatusCode::SERVICE_UNAVAILABLE, "send it again later".into()),
        },
        V1Error::NoSuchPath { .. } => {
            (StatusCode::NOT_FOUND, "see /v1/openapi.json for what there is".into())
        }
        V1Error::NoAnswer { status, fix, .. } => (*status, (*fix).into()),
        V1Error::Method { allowed } => {
            (StatusCode::METHOD_NOT_ALLOWED, format!("use one of these: {allowed}").into())
        }
    }
}
