//! JSON → Envoy's request, by protobuf's rules for JSON.
//!
//! Names are taken in camelCase and as in the `.proto` file, numbers also as
//! texts, `null` as if it were not there. A name that is not known is refused.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry as WireEntry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::google::protobuf::UInt64Value;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::to_wire::JsonError;

/// Envoy's request in `bytes`.
pub(super) fn request(bytes: &[u8]) -> Result<RateLimitRequest, JsonError> {
    if bytes.trim_ascii().is_empty() {
        return Err(JsonError::Empty);
    }
    let JsonObject(wire): JsonObject<JsonRequest<'_>> =
        serde_json::from_slice(bytes).map_err(|error| JsonError::Json(error.to_string()))?;
    Ok(RateLimitRequest {
        domain: text(wire.domain),
        descriptors: wire.descriptors.unwrap_or_default().into_iter().map(descriptor).collect(),
        hits_addend: wire.hits_addend.map_or(0, |ProtoNumber(number)| number),
    })
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonRequest<'a> {
    #[serde(borrow, default)]
    domain: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    descriptors: Option<Vec<JsonObject<JsonDescriptor<'a>>>>,
    #[serde(alias = "hits_addend", default)]
    hits_addend: Option<ProtoNumber<u32>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonDescriptor<'a> {
    #[serde(borrow, default)]
    entries: Option<Vec<JsonObject<JsonEntry<'a>>>>,
    #[serde(default)]
    limit: Option<JsonObject<JsonLimit>>,
    #[serde(alias = "hits_addend", default)]
    hits_addend: Option<ProtoNumber<u64>>,
    #[serde(alias = "is_negative_hits", default)]
    is_negative_hits: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonEntry<'a> {
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    value: Option<Cow<'a, str>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JsonLimit {
    #[serde(alias = "requests_per_unit", default)]
    requests_per_unit: Option<ProtoNumber<u32>>,
    #[serde(default)]
    unit: Option<UnitNumber>,
}

fn text(text: Option<Cow<'_, str>>) -> String {
    text.map(Cow::into_owned).unwrap_or_default()
}

fn descriptor(JsonObject(wire): JsonObject<JsonDescriptor<'_>>) -> RateLimitDescriptor {
    let entry = |JsonObject(entry): JsonObject<JsonEntry<'_>>| WireEntry {
        key: text(entry.key),
        value: text(entry.value),
    };
    RateLimitDescriptor {
        entries: wire.entries.unwrap_or_default().into_iter().map(entry).collect(),
        limit: wire.limit.map(|JsonObject(limit)| RateLimitOverride {
            requests_per_unit: limit.requests_per_unit.map_or(0, |ProtoNumber(number)| number),
            unit: limit.unit.map_or(0, |UnitNumber(number)| number),
        }),
        hits_addend: wire.hits_addend.map(|ProtoNumber(value)| UInt64Value { value }),
        is_negative_hits: wire.is_negative_hits.unwrap_or(false),
    }
}

/// A message, written as an object: serde would take a list of its fields, too,
/// so that `"limit": []` were a limit of nothing.
struct JsonObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JsonObjectVisitor(PhantomData)).map(Self)
    }
}

struct JsonObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for JsonObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A whole number, written as a number or as a text.
struct ProtoNumber<T>(T);

impl<'de, T: TryFrom<u64> + std::str::FromStr> Deserialize<'de> for ProtoNumber<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProtoNumberVisitor(PhantomData)).map(Self)
    }
}

struct ProtoNumberVisitor<T>(PhantomData<T>);

impl<T: TryFrom<u64> + std::str::FromStr> Visitor<'_> for ProtoNumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of {} bits that is not negative", size_of::<T>() * 8)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// A unit, written as its name or as its number.
struct UnitNumber(i32);

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum UnitText<'a> {
            Number(i32),
            Name(#[serde(borrow)] Cow<'a, str>),
        }
        match UnitText::deserialize(deserializer)? {
            UnitText::Number(number) => Ok(Self(number)),
            UnitText::Name(name) => {
                Unit::from_str_name(&name).map(|unit| Self(i32::from(unit))).ok_or_else(|| {
                    D::Error::custom(format!(
                        "unknown unit `{name}`, expected SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"
                    ))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        match request(text.as_bytes()) {
            Err(JsonError::Json(message)) => message,
            other => panic!("{text} is not refused: {other:?}"),
        }
    }

    #[test]
    fn both_spellings_and_both_kinds_of_numbers_mean_the_same() {
        let camel = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}],
            "limit":{"requestsPerUnit":5,"unit":"HOUR"},"hitsAddend":"0","isNegativeHits":true}],"hitsAddend":7}"#;
        let snake = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}],
            "limit":{"requests_per_unit":"5","unit":3},"hits_addend":0,"is_negative_hits":true}],"hits_addend":"7"}"#;
        let wire = request(camel.as_bytes()).unwrap();
        assert_eq!(wire, request(snake.as_bytes()).unwrap());
        assert_eq!((wire.hits_addend, wire.descriptors[0].hits_addend), (7, Some(UInt64Value { value: 0 })));
    }

    #[test]
    fn null_and_nothing_are_the_same() {
        let nulls = r#"{"domain":null,"descriptors":null,"hitsAddend":null}"#;
        assert_eq!(request(nulls.as_bytes()).unwrap(), RateLimitRequest::default());
        let nulls = r#"{"descriptors":[{"entries":[{"key":null}],"limit":null,"hitsAddend":null,"isNegativeHits":null}]}"#;
        let wire = request(nulls.as_bytes()).unwrap();
        assert_eq!(
            wire.descriptors[0],
            RateLimitDescriptor { entries: vec![WireEntry::default()], ..RateLimitDescriptor::default() }
        );
    }

    #[test]
    fn what_is_not_known_or_wrong_is_named() {
        assert!(refused(r#"{"domian":"d"}"#).contains("`domian`"));
        assert!(refused(r#"{"descriptors":[{"entires":[]}]}"#).contains("`entires`"));
        assert!(refused(r#"{"descriptors":[{"entries":[{"name":"a"}]}]}"#).contains("`name`"));
        assert!(refused(r#"{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#).contains("`FORTNIGHT`"));
        assert!(refused(r#"{"hitsAddend":-1}"#).contains("-1"));
        assert!(refused(r#"{"hitsAddend":4294967296}"#).contains("4294967296"));
        assert!(refused(r#"{"hitsAddend":1,"hits_addend":1}"#).contains("duplicate"));
        assert!(refused("{").contains("EOF"));
        for list in ["[]", r#"{"descriptors":[[]]}"#, r#"{"descriptors":[{"limit":[5,"HOUR"]}]}"#] {
            assert!(refused(list).contains("expected an object"), "{list}");
        }
    }
}
