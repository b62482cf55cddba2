//! [`Reply`] → Envoy's response, and errors → gRPC's.
//!
//! The limiter comes before it, bytes or JSON after it. With `from_wire` it is
//! the only place that knows Envoy's messages.
//!
//! Invariants: as many statuses as descriptors, in their order; numbers that do
//! not fit saturate.
//!
//! Deliberately not here: any choice about limits; [`Reply`] has made it.

mod caller_info;
mod metadata;

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code as WireCode, DescriptorStatus, RateLimit, rate_limit,
};
use envoy_types::pb::google::protobuf::Duration;
use tollgate_core::{Micros, Request, Unit, Verdict};
use tollgate_limiter::{DescriptorReply, Reply, RuleDecision};
use tonic::{Code, Status};

use super::error::GrpcError;
use super::from_wire::RlsRequest;
use crate::body::BodyError;
use crate::service::ServiceError;
use tollgate_settings::{HeaderNames, ReplySettings};

/// The header that tells how long to hold a request that a `leaky_bucket`
/// lets through later, in whole milliseconds, rounded up.
pub const WAIT_HEADER: &str = "X-Ratelimit-Wait-Ms";

/// The header that says that a limit was decided without the store, which could
/// not be asked.
pub(super) const DEGRADED_HEADER: &str = "X-Ratelimit-Degraded";

/// Envoy's response.
pub(crate) type RlsResponse = RateLimitResponse;

/// The response to `wire`, which was decided as `request`.
pub(crate) fn response(
    wire: &RlsRequest,
    request: &Request<'_>,
    reply: &Reply,
    answers: &ReplySettings,
) -> RlsResponse {
    let statuses: Vec<DescriptorStatus> =
        (0..request.descriptors.len()).map(|index| descriptor_status(request, reply, index)).collect();
    let mut headers = Vec::new();
    if let Some(names) = &answers.headers {
        rate_limit_headers(names, &statuses, reply, &mut headers);
    }
    let wait = wait_of(reply);
    if let Some(wait) = wait {
        headers.push(header(WAIT_HEADER, wait.as_millis_ceil()));
    }
    if reply.is_degraded() {
        headers.push(header(DEGRADED_HEADER, true));
    }
    let raw_body = caller_info::add(request, reply, answers, &mut headers);
    RateLimitResponse {
        overall_code: code(reply.verdict.is_deny()),
        statuses,
        response_headers_to_add: headers,
        raw_body,
        dynamic_metadata: metadata::dynamic_metadata(&wire.wire, reply, wait, answers.dynamic_metadata),
        ..RateLimitResponse::default()
    }
}

/// How long the request is to be held, if it is to be held at all.
const fn wait_of(reply: &Reply) -> Option<Micros> {
    match reply.verdict {
        Verdict::Delay { wait } => Some(wait),
        Verdict::Allow | Verdict::Deny { .. } => None,
    }
}

fn code(is_over: bool) -> i32 {
    i32::from(if is_over { WireCode::OverLimit } else { WireCode::Ok })
}

fn descriptor_status(request: &Request<'_>, reply: &Reply, index: usize) -> DescriptorStatus {
    match reply.descriptor(index) {
        DescriptorReply::Free => DescriptorStatus { code: code(false), ..DescriptorStatus::default() },
        DescriptorReply::Unlimited => {
            DescriptorStatus { code: code(false), limit_remaining: u32::MAX, ..DescriptorStatus::default() }
        }
        // No limit denies it, so that there are no numbers to tell.
        DescriptorReply::Decided(decision) if decision.exception.is_some() => {
            DescriptorStatus { code: code(decision.is_denying()), ..DescriptorStatus::default() }
        }
        DescriptorReply::Decided(decision) => DescriptorStatus {
            code: code(decision.is_denying()),
            current_limit: Some(current_limit(request, reply, decision)),
            limit_remaining: u32::try_from(decision.remaining).unwrap_or(u32::MAX),
            duration_until_reset: Some(Duration {
                seconds: i64::try_from(decision.reset_after.as_secs_ceil()).unwrap_or(i64::MAX),
                nanos: 0,
            }),
            quota: None,
        },
    }
}

