//! Mappings as `statsd_exporter` writes them, read from YAML.
//!
//! Keys that make no difference here (`ttl`, buckets, quantiles) are read
//! over; a key that would change what is shown is refused if it cannot be
//! followed.

use std::collections::BTreeMap;

use regex::Regex;
use tollgate_yaml::{Located, MapSchema, Problems, YamlMap, YamlNode, YamlValue, parse, quoted};

use super::{NameMapping, TimeUnit};
use crate::exposition::MetricKind;
use crate::template::GroupTemplate;

const FILE: MapSchema = MapSchema {
    what: "a mapping of statsd_exporter",
    keys: &["defaults", "mappings"],
    example: "mappings: and below it - match: PATTERN",
};
const DEFAULTS: MapSchema =
    MapSchema { what: "defaults", keys: &["match_type"], example: "defaults: { match_type: glob }" };
const MAPPING: MapSchema = MapSchema {
    what: "a mapping",
    keys: &["match", "match_type", "match_metric_type", "action", "name", "labels", "scale"],
    example: "{ match: PATTERN, name: NAME }",
};

/// How a pattern is written.
#[derive(Clone, Copy)]
enum MatchType {
    Glob,
    Regex,
}

/// The mappings of the file, in the order written; what is wrong is reported.
pub(super) fn mappings(problems: &mut Problems) -> Option<Vec<NameMapping>> {
    let root = parse(0, problems)?.root;
    if root.is_null() {
        return Some(Vec::new());
    }
    let file = YamlMap::read_known(&root, &FILE, problems)?;
    let defaults = file.get("defaults");
    let defaults = defaults.and_then(|field| YamlMap::read_known(&field.node, &DEFAULTS, problems));
    let default_type = defaults.and_then(|defaults| match_type(&defaults, problems));
    let default_type = default_type.unwrap_or(MatchType::Glob);
    let items = file.list("mappings", MAPPING.example, problems);
    Some(items.iter().filter_map(|item| mapping(item, default_type, problems)).collect())
}

fn mapping(node: &YamlNode, default_type: MatchType, problems: &mut Problems) -> Option<NameMapping> {
    let fields = YamlMap::read_known(node, &MAPPING, problems)?;
    fields.required("match", "PATTERN", problems);
    let match_type = match_type(&fields, problems).unwrap_or(default_type);
    let pattern = fields.parsed("match", |text| pattern(text, match_type), problems);
    let kind = fields.choice("match_metric_type", &["counter", "gauge", "observer"], metric_kind, problems);
    let is_dropped = fields.choice("action", &["map", "drop"], is_drop, problems) == Some(true);
    let name = fields.text("name", problems).filter(|name| !name.value.is_empty());
    if !is_dropped && name.is_none() {
        problems.error(fields.location("name"), "a mapping needs a name", "write name: NAME or action: drop");
    }
    Some(NameMapping {
        pattern: pattern?.value,
        kind: kind.flatten(),
        name: name.filter(|_| !is_dropped).map(|name| GroupTemplate::new(&name.value)),
        labels: labels(&fields, problems),
        unit: fields.parsed("scale", unit, problems).map_or(TimeUnit::Millis, |unit| unit.value),
    })
}

fn match_type(fields: &YamlMap, problems: &mut Problems) -> Option<MatchType> {
    let find = |word: &str| match word {
        "" | "glob" => Some(MatchType::Glob),
        "regex" => Some(MatchType::Regex),
        _ => None,
    };
    fields.choice("match_type", &["glob", "regex"], find, problems)
}

/// In a glob, `*` is one level of the dotted name.
fn pattern(text: &str, match_type: MatchType) -> Result<Regex, String> {
    let expression = match match_type {
        MatchType::Regex => text.to_owned(),
        MatchType::Glob => {
            let levels: Vec<String> = text
                .split('.')
                .map(|level| if level == "*" { "([^.]*)".to_owned() } else { regex::escape(level) })
                .collect();
            format!("^{}$", levels.join(r"\."))
        }
    };
    let wrong = |error: regex::Error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("{} is not a regular expression: {reason}; write one, or a glob", quoted(text))
    };
    Regex::new(&expression).map_err(wrong)
}

fn metric_kind(word: &str) -> Option<Option<MetricKind>> {
    match word {
        "" => Some(None),
        "counter" => Some(Some(MetricKind::Counter)),
        "gauge" => Some(Some(MetricKind::Gauge)),
        "observer" | "timer" | "histogram" | "distribution" => Some(Some(MetricKind::Histogram)),
        _ => None,
    }
}

fn is_drop(word: &str) -> Option<bool> {
    match word {
        "" | "map" => Some(false),
        "drop" => Some(true),
        _ => None,
    }
}

/// By name; of two equal names the last counts.
fn labels(fields: &YamlMap, problems: &mut Problems) -> Vec<(String, GroupTemplate)> {
    let Some(field) = fields.get("labels") else { return Vec::new() };
    let help = "write NAME: VALUE, with letters, digits and _ in NAME";
    if !matches!(*field.node.value, YamlValue::Map(_)) {
        field.node.must_be("labels", "a map", help, problems);
    }
    let mut labels = BTreeMap::new();
    for entry in field.node.entries(|| help.to_owned(), problems) {
        if !is_label(entry.name) {
            let message = format!("{} is not the name of a label", quoted(entry.name));
            problems.error(entry.key.at, message, help);
        }
        if let Some(Located { value, .. }) = entry.value.text(entry.name, "VALUE", problems) {
            labels.insert(entry.name.to_owned(), GroupTemplate::new(&value));
        }
    }
    labels.into_iter().collect()
}

fn is_label(name: &str) -> bool {
    let is_lawful = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_lawful) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Times come in milliseconds.
fn unit(scale: &str) -> Result<TimeUnit, String> {
    match scale.parse::<f64>().map(f64::to_bits) {
        Ok(bits) if bits == 1.0_f64.to_bits() => Ok(TimeUnit::Millis),
        Ok(bits) if bits == 0.001_f64.to_bits() => Ok(TimeUnit::Seconds),
        Ok(_) | Err(_) => {
            let scale = quoted(scale);
            Err(format!("a scale of {scale} is not supported; write 0.001 for seconds, or leave it out"))
        }
    }
}
