//! The protos against the generated messages, by somebody else's reader.

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::quota::ExpirationSpecifier;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    DescriptorStatus, Quota, RateLimit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Duration, ListValue, Struct, Timestamp, UInt64Value, Value};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::RATE_LIMIT_SERVICE;

/// What a message says, read by the protos: as JSON, and whether all of it was known.
fn read(name: &str, message: &impl prost::Message) -> serde_json::Value {
    let pool = DescriptorPool::decode(RATE_LIMIT_SERVICE).expect("every name leads somewhere");
    let descriptor = pool.get_message_by_name(name).expect("the message is described");
    let bytes = message.encode_to_vec();
    let read = DynamicMessage::decode(descriptor, bytes.as_slice()).expect("numbers and kinds agree");
    assert_eq!(read.unknown_fields().count(), 0, "a field of {name} is not in the protos");
    assert_eq!(read.encode_to_vec().len(), bytes.len(), "a field inside of {name} is not in the protos");
    serde_json::to_value(&read).expect("it can be told")
}

fn request() -> RateLimitRequest {
    RateLimitRequest {
        domain: "d".into(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![Entry { key: "k".into(), value: "v".into() }],
            limit: Some(RateLimitOverride { requests_per_unit: 3, unit: 6 }),
            hits_addend: Some(UInt64Value { value: 7 }),
            is_negative_hits: true,
        }],
        hits_addend: 5,
    }
}

fn quota() -> Quota {
    let until = ExpirationSpecifier::ValidUntil(Timestamp { seconds: 60, nanos: 0 });
    Quota { requests: 1, id: "q".into(), expiration_specifier: Some(until) }
}

fn response() -> RateLimitResponse {
    let header = |key: &str| HeaderValue { key: key.into(), value: "v".into(), raw_value: b"raw".to_vec() };
    let value = |kind| Value { kind: Some(kind) };
    let kinds = vec![
        value(Kind::NullValue(0)),
        value(Kind::NumberValue(2.5)),
        value(Kind::StringValue("s".into())),
        value(Kind::BoolValue(true)),
        value(Kind::StructValue(Struct::default())),
    ];
    let list = value(Kind::ListValue(ListValue { values: kinds }));
    RateLimitResponse {
        overall_code: 2,
        statuses: vec![DescriptorStatus {
            code: 1,
            current_limit: Some(RateLimit { name: "n".into(), requests_per_unit: 9, unit: 7 }),
            limit_remaining: 8,
            duration_until_reset: Some(Duration { seconds: 58, nanos: 0 }),
            quota: Some(quota()),
        }],
        response_headers_to_add: vec![header("a")],
        request_headers_to_add: vec![header("b")],
        raw_body: b"body".to_vec(),
        dynamic_metadata: Some(Struct { fields: [("list".to_owned(), list)].into() }),
        quota: Some(quota()),
    }
}

#[test]
fn a_full_request_is_read_whole() {
    let expected = serde_json::json!({
        "domain": "d",
        "descriptors": [{
            "entries": [{ "key": "k", "value": "v" }],
            "limit": { "requestsPerUnit": 3, "unit": "YEAR" },
            "hitsAddend": "7",
            "isNegativeHits": true,
        }],
        "hitsAddend": 5,
    });
    assert_eq!(read("envoy.service.ratelimit.v3.RateLimitRequest", &request()), expected);
}

#[test]
fn a_full_response_is_read_whole() {
    let quota = serde_json::json!({ "requests": 1, "id": "q", "validUntil": "1970-01-01T00:01:00Z" });
    let expected = serde_json::json!({
        "overallCode": "OVER_LIMIT",
        "statuses": [{
            "code": "OK",
            "currentLimit": { "name": "n", "requestsPerUnit": 9, "unit": "WEEK" },
            "limitRemaining": 8,
            "durationUntilReset": "58s",
            "quota": quota,
        }],
        "responseHeadersToAdd": [{ "key": "a", "value": "v", "rawValue": "cmF3" }],
        "requestHeadersToAdd": [{ "key": "b", "value": "v", "rawValue": "cmF3" }],
        "rawBody": "Ym9keQ==",
        "dynamicMetadata": { "list": [null, 2.5, "s", true, {}] },
        "quota": quota,
    });
    assert_eq!(read("envoy.service.ratelimit.v3.RateLimitResponse", &response()), expected);
}
