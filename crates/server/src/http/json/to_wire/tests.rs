//! Random responses are written as `prost-reflect` writes them.
//!
//! Deliberately left out: what no response of ours has, which is a fraction of a
//! second, a code or a unit that is not known, and a number that is not finite.

use envoy_types::pb::google::protobuf::{Duration, ListValue};
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;

use super::*;

/// Envoy's rate limit service and every message it sends.
const RATE_LIMIT_SERVICE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rls.binpb"));

fn written_there(wire: &RateLimitResponse) -> Value {
    let pool = DescriptorPool::decode(RATE_LIMIT_SERVICE).expect("it is a set of descriptions");
    let description = pool.get_message_by_name("envoy.service.ratelimit.v3.RateLimitResponse");
    let bytes = wire.encode_to_vec();
    let message = DynamicMessage::decode(description.expect("it has the response"), &*bytes);
    serde_json::to_value(message.expect("it is that message")).expect("it can be written")
}

/// The same with all numbers as doubles: 1 and 1.0 are one number in JSON.
fn as_doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64()),
        Value::Array(list) => list.into_iter().map(as_doubles).collect(),
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, as_doubles(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "ü\n\"", "x-ratelimit-limit"]).prop_map(str::to_owned)
}

fn code() -> impl Strategy<Value = i32> {
    prop::sample::select(vec![Code::Unknown, Code::Ok, Code::OverLimit]).prop_map(i32::from)
}

fn status() -> impl Strategy<Value = DescriptorStatus> {
    let number = prop::sample::select(vec![0, 1, u32::MAX]);
    let limit = (text(), number.clone(), 0..=7_i32).prop_map(|(name, requests_per_unit, unit)| RateLimit {
        name,
        requests_per_unit,
        unit,
    });
    let reset =
        prop::sample::select(vec![0, 1, 31_536_000]).prop_map(|seconds| Duration { seconds, nanos: 0 });
    (code(), prop::option::of(limit), number, prop::option::of(reset)).prop_map(
        |(code, current_limit, limit_remaining, duration_until_reset)| DescriptorStatus {
            code,
            current_limit,
            limit_remaining,
            duration_until_reset,
            ..DescriptorStatus::default()
        },
    )
}

fn metadata() -> impl Strategy<Value = WireValue> {
    let kind = |kind| WireValue { kind: Some(kind) };
    let leaf = prop_oneof![
        Just(kind(Kind::NullValue(0))),
        any::<bool>().prop_map(move |truth| kind(Kind::BoolValue(truth))),
        text().prop_map(move |text| kind(Kind::StringValue(text))),
        prop::sample::select(vec![0.0, -1.0, 2.5, 9e15, 1e300])
            .prop_map(move |it| kind(Kind::NumberValue(it))),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(move |values| kind(Kind::ListValue(ListValue { values }))),
            fields(inner).prop_map(move |fields| kind(Kind::StructValue(fields))),
        ]
    })
}

fn fields(value: impl Strategy<Value = WireValue>) -> impl Strategy<Value = Struct> {
    prop::collection::vec((text(), value), 0..3)
        .prop_map(|pairs| Struct { fields: pairs.into_iter().collect() })
}

fn response() -> impl Strategy<Value = RateLimitResponse> {
    let header = (text(), text()).prop_map(|(key, value)| WireHeader { key, value, ..WireHeader::default() });
    (
        code(),
        prop::collection::vec(status(), 0..3),
        prop::collection::vec(header, 0..3),
        prop::collection::vec(any::<u8>(), 0..5),
        prop::option::of(fields(metadata())),
    )
        .prop_map(|(overall_code, statuses, response_headers_to_add, raw_body, dynamic_metadata)| {
            RateLimitResponse {
                overall_code,
                statuses,
                response_headers_to_add,
                raw_body,
                dynamic_metadata,
                ..RateLimitResponse::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_response_is_written_as_prost_reflect_writes_it(wire in response()) {
        let here = serde_json::to_value(JsonResponse::from(&wire)).expect("it can be written");
        prop_assert_eq!(as_doubles(here), as_doubles(written_there(&wire)));
    }
}
