//! Mappings as `statsd_exporter` writes them, read from YAML.
//!
//! Keys that make no difference here (`defaults`, `ttl`, buckets, quantiles)
//! are read over; a key that would change what is shown is refused if it
//! cannot be followed.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use super::{MapperError, NameMapping, TimeUnit};
use crate::exposition::MetricKind;
use crate::template::GroupTemplate;

#[derive(Debug, Deserialize)]
struct RawMapper {
    #[serde(default)]
    defaults: RawDefaults,
    #[serde(default)]
    mappings: Vec<RawMapping>,
}

#[derive(Debug, Default, Deserialize)]
struct RawDefaults {
    match_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawMapping {
    #[serde(rename = "match")]
    pattern: String,
    match_type: Option<String>,
    match_metric_type: Option<String>,
    action: Option<String>,
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    scale: Option<f64>,
}

/// The mappings in `text`, in the order written.
pub(super) fn mappings(text: &str) -> Result<Vec<NameMapping>, MapperError> {
    let raw: RawMapper =
        serde_saphyr::from_str(text).map_err(|error| MapperError::Syntax { problem: error.to_string() })?;
    let default_type = raw.defaults.match_type.unwrap_or_default();
    let checked = raw.mappings.into_iter().enumerate().map(|(index, raw)| {
        let pattern = raw.pattern.clone();
        let wrong = |problem| MapperError::Mapping { number: index + 1, pattern, problem };
        raw.check(&default_type).map_err(wrong)
    });
    checked.collect()
}

impl RawMapping {
    fn check(self, default_type: &str) -> Result<NameMapping, String> {
        let name = match (self.action.as_deref(), self.name) {
            (Some("drop"), _) => None,
            (Some("map" | "") | None, Some(name)) if !name.is_empty() => Some(GroupTemplate::new(&name)),
            (Some("map" | "") | None, _) => return Err("has no name; write name: or action: drop".to_owned()),
            (Some(other), _) => return Err(format!("action '{other}' is not known; write map or drop")),
        };
        let kind = match self.match_metric_type.as_deref() {
            None | Some("") => None,
            Some("counter") => Some(MetricKind::Counter),
            Some("gauge") => Some(MetricKind::Gauge),
            Some("observer" | "timer" | "histogram" | "distribution") => Some(MetricKind::Histogram),
            Some(other) => {
                return Err(format!(
                    "match_metric_type '{other}' is not known; write counter, gauge or observer"
                ));
            }
        };
        let match_type = self.match_type.as_deref().unwrap_or(default_type);
        let pattern = pattern(&self.pattern, match_type)?;
        if let Some(label) = self.labels.keys().find(|label| !is_label(label)) {
            return Err(format!("'{label}' is not the name of a label; write letters, digits and _"));
        }
        let labels =
            self.labels.into_iter().map(|(label, value)| (label, GroupTemplate::new(&value))).collect();
        Ok(NameMapping { pattern, kind, name, labels, unit: unit(self.scale)? })
    }
}

/// In a glob, `*` is one level of the dotted name.
fn pattern(text: &str, match_type: &str) -> Result<Regex, String> {
    let expression = match match_type {
        "regex" => text.to_owned(),
        "" | "glob" => {
            let levels: Vec<String> = text
                .split('.')
                .map(|level| if level == "*" { "([^.]*)".to_owned() } else { regex::escape(level) })
                .collect();
            format!("^{}$", levels.join(r"\."))
        }
        other => return Err(format!("match_type '{other}' is not known; write glob or regex")),
    };
    Regex::new(&expression).map_err(|error| format!("is not a regular expression: {error}"))
}

fn is_label(name: &str) -> bool {
    let is_lawful = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_lawful) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Times come in milliseconds.
fn unit(scale: Option<f64>) -> Result<TimeUnit, String> {
    match scale {
        None => Ok(TimeUnit::Millis),
        Some(scale) if scale.to_bits() == 1.0_f64.to_bits() => Ok(TimeUnit::Millis),
        Some(scale) if scale.to_bits() == 0.001_f64.to_bits() => Ok(TimeUnit::Seconds),
        Some(other) => {
            Err(format!("scale: {other} is not supported; write 0.001 for seconds, or leave it out"))
        }
    }
}
