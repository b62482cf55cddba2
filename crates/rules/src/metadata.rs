//! Free data on a rule: YAML as a [`Value`].
//!
//! Its keys and values are the operator's own; only what could not be given
//! back to callers is refused.
//!
//! Deliberately not here: how it is sent.

use std::collections::HashMap;

use tollgate_core::Value;

use tollgate_yaml::{MapEntry, Problems, ScalarType, YamlField, YamlNode, YamlValue};

/// The free data of a descriptor; none if it is no map, which is reported.
pub(crate) fn read(field: &YamlField, problems: &mut Problems) -> Option<Value> {
    if let YamlValue::Map(_) = *field.node.value {
        return value(&field.node, problems);
    }
    field.node.must_be("metadata", "a map", "write metadata: and below it NAME: VALUE", problems);
    None
}

fn value(node: &YamlNode, problems: &mut Problems) -> Option<Value> {
    match &*node.value {
        YamlValue::List(items) => {
            let items: Vec<Option<Value>> = items.iter().map(|item| value(item, problems)).collect();
            Some(Value::List(items.into_iter().collect::<Option<_>>()?))
        }
        YamlValue::Map(_) => {
            let entries = node.entries(|| "write NAME: VALUE".to_owned(), problems);
            Some(Value::Map(fields(&entries, problems)))
        }
        YamlValue::Scalar(scalar) => Some(match scalar.resolve() {
            ScalarType::Null => Value::Null,
            ScalarType::Bool(is_true) => Value::Bool(is_true),
            ScalarType::Int(number) => Value::Int(number),
            ScalarType::Text => Value::Text(scalar.text.clone()),
            ScalarType::Float => Value::Number(scalar.text.clone()),
            ScalarType::Timestamp => {
                let message = format!("metadata cannot hold {}", node.shown());
                problems.error(node.at, message, format!("write \"{}\", in quotes", scalar.text));
                return None;
            }
        }),
        YamlValue::Broken => None,
    }
}

/// The fields of a map; the last of two equal names wins.
fn fields(entries: &[MapEntry<'_>], problems: &mut Problems) -> Vec<(String, Value)> {
    let mut fields: Vec<(String, Value)> = Vec::with_capacity(entries.len());
    let mut indexes: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    for entry in entries {
        let Some(value) = value(entry.value, problems) else { continue };
        match indexes.get(entry.name).and_then(|index| fields.get_mut(*index)) {
            Some(field) => field.1 = value,
            None => {
                indexes.insert(entry.name, fields.len());
                fields.push((entry.name.to_owned(), value));
            }
        }
    }
    fields
}
