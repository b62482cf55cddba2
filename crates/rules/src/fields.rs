//! A map of a rule file as fields: which keys count, and which of two.
//!
//! Between the YAML tree and what it means, as [`YamlMap::read`] for other
//! files. Rule files are read as the parser of envoyproxy/ratelimit reads them:
//! the last of two equal keys wins, two `rate_limit` maps become one, and a key
//! of the reference that stands in the wrong place is ignored, with a warning.
//!
//! Deliberately not here: which values are sensible.

use tollgate_yaml::{
    Location, MapEntry, Problems, ScalarType, YamlField, YamlMap, YamlNode, YamlValue, quoted,
};

use crate::keys::{self, RuleMapKind};

/// The fields of a map; none if the node is no map, which is reported.
pub(crate) fn read(node: &YamlNode, kind: RuleMapKind, problems: &mut Problems) -> Option<YamlMap> {
    let YamlValue::Map(_) = &*node.value else {
        node.must_be(kind.what(), "a map", kind.example(), problems);
        return None;
    };
    let mut map = YamlMap::empty(node.at, kind.what());
    for entry in node.entries(|| keys::help_for("", kind), problems) {
        if entry.key.scalar_type() != Some(ScalarType::Text) {
            entry.key.must_be("a key", "a text", keys::help_for("", kind), problems);
        } else if let Some(key) = known(&mut map, &entry, kind, problems) {
            let (node, is_merged) = (entry.value.clone(), entry.is_merged);
            put(&mut map, YamlField { key, key_at: entry.key.at, node, is_merged }, problems);
        }
    }
    Some(map)
}

/// The key, if it belongs here; else it is reported.
fn known(
    map: &mut YamlMap,
    entry: &MapEntry<'_>,
    kind: RuleMapKind,
    problems: &mut Problems,
) -> Option<&'static str> {
    let (name, at) = (entry.name, entry.key.at);
    let Some(known) = keys::find(name) else {
        unknown(name, at, kind, problems);
        match name {
            // It would stand instead of these two.
            "concurrency" => ["unit", "requests_per_unit"].into_iter().for_each(|key| map.misspelled(key)),
            _ if problems.is_full() => {}
            _ => keys::meant(name, kind).into_iter().for_each(|key| map.misspelled(key)),
        }
        return None;
    };
    if known.maps.contains(&kind) {
        return Some(known.name);
    }
    let help = format!("write it {}", known.maps.first().map_or("", |kind| kind.whereabouts()));
    let message = format!("{name} has no effect {}", kind.here());
    if known.is_envoy_key {
        problems.warning(at, message, help);
        check_unused(name, entry.value, problems);
    } else {
        problems.error(at, message, help);
    }
    None
}

fn put(map: &mut YamlMap, mut field: YamlField, problems: &mut Problems) {
    let name = field.key;
    let Some(earlier) = map.field_mut(name) else { return map.push(field) };
    if !earlier.is_merged && !field.is_merged {
        let line = earlier.key_at.line;
        let message = match name {
            "rate_limit" => {
                format!("{name} is given twice, this and the one at line {line} are read as one")
            }
            _ => format!("{name} is given twice, the one at line {line} is ignored"),
        };
        problems.warning(field.key_at, message, "write it once");
    } else if !earlier.is_merged {
        problems.warning(earlier.key_at, format!("<< after {name} overwrites it"), "write << first");
    }
    if name == "rate_limit" {
        field.node = joined(&earlier.node, &field.node);
    }
    *earlier = field;
}

/// The text of a field as the reference takes it: `200` and `on` are texts,
/// fractional numbers and dates are not.
pub(crate) fn text(map: &YamlMap, key: &str, problems: &mut Problems) -> Option<String> {
    let node = &map.get(key)?.node;
    match node.scalar_type() {
        Some(ScalarType::Float | ScalarType::Timestamp) => {
            let text = quoted(node.as_str().unwrap_or_default());
            let help = format!("write {key}: \"{}\", in quotes", text.trim_matches('\''));
            node.must_be(key, "a text", help, problems);
            None
        }
        Some(ScalarType::Null | ScalarType::Bool(_) | ScalarType::Int(_) | ScalarType::Text) | None => {
            map.text(key, problems).map(|text| text.value)
        }
    }
}

/// The whole number of a field; none if it is absent.
pub(crate) fn count(map: &YamlMap, key: &str, problems: &mut Problems) -> Option<u32> {
    map.number(key, 0..=u64::from(u32::MAX), problems).and_then(|number| u32::try_from(number).ok())
}

fn unknown(name: &str, at: Location, kind: RuleMapKind, problems: &mut Problems) {
    if problems.is_full() {
        return problems.error(at, "", "");
    }
    if keys::is_reserved(name) {
        let message = format!("{name} is not in this version of Tollgate");
        return problems.error(at, message, "leave it out");
    }
    problems.error(at, format!("unknown key {}", quoted(name)), keys::help_for(name, kind));
}

/// Two maps as one, in which the fields of the second win.
fn joined(first: &YamlNode, second: &YamlNode) -> YamlNode {
    let (YamlValue::Map(ours), YamlValue::Map(theirs)) = (&*first.value, &*second.value) else {
        return second.clone();
    };
    let mut pairs = Vec::new();
    // By known key, so that joining many maps does not add up.
    for name in RuleMapKind::Limit.keys().filter(|name| !second.has_key(name)) {
        pairs.extend(ours.iter().rfind(|(key, _)| key.as_str() == Some(name)).cloned());
    }
    pairs.extend(theirs.iter().cloned());
    YamlNode::map(second.at, pairs)
}

/// What stands below a key without effect is checked as the reference checks
/// everything: for unknown keys, for lists of other things than maps, and for
/// fractional numbers and dates.
fn check_unused(name: &str, node: &YamlNode, problems: &mut Problems) {
    // Free data is anyone's own affair.
    if name == "metadata" {
        return;
    }
    match &*node.value {
        YamlValue::Map(pairs) => {
            for (key, value) in pairs {
                let YamlValue::Scalar(scalar) = &*key.value else { continue };
                if !scalar.is_merge() && keys::find(&scalar.text).is_none() {
                    unknown(&scalar.text, key.at, RuleMapKind::Descriptor, problems);
                }
                check_unused(&scalar.text, value, problems);
            }
        }
        YamlValue::List(items) => {
            for item in items {
                match &*item.value {
                    YamlValue::Map(_) => check_unused(name, item, problems),
                    YamlValue::Broken => {}
                    YamlValue::Scalar(_) | YamlValue::List(_) => {
                        let message = format!("a list holds only maps, this is {}", item.shown());
                        problems.error(item.at, message, "write - key: NAME");
                    }
                }
            }
        }
        YamlValue::Scalar(scalar) => {
            if matches!(scalar.resolve(), ScalarType::Float | ScalarType::Timestamp) {
                node.must_be("a value", "a text", format!("write {:?}, in quotes", scalar.text), problems);
            }
        }
        YamlValue::Broken => {}
    }
}
