//! Envoy's response → JSON, by protobuf's rules for JSON; errors → status codes.
//!
//! Invariants: zero values are left out; fields stand in the order of the
//! `.proto` file, so that equal responses are equal bytes.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use envoy_types::pb::envoy::config::core::v3::HeaderValue as WireHeader;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value as WireValue};
use serde::{Serialize, Serializer};

use crate::body::BodyError;
use crate::grpc::BadRequest;
use crate::service::ServiceError;

/// Why a request gets no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum JsonError {
    /// There is nothing in it.
    #[error(
        "the body is empty; send a rate limit request as JSON, such as \
         {{\"domain\":\"shop\",\"descriptors\":[{{\"entries\":[{{\"key\":\"user_id\",\"value\":\"42\"}}]}}]}}"
    )]
    Empty,
    /// It is not JSON, or not this JSON.
    #[error("{0}")]
    Json(String),
    /// It did not arrive.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// It is out of bounds.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// It could not be decided.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The answer could not be written.
    #[error("the answer cannot be written")]
    Answer,
}

impl JsonError {
    /// Whose fault it is, in HTTP's words.
    const fn status(&self) -> StatusCode {
        match self {
            Self::Empty | Self::Json(_) | Self::Request(_) => StatusCode::BAD_REQUEST,
            Self::Body(BodyError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(BodyError::Broken) => StatusCode::BAD_REQUEST,
            Self::Body(BodyError::Crowded | BodyError::Unread) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Service(ServiceError::NoDomain | ServiceError::NoDescriptors) => StatusCode::BAD_REQUEST,
            Self::Service(ServiceError::NoRules) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Answer => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// What a caller is told who gets no answer: whose fault it is by the status,
/// and what to do in the text.
pub(super) fn refuse(refusal: &JsonError) -> Response {
    let status = refusal.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut response = Response::new(Body::from(format!("{reason}: {refusal}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The response with its status: 200, 429, or 500 if it says neither.
pub(super) fn respond(wire: &RateLimitResponse) -> Result<Response, JsonError> {
    let status = match Code::try_from(wire.overall_code) {
        Ok(Code::Ok) => StatusCode::OK,
        Ok(Code::OverLimit) => StatusCode::TOO_MANY_REQUESTS,
        Ok(Code::Unknown) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let bytes = serde_json::to_vec(&JsonResponse::from(wire)).map_err(|_| JsonError::Answer)?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    overall_code: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statuses: Vec<JsonStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<JsonHeader<'a>>,
    /// Bytes are base64 in protobuf's JSON.
    #[serde(skip_serializing_if = "String::is_empty")]
    raw_body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<JsonStruct<'a>>,
}

impl<'a> From<&'a RateLimitResponse> for JsonResponse<'a> {
    fn from(wire: &'a RateLimitResponse) -> Self {
        Self {
            overall_code: code(wire.overall_code),
            statuses: wire.statuses.iter().map(JsonStatus::from).collect(),
            response_headers_to_add: wire.response_headers_to_add.iter().map(JsonHeader::from).collect(),
            raw_body: BASE64_STANDARD.encode(&wire.raw_body),
            dynamic_metadata: wire.dynamic_metadata.as_ref().map(JsonStruct),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<JsonRateLimit<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

impl<'a> From<&'a DescriptorStatus> for JsonStatus<'a> {
    fn from(wire: &'a DescriptorStatus) -> Self {
        Self {
            code: code(wire.code),
            current_limit: wire.current_limit.as_ref().map(JsonRateLimit::from),
            limit_remaining: wire.limit_remaining,
            // All of ours are whole seconds.
            duration_until_reset: wire.duration_until_reset.map(|span| format!("{}s", span.seconds)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonRateLimit<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    requests_per_unit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
}

impl<'a> From<&'a RateLimit> for JsonRateLimit<'a> {
    fn from(wire: &'a RateLimit) -> Self {
        let unit =
            rate_limit::Unit::try_from(wire.unit).ok().filter(|unit| *unit != rate_limit::Unit::Unknown);
        Self {
            name: &wire.name,
            requests_per_unit: wire.requests_per_unit,
            unit: unit.map(|unit| unit.as_str_name()),
        }
    }
}

#[derive(Serialize)]
struct JsonHeader<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'a str,
}

impl<'a> From<&'a WireHeader> for JsonHeader<'a> {
    fn from(wire: &'a WireHeader) -> Self {
        Self { key: &wire.key, value: &wire.value }
    }
}

/// A struct; its fields are sorted, since the wire's have no order.
struct JsonStruct<'a>(&'a Struct);

impl Serialize for JsonStruct<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sorted: BTreeMap<_, _> =
            self.0.fields.iter().map(|(name, value)| (name, JsonValue(value))).collect();
        sorted.serialize(serializer)
    }
}

struct JsonValue<'a>(&'a WireValue);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.kind {
            None | Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::BoolValue(is)) => serializer.serialize_bool(*is),
            Some(Kind::StringValue(text)) => serializer.serialize_str(text),
            Some(Kind::StructValue(fields)) => JsonStruct(fields).serialize(serializer),
            Some(Kind::ListValue(list)) => serializer.collect_seq(list.values.iter().map(JsonValue)),
            Some(Kind::NumberValue(number)) => match whole(*number) {
                Some(whole) => serializer.serialize_i64(whole),
                None => serializer.serialize_f64(*number),
            },
        }
    }
}

/// A number without a fraction is written without one.
#[expect(
    clippy::as_conversions,
    reason = "the number is whole and within the range in which doubles are exact"
)]
pub(crate) fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    (number.trunc() == number && number.abs() <= EXACT).then_some(number as i64)
}

fn code(wire: i32) -> Option<&'static str> {
    Code::try_from(wire).ok().filter(|code| *code != Code::Unknown).map(|code| code.as_str_name())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
