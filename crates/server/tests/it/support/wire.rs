//! Envoy's messages, short to write and short to compare.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::UInt64Value;

use super::Client;

/// The code of an answer that lets pass.
pub(crate) const OK: i32 = 1;
/// The code of one that does not.
pub(crate) const OVER: i32 = 2;

/// A descriptor of `key=value` pairs.
pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| Entry { key: (*key).into(), value: (*value).into() });
    RateLimitDescriptor { entries: entries.collect(), ..RateLimitDescriptor::default() }
}

/// A descriptor with hits of its own.
pub(crate) fn with_hits(hits: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value: hits }), ..descriptor }
}

/// A descriptor with a limit of its own.
pub(crate) fn with_limit(
    requests_per_unit: u32,
    unit: i32,
    descriptor: RateLimitDescriptor,
) -> RateLimitDescriptor {
    RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit, unit }), ..descriptor }
}

/// A request.
pub(crate) fn request(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.into(), descriptors, hits_addend: 0 }
}

/// Asks, and expects an answer.
pub(crate) async fn ask(client: &mut Client, request: RateLimitRequest) -> RateLimitResponse {
    client.should_rate_limit(request).await.expect("there is an answer").into_inner()
}

/// Asks for one descriptor, and expects an answer.
pub(crate) async fn ask_one(
    client: &mut Client,
    domain: &str,
    entries: &[(&str, &str)],
) -> RateLimitResponse {
    ask(client, request(domain, vec![descriptor(entries)])).await
}

/// What a status says, in short: `OK 9 of 10/HOUR "name"`, or without a limit `OK 0`.
pub(crate) fn short(status: &DescriptorStatus) -> String {
    let code = match status.code {
        OK => "OK",
        OVER => "OVER",
        _ => "?",
    };
    let Some(limit) = &status.current_limit else { return format!("{code} {}", status.limit_remaining) };
    let unit = Unit::try_from(limit.unit).expect("the unit is one").as_str_name();
    let name = if limit.name.is_empty() { String::new() } else { format!(" \"{}\"", limit.name) };
    format!("{code} {} of {}/{unit}{name}", status.limit_remaining, limit.requests_per_unit)
}

/// What a response says, in short.
pub(crate) fn brief(response: &RateLimitResponse) -> String {
    let overall = if response.overall_code == OVER { "OVER" } else { "OK" };
    let statuses: Vec<String> = response.statuses.iter().map(short).collect();
    format!("{overall}: {}", statuses.join(", "))
}

/// The seconds until the reset of a status.
pub(crate) fn reset_s(status: &DescriptorStatus) -> i64 {
    status.duration_until_reset.expect("there is a reset").seconds
}
