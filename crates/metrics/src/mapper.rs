//! How dotted names become Prometheus series.
//!
//! envoyproxy/ratelimit shows its counters through a built-in
//! `statsd_exporter`, with a mapping of its own or with one that the operator
//! wrote. [`Mapper`] does what those mappings do: `render` asks it for
//! the series of each dotted name.
//!
//! Invariant: a series has a lawful name whatever the dotted name was.
//!
//! Deliberately not here: summaries, quantiles and buckets of one's own; the
//! times of calls are always a histogram with the usual buckets.

mod yaml;

use std::path::Path;

use regex::Regex;
use smallvec::SmallVec;
use tollgate_yaml::{LoadError, Problems, SourceFile};

use super::exposition::MetricKind;
use super::template::GroupTemplate;

/// The first words of every rule's counters.
pub(super) const RULE_PREFIX: &str = "ratelimit.service.rate_limit.";
/// The first words of the counters of failed calls.
pub(super) const CALL_PREFIX: &str = "ratelimit.service.call.should_rate_limit.";
/// The first words of the counters of gRPC methods.
pub(super) const METHOD_PREFIX: &str = "ratelimit_server.";

/// The counters of a rule that the default mapping knows.
const RULE_COUNTERS: [&str; 6] =
    ["total_hits", "over_limit", "near_limit", "within_limit", "shadow_mode", "total_negative_hits"];

/// How dotted names become Prometheus series.
#[derive(Debug, Clone)]
pub struct Mapper {
    /// Tried in order; none for the default mapping.
    mappings: Option<Vec<NameMapping>>,
    /// In what the default mapping tells times.
    unit: TimeUnit,
}

/// In what times are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Millis,
}

/// What becomes of one dotted name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MappedName {
    /// It is part of this series.
    Series(Series),
    /// It is not shown.
    Dropped,
}

/// A series: what it is called, and its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) unit: TimeUnit,
}

/// One line of a mapping.
#[derive(Debug, Clone)]
struct NameMapping {
    pattern: Regex,
    /// Which kinds it is for; none for all.
    kind: Option<MetricKind>,
    /// None to drop what matches.
    name: Option<GroupTemplate>,
    labels: Vec<(String, GroupTemplate)>,
    unit: TimeUnit,
}

impl Default for Mapper {
    fn default() -> Self {
        Self { mappings: None, unit: TimeUnit::Seconds }
    }
}

impl Mapper {
    /// The reference's mapping, with times in milliseconds under a name that
    /// says seconds, as its older versions did (`PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS`).
    pub fn default_in_millis() -> Self {
        Self { mappings: None, unit: TimeUnit::Millis }
    }

    /// A mapping in the form of `statsd_exporter`.
    ///
    /// # Errors
    /// If it is not one, or asks for something that cannot be done; all of it is told.
    pub fn from_source(source: SourceFile) -> Result<Self, LoadError> {
        let mut problems = Problems::new(vec![source]);
        match yaml::mappings(&mut problems) {
            Some(mappings) if problems.error_count() == 0 => {
                Ok(Self { mappings: Some(mappings), unit: TimeUnit::Seconds })
            }
            Some(_) | None => Err(LoadError { problems: problems.finish() }),
        }
    }

    /// The mapping in that file; the default one if there is no such file,
    /// which is how Envoy Gateway starts the reference.
    ///
    /// # Errors
    /// If the file is there and is not a mapping.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        if let Ok(false) = path.try_exists() {
            return Ok(Self::default());
        }
        let source = SourceFile::read(path).map_err(|problem| LoadError { problems: vec![problem] })?;
        Self::from_source(source)
    }

    /// Whether this is the reference's own mapping.
    pub(super) const fn is_default(&self) -> bool {
        self.mappings.is_none()
    }

    /// The series that a dotted name belongs to.
    pub(super) fn map(&self, dotted: &str, kind: MetricKind) -> MappedName {
        let Some(mappings) = &self.mappings else {
            let series = self.by_default(dotted, kind);
            return MappedName::Series(series.unwrap_or_else(|| unmapped(dotted, TimeUnit::Millis)));
        };
        for mapping in mappings.iter().filter(|mapping| mapping.kind.is_none_or(|wanted| wanted == kind)) {
            if let Some(mapped) = mapping.apply(dotted) {
                return mapped;
            }
        }
        MappedName::Series(unmapped(dotted, TimeUnit::Millis))
    }

    /// The reference's own mapping.
    fn by_default(&self, dotted: &str, kind: MetricKind) -> Option<Series> {
        let series = |name: &str, labels: &[(&str, &str)]| {
            let own = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
            Some(Series { name: name.to_owned(), labels: labels.iter().map(own).collect(), unit: self.unit })
        };
        if let Some(rule) = dotted.strip_prefix(RULE_PREFIX) {
            let (path, counter) = rule.rsplit_once('.')?;
            let name = format!("ratelimit_service_rate_limit_{counter}");
            let labels = default_labels(path).filter(|_| RULE_COUNTERS.contains(&counter))?;
            return series(&name, &labels);
        }
        if let Some(error) = dotted.strip_prefix(CALL_PREFIX) {
            return series("ratelimit_service_should_rate_limit_error", &[("err_type", error)]);
        }
        if let Some((method, counter)) =
            dotted.strip_prefix(METHOD_PREFIX).and_then(|method| method.split_once('.'))
        {
            return match (counter, kind) {
                ("total_requests", MetricKind::Counter) => {
                    series("ratelimit_service_total_requests", &[("grpc_method", method)])
                }
                ("response_time", MetricKind::Histogram) => {
                    series("ratelimit_service_response_time_seconds", &[("grpc_method", method)])
                }
                _ => None,
            };
        }
        None
    }
}

impl NameMapping {
    fn apply(&self, dotted: &str) -> Option<MappedName> {
        let captures = self.pattern.captures(dotted)?;
        let Some(name) = &self.name else { return Some(MappedName::Dropped) };
        let groups: Vec<&str> =
            captures.iter().map(|group| group.map_or("", |group| group.as_str())).collect();
        let labels = self.labels.iter().map(|(label, value)| (label.clone(), value.fill(&groups))).collect();
        Some(MappedName::Series(Series { name: lawful(&name.fill(&groups)), labels, unit: self.unit }))
    }
}

/// The labels of a rule's path by the reference's own mapping; none if it has
/// no level besides the domain. Levels after the second are summed up.
pub(super) fn default_labels(path: &str) -> Option<SmallVec<[(&'static str, &str); 3]>> {
    let labels: SmallVec<_> = ["domain", "key1", "key2"].into_iter().zip(path.split('.')).collect();
    (labels.len() > 1).then_some(labels)
}

/// A name that no mapping knows, flattened.
fn unmapped(dotted: &str, unit: TimeUnit) -> Series {
    Series { name: lawful(dotted), labels: Vec::new(), unit }
}

/// A name as Prometheus allows it.
fn lawful(name: &str) -> String {
    let is_lawful = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut lawful: String = name.chars().map(|c| if is_lawful(c) { c } else { '_' }).collect();
    if lawful.is_empty() || lawful.starts_with(|c: char| c.is_ascii_digit()) {
        lawful.insert(0, '_');
    }
    lawful
}

#[cfg(test)]
mod tests;
