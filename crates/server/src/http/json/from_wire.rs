//! JSON → Envoy's request, by protobuf's rules for JSON.
//!
//! Names are taken in camelCase and as in the `.proto` file, numbers also as
//! texts and also as `1.0` and `1e2`, `null` as if it were not there. A name that
//! is not known, or comes twice in either spelling, is refused.
//!
//! Deliberately not here: whole numbers above 2^53 that are written with a point
//! or an exponent. They arrive rounded, and are refused.

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
use serde::de::{Deserialize, Deserializer, MapAccess, Unexpected, Visitor};

use super::to_wire::{JsonError, whole};

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

impl<'de, T: TryFrom<u64>> Deserialize<'de> for ProtoNumber<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProtoNumberVisitor(PhantomData)).map(Self)
    }
}

struct ProtoNumberVisitor<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for ProtoNumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of {} bits that is not negative", size_of::<T>() * 8)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        let wrong = || E::invalid_value(Unexpected::Float(number), &self);
        let number = whole(number).and_then(|whole| u64::try_from(whole).ok()).ok_or_else(wrong)?;
        T::try_from(number).map_err(|_| wrong())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        // Written as a number of JSON is, without blanks around it.
        let number = Some(text).filter(|text| text.trim_ascii().len() == text.len());
        let number: Option<serde_json::Number> = number.and_then(|text| serde_json::from_str(text).ok());
        let Some(number) = number else { return Err(E::invalid_value(Unexpected::Str(text), &self)) };
        match (number.as_u64(), number.as_f64()) {
            (Some(number), _) => self.visit_u64(number),
            (None, Some(number)) => self.visit_f64(number),
            (None, None) => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// A unit, written as its name or as its number.
struct UnitNumber(i32);

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor).map(Self)
    }
}

struct UnitVisitor;

impl Visitor<'_> for UnitVisitor {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR or the number of a unit")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<i32, E> {
        i32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<i32, E> {
        i32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<i32, E> {
        let found = whole(number).and_then(|whole| i32::try_from(whole).ok());
        found.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<i32, E> {
        let unit = Unit::from_str_name(name).map(i32::from);
        unit.ok_or_else(|| {
            E::custom(format!(
                "unknown unit `{name}`, expected SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"
            ))
        })
    }
}

#[cfg(test)]
mod tests;
