//! Pieces of JSON Schema, for editors: what a field may be, as its reader takes it.
//!
//! Who reads a kind of file puts them together from its own tables of keys, so that file and schema
//! have the same keys. Each piece is named as the method of [`YamlMap`](crate::YamlMap) that reads
//! such a field.
//!
//! Invariant: what a reader accepts, its piece accepts. A piece may accept more: what depends on two
//! fields, or on another file, is told by `tollgate check` alone.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

/// The draft that editors know best.
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// A duration with its unit, as `1m30s` and `500ms`.
const DURATION: &str = r"^\+?([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h|d|w))+$|^\+?0$";

/// The whole schema: its title, what the file is, and what it refers to by `#/definitions/NAME`.
pub fn document<const N: usize>(title: &str, root: &Value, definitions: [(&str, Value); N]) -> Value {
    let definitions: Map<String, Value> =
        definitions.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "$schema": DRAFT, "title": title, "allOf": [root], "definitions": definitions })
}

/// What stands in the definitions by that name.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

/// A map with these keys and no others; `of` says what stands there.
pub fn map<'a>(keys: impl IntoIterator<Item = &'a str>, mut of: impl FnMut(&'a str) -> Value) -> Value {
    let properties: Map<String, Value> = keys.into_iter().map(|key| (key.to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The map with keys that it must have.
pub fn requiring(mut map: Value, keys: &[&str]) -> Value {
    if let Some(fields) = map.as_object_mut() {
        fields.insert("required".to_owned(), json!(keys));
    }
    map
}

/// The schema with words that an editor shows.
pub fn described(mut schema: Value, description: &str) -> Value {
    if let Some(fields) = schema.as_object_mut()
        && !description.is_empty()
    {
        fields.insert("description".to_owned(), description.into());
    }
    schema
}

/// That, or nothing at all: a field that is null counts as absent.
pub fn or_null(schema: Value) -> Value {
    any([schema, json!({ "type": "null" })])
}

/// Any of these.
pub fn any<const N: usize>(schemas: [Value; N]) -> Value {
    json!({ "anyOf": schemas.to_vec() })
}

/// A text; numbers and truth values are texts as they are written.
pub fn text() -> Value {
    json!({ "type": ["string", "number", "boolean", "null"] })
}

/// One text or a list of them.
pub fn texts() -> Value {
    any([text(), list(text())])
}

/// A list.
pub fn list(item: Value) -> Value {
    json!({ "type": ["array", "null"], "items": item })
}

/// True or false.
pub fn flag() -> Value {
    json!({ "type": ["boolean", "null"] })
}

/// A whole number in that range.
pub fn number(range: RangeInclusive<u64>) -> Value {
    json!({ "type": ["integer", "null"], "minimum": range.start(), "maximum": range.end() })
}

/// One of these words.
pub fn choice(words: &[&str]) -> Value {
    let words: Vec<Value> = words.iter().map(|word| json!(word)).chain([Value::Null]).collect();
    json!({ "enum": words })
}

/// A duration with its unit.
pub fn duration() -> Value {
    any([json!({ "type": "string", "pattern": DURATION }), json!({ "enum": [0, null] })])
}