/// The limit as written: where a window is several units long, the number and
/// the unit of the rule are told, since the wire has no place for the factor.
fn current_limit(request: &Request<'_>, reply: &Reply, decision: &RuleDecision) -> RateLimit {
    let (unit, name) = match reply.rule(decision) {
        Some(rule) => (Some(rule.unit), rule.label.clone()),
        None => {
            let brought =
                request.descriptors.get(decision.descriptor).and_then(|descriptor| descriptor.limit);
            (brought.map(|brought| brought.unit), String::new())
        }
    };
    let unit = unit.map_or(rate_limit::Unit::Unknown, wire_unit);
    RateLimit { name, requests_per_unit: decision.count, unit: i32::from(unit) }
}

const fn wire_unit(unit: Unit) -> rate_limit::Unit {
    match unit {
        Unit::Second => rate_limit::Unit::Second,
        Unit::Minute => rate_limit::Unit::Minute,
        Unit::Hour => rate_limit::Unit::Hour,
        Unit::Day => rate_limit::Unit::Day,
        Unit::Week => rate_limit::Unit::Week,
        Unit::Month => rate_limit::Unit::Month,
        Unit::Year => rate_limit::Unit::Year,
    }
}

/// The three headers of the status that is closest to its limit: the first
/// with the least remaining, but the last that is over a limit which is no quota.
fn rate_limit_headers(
    names: &HeaderNames,
    statuses: &[DescriptorStatus],
    reply: &Reply,
    headers: &mut Vec<HeaderValue>,
) {
    let limited = || statuses.iter().enumerate().filter(|(_, status)| status.current_limit.is_some());
    let is_refusing = |index: usize| match reply.descriptor(index) {
        DescriptorReply::Decided(decision) => decision.is_denying() && !decision.mode.is_quota(),
        DescriptorReply::Free | DescriptorReply::Unlimited => false,
    };
    let over = limited().rfind(|(index, _)| is_refusing(*index));
    let chosen = over.or_else(|| limited().min_by_key(|(_, status)| status.limit_remaining));
    let Some((_, DescriptorStatus { current_limit, limit_remaining, duration_until_reset, .. })) = chosen
    else {
        return;
    };
    let limit = current_limit.as_ref().map_or(0, |limit| limit.requests_per_unit);
    let reset = duration_until_reset.as_ref().map_or(0, |span| span.seconds);
    headers.reserve_exact(3);
    headers.push(header(&names.limit, limit));
    headers.push(header(&names.remaining, limit_remaining));
    headers.push(header(&names.reset, reset));
}

fn header(key: &str, value: impl ToString) -> HeaderValue {
    HeaderValue { key: key.to_owned(), value: value.to_string(), raw_value: Vec::new() }
}

/// The status of a call that gets no decision.
pub(super) fn status(error: &GrpcError) -> Status {
    let code = match error {
        GrpcError::NoMessage
        | GrpcError::Length { .. }
        | GrpcError::Decode { .. }
        | GrpcError::Request(_) => Code::InvalidArgument,
        GrpcError::Compressed => Code::Unimplemented,
        GrpcError::TooLarge { .. }
        | GrpcError::NotRead
        | GrpcError::SideCalls
        | GrpcError::Body(BodyError::TooLarge { .. } | BodyError::Crowded | BodyError::Unread) => {
            Code::ResourceExhausted
        }
        GrpcError::Body(BodyError::TooSlow) => Code::DeadlineExceeded,
        GrpcError::Body(BodyError::Broken) => Code::Cancelled,
        // The reference answers UNKNOWN to all of these.
        GrpcError::Service(ServiceError::NoDomain | ServiceError::NoDescriptors | ServiceError::NoRules) => {
            Code::Unknown
        }
    };
    Status::new(code, error.to_string())
}
