//! Free data on a rule: YAML as a [`MetadataValue`].
//!
//! Its keys and values are the operator's own; only what could not be given
//! back to callers is refused.
//!
//! Deliberately not here: how it is sent.

use std::collections::HashMap;

use tollgate_core::MetadataValue;

use tollgate_yaml::{MapEntry, Problems, ScalarType, YamlField, YamlNode, YamlValue};

/// The free data of a descriptor; none if it is no map, which is reported.
pub(crate) fn read(field: &YamlField, problems: &mut Problems) -> Option<MetadataValue> {
    if let YamlValue::Map(_) = *field.node.value {
        return value(&field.node, problems);
    }
    field.node.must_be("metadata", "a map", "write metadata: and below it NAME: VALUE", problems);
    None
}

fn value(node: &YamlNode, problems: &mut Problems) -> Option<MetadataValue> {
    match &*node.value {
        YamlValue::List(items) => {
            let items: Vec<Option<MetadataValue>> = items.iter().map(|item| value(item, problems)).collect();
            Some(MetadataValue::List(items.into_iter().collect::<Option<_>>()?))
        }
        YamlValue::Map(_) => {
            let entries = node.entries(|| "write NAME: VALUE".to_owned(), problems);
            Some(MetadataValue::Map(fields(&entries, problems)))
        }
        YamlValue::Scalar(scalar) => Some(match scalar.resolve() {
            ScalarType::Null => MetadataValue::Null,
            ScalarType::Bool(is_true) => MetadataValue::Bool(is_true),
            ScalarType::Int(number) => MetadataValue::Int(number),
            ScalarType::Text => MetadataValue::Text(scalar.text.clone()),
            ScalarType::Float => MetadataValue::Number(scalar.text.clone()),
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
fn fields(entries: &[MapEntry<'_>], problems: &mut Problems) -> Vec<(String, MetadataValue)> {
    let mut fields: Vec<(String, MetadataValue)> = Vec::with_capacity(entries.len());
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
