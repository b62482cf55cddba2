//! The dynamic metadata of a response: what was asked, and what rules attach.
//!
//! Invariant: rules are only read. What they attach is merged into a value of
//! this response alone.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, NullValue, Struct, Value};
use tollgate_core::{MetadataValue as Data, Micros};
use tollgate_limiter::Reply;

/// The field that tells how long to hold the request, in whole milliseconds.
const WAIT_FIELD: &str = "wait_ms";

/// The metadata of a response: everything if `is_wanted`, and the wait of a
/// request that is to be held in any case.
pub(super) fn dynamic_metadata(
    wire: &RateLimitRequest,
    reply: &Reply,
    wait: Option<Micros>,
    is_wanted: bool,
) -> Option<Struct> {
    let mut fields: Vec<(&str, Value)> = Vec::new();
    if is_wanted {
        fields.push(("domain", text(&wire.domain)));
        fields.push(("descriptors", list(wire.descriptors.iter().map(descriptor))));
        if wire.hits_addend != 0 {
            fields.push(("hitsAddend", number(u64::from(wire.hits_addend))));
        }
        if let Some(data) = attached(reply) {
            fields.push(("metadata", value(&data)));
        }
    }
    if let Some(wait) = wait {
        fields.push((WAIT_FIELD, number(wait.as_millis_ceil())));
    }
    (!fields.is_empty()).then(|| named(fields))
}

fn descriptor(wire: &RateLimitDescriptor) -> Value {
    let entries = wire.entries.iter().map(|entry| text(&format!("{}={}", entry.key, entry.value)));
    let mut fields = vec![("entries", list(entries))];
    if let Some(limit) = &wire.limit {
        fields.push(("limit", text(&limit_text(limit))));
    }
    if let Some(hits) = &wire.hits_addend {
        fields.push(("hitsAddend", number(hits.value)));
    }
    Value { kind: Some(Kind::StructValue(named(fields))) }
}

/// A limit brought along, as protobuf writes it in text.
fn limit_text(limit: &RateLimitOverride) -> String {
    let mut parts = Vec::new();
    if limit.requests_per_unit != 0 {
        parts.push(format!("requests_per_unit:{}", limit.requests_per_unit));
    }
    if limit.unit != 0 {
        let name = envoy_types::pb::envoy::r#type::v3::RateLimitUnit::try_from(limit.unit);
        parts.push(
            name.map_or_else(
                |_| format!("unit:{}", limit.unit),
                |unit| format!("unit:{}", unit.as_str_name()),
            ),
        );
    }
    parts.join(" ")
}

/// What the rules attach that did not refuse, merged: the first to say
/// something wins.
fn attached(reply: &Reply) -> Option<Data> {
    let passing = reply.decisions.iter().filter(|decision| !decision.is_denying());
    let mut all = passing.filter_map(|decision| reply.rule(decision)?.metadata.as_ref());
    let mut merged = all.next()?.clone();
    for other in all {
        merged.merge(other);
    }
    let is_empty = matches!(&merged, Data::Map(fields) if fields.is_empty());
    (!is_empty).then_some(merged)
}

fn value(data: &Data) -> Value {
    let kind = match data {
        Data::Null => Kind::NullValue(i32::from(NullValue::NullValue)),
        Data::Bool(is) => Kind::BoolValue(*is),
        Data::Int(whole) => Kind::NumberValue(double(*whole)),
        Data::Number(text) => match text.parse() {
            Ok(number) => Kind::NumberValue(number),
            // YAML writes some numbers in ways that only YAML reads.
            Err(_) => Kind::StringValue(text.clone()),
        },
        Data::Text(text) => Kind::StringValue(text.clone()),
        Data::List(items) => Kind::ListValue(ListValue { values: items.iter().map(value).collect() }),
        Data::Map(fields) => Kind::StructValue(Struct {
            fields: fields.iter().map(|(name, data)| (name.clone(), value(data))).collect(),
        }),
    };
    Value { kind: Some(kind) }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.collect() })) }
}

fn named(fields: Vec<(&str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

fn number(whole: u64) -> Value {
    Value { kind: Some(Kind::NumberValue(double(i64::try_from(whole).unwrap_or(i64::MAX)))) }
}

#[expect(clippy::as_conversions, reason = "a Struct knows no other numbers; what is above 2^53 is rounded")]
const fn double(whole: i64) -> f64 {
    whole as f64
}
