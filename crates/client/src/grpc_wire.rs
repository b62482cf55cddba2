//! Requests and replies as messages of Envoy's rate limit service, version 3.
//!
//! Its one call has check and refund. Peek and report are calls of a service of Tollgate's own with the same
//! messages: another server that does not know them says so, and charges nothing by mistake.
//!
//! Only the fields that are sent or read here; a test holds them against envoy-types.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::RETRY_AFTER;
use prost::Message;
use tollgate_core::{Micros, Operation, Request, Unit, Verdict};

use crate::reply::{ReplyOrigin, ServerDecision, ServerReply, WireReply};
use crate::v1_wire;

/// Where an operation is asked for.
pub(crate) const fn path(operation: Operation) -> &'static str {
    match operation {
        Operation::Check | Operation::Refund => {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
        }
        Operation::Peek => "/tollgate.v1.LimiterService/Peek",
        Operation::Report => "/tollgate.v1.LimiterService/Report",
    }
}

/// How long to hold a request that passes later.
const WAIT_HEADER: &str = "x-ratelimit-wait-ms";
/// A limit was decided without the store.
const DEGRADED_HEADER: &str = "x-ratelimit-degraded";
/// The code of a reply that lets pass.
const OK: i32 = 1;
/// The code of one that does not.
const OVER_LIMIT: i32 = 2;
/// A byte that says whether it is compressed, and the length.
const FRAME_HEAD: usize = 5;

#[derive(Clone, PartialEq, Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RateLimitEntry>,
    #[prost(message, optional, tag = "2")]
    limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<WrappedU64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
}

#[derive(Clone, PartialEq, Message)]
struct WrappedU64 {
    #[prost(uint64, tag = "1")]
    value: u64,
}

#[derive(Clone, PartialEq, Message)]
struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    response_headers_to_add: Vec<AddedHeader>,
    #[prost(bytes = "bytes", tag = "5")]
    raw_body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<CurrentLimit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    duration_until_reset: Option<WireDuration>,
}

#[derive(Clone, PartialEq, Message)]
struct CurrentLimit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct AddedHeader {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The body to send, which is one frame. Only a refund is said in it; [`path`] says the others.
pub(crate) fn encode(request: &Request<'_>, operation: Operation) -> Bytes {
    // On the wire no hits means one; what it cannot say, descriptors say each for itself.
    let hits = u32::try_from(request.cost).ok().filter(|hits| *hits > 0);
    let descriptors = request.descriptors.iter().map(|descriptor| RateLimitDescriptor {
        entries: descriptor
            .entries
            .iter()
            .map(|entry| RateLimitEntry { key: entry.key.to_owned(), value: entry.value.to_owned() })
            .collect(),
        limit: descriptor.limit.map(|brought| RateLimitOverride {
            requests_per_unit: brought.limit.count(),
            unit: unit(brought.unit),
        }),
        hits_addend: descriptor
            .cost
            .or_else(|| hits.is_none().then_some(request.cost))
            .map(|value| WrappedU64 { value }),
        is_negative_hits: descriptor.operation.unwrap_or(operation) == Operation::Refund,
    });
    let message = RateLimitRequest {
        domain: request.domain.to_owned(),
        descriptors: descriptors.collect(),
        hits_addend: hits.unwrap_or_default(),
    };
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(FRAME_HEAD + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode(&mut frame).expect("there is room for it");
    frame.freeze()
}

const fn unit(unit: Unit) -> i32 {
    match unit {
        Unit::Second => 1,
        Unit::Minute => 2,
        Unit::Hour => 3,
        Unit::Day => 4,
        Unit::Month => 5,
        Unit::Year => 6,
        Unit::Week => 7,
    }
}

/// The reply of a body, or what is wrong with it.
pub(crate) fn decode(body: &Bytes) -> Result<WireReply, String> {
    let head = body.get(..FRAME_HEAD).ok_or("there is no message")?;
    if head.first() != Some(&0) {
        return Err("the message is compressed, which was not asked for".to_owned());
    }
    let length = head.iter().skip(1).fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    if body.len() != FRAME_HEAD + length {
        return Err(format!("a message of {length} bytes has {}", body.len().saturating_sub(FRAME_HEAD)));
    }
    let response = RateLimitResponse::decode(body.slice(FRAME_HEAD..)).map_err(|error| error.to_string())?;
    reply(&response)
}

fn reply(response: &RateLimitResponse) -> Result<WireReply, String> {
    let header = |name: &str| {
        let found =
            response.response_headers_to_add.iter().find(|header| header.key.eq_ignore_ascii_case(name));
        found.map(|header| header.value.as_str())
    };
    let degraded = header(DEGRADED_HEADER) == Some("true");
    let decisions: Vec<ServerDecision> = response
        .statuses
        .iter()
        .enumerate()
        .filter_map(|(descriptor, status)| decision(descriptor, status, degraded))
        .collect();
    let (mut binding, mut tells_retry) = (None, false);
    let verdict = match response.overall_code {
        OK => match header(WAIT_HEADER).and_then(|wait| wait.parse().ok()) {
            Some(wait_ms) => Verdict::Delay { wait: Micros::from_millis(wait_ms) },
            None => Verdict::Allow,
        },
        OVER_LIMIT => {
            let denying = decisions.iter().enumerate().filter(|(_, decision)| decision.verdict.is_deny());
            let last = denying.max_by_key(|(_, decision)| decision.reset_after);
            binding = last.map(|(index, _)| index);
            let told = v1_wire::problem_retry(&response.raw_body).or_else(|| {
                let seconds = header(RETRY_AFTER.as_str())?.parse().ok()?;
                Some(Some(Micros::from_secs(seconds)))
            });
            tells_retry = told.is_some();
            let reset = last.map(|(_, decision)| decision.reset_after);
            Verdict::Deny { retry_after: told.unwrap_or(reset) }
        }
        other => return Err(format!("the code of the response is {other}")),
    };
    let (origin, reason) = (ReplyOrigin::Server, v1_wire::problem_reason(&response.raw_body));
    let reply = ServerReply { verdict, binding, decisions, reason, origin, unknown: None };
    Ok(WireReply { reply, tells_retry })
}

/// None where the descriptor met no limit.
fn decision(descriptor: usize, status: &DescriptorStatus, degraded: bool) -> Option<ServerDecision> {
    let limit = status.current_limit.as_ref()?;
    let reset_s = status
        .duration_until_reset
        .as_ref()
        .map_or(0, |span| u64::try_from(span.seconds).unwrap_or_default() + u64::from(span.nanos > 0));
    let reset_after = Micros::from_secs(reset_s);
    let verdict = match status.code {
        OVER_LIMIT => Verdict::Deny { retry_after: Some(reset_after) },
        _ => Verdict::Allow,
    };
    Some(ServerDecision {
        descriptor,
        rule: (!limit.name.is_empty()).then(|| limit.name.clone()),
        algorithm: None,
        verdict,
        limit: u64::from(limit.requests_per_unit),
        remaining: u64::from(status.limit_remaining),
        reset_after,
        shadow: false,
        soft: false,
        degraded,
        reason: None,
        message: None,
    })
}
