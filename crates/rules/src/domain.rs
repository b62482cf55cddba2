//! From the tree of a file to the specification of a domain.
//!
//! After parsing and before building the rule set. Reading goes on after a
//! mistake, so that all of them are told at once; what it then returns is
//! never used.
//!
//! Deliberately not here: numbers of limits, and what siblings do to each other.

use tollgate_core::rule::{DescriptorSpec, LimitsSpec, RuleSpec};
use tollgate_core::ruleset::DEPTH_MAX;
use tollgate_core::{Mode, OverLimit, RuleError};
use tollgate_yaml::{Location, Problems, ScalarType, YamlMap, YamlNode, YamlValue, quoted};

use crate::fields::{self, text};
use crate::keys::RuleMapKind;
use crate::limit::{self, OneLimit};
use crate::lists::FileLists;
use crate::siblings::{self, Siblings};
use crate::{Options, metadata};

/// A descriptor has at most this many limits: each request that meets it
/// charges all of them in one step.
pub const LIMITS_MAX: usize = 16;

/// What one file says.
#[derive(Debug)]
pub(crate) struct FileDomain {
    pub(crate) name: String,
    pub(crate) name_at: Location,
    pub(crate) lists: FileLists,
    /// The first level, not yet checked against each other: other files may
    /// add to it.
    pub(crate) level: Siblings,
}

/// Reads a file; none if it names no domain, which is reported.
pub(crate) fn read(root: &YamlNode, options: &Options, problems: &mut Problems) -> Option<FileDomain> {
    if root.is_null() {
        problems.error(root.at, "the file is empty", "write domain: NAME, and below it descriptors:");
        return None;
    }
    let errors_at_first = problems.error_count();
    let fields = fields::read(root, RuleMapKind::Root, problems)?;
    let errors_before = problems.error_count();
    let name = text(&fields, "domain", problems).unwrap_or_default();
    let name_at = fields.location("domain");
    let is_reported = problems.error_count() > errors_before || fields.is_reported("domain");
    if name.is_empty() && !is_reported {
        problems.error_from(name_at, &RuleError::NoDomain);
    }
    // Paths in messages need some name.
    let path = if name.is_empty() { "?" } else { &name };
    let lists = FileLists::read(&fields, problems).unwrap_or_default();
    let level = DescriptorReader { options, problems }.level(&fields, path, 1);
    let is_said = |key| fields.get(key).is_some_and(|field| !is_empty_list(&field.node));
    if problems.error_count() == errors_at_first && !is_said("descriptors") && !is_said("deny") {
        let message = format!("domain {} has no descriptors, so that nothing is limited", quoted(&name));
        problems.warning(name_at, message, "write descriptors: and below it - key: NAME with a rate_limit");
    }
    (!name.is_empty()).then_some(FileDomain { name, name_at, lists, level })
}

fn is_empty_list(node: &YamlNode) -> bool {
    matches!(&*node.value, YamlValue::List(items) if items.is_empty())
}

struct DescriptorReader<'a> {
    options: &'a Options,
    problems: &'a mut Problems,
}

impl DescriptorReader<'_> {
    fn level(&mut self, parent: &YamlMap, path: &str, depth: usize) -> Siblings {
        let mut level = Siblings::default();
        let items = parent.list("descriptors", "key: NAME", self.problems);
        if depth > DEPTH_MAX && !items.is_empty() {
            let error = RuleError::TooDeep { path: path.to_owned() };
            self.problems.error_from(parent.location("descriptors"), &error);
            return level;
        }
        for item in items {
            if let Some(fields) = fields::read(item, RuleMapKind::Descriptor, self.problems) {
                self.descriptor(&fields, path, depth, &mut level);
            }
        }
        level
    }

    fn descriptor(&mut self, fields: &YamlMap, parent: &str, depth: usize, level: &mut Siblings) {
        let errors_before = self.problems.error_count();
        let key = text(fields, "key", self.problems).unwrap_or_default();
        let is_reported = self.problems.error_count() > errors_before || fields.is_reported("key");
        if key.is_empty() && !is_reported {
            self.problems.error_from(fields.location("key"), &RuleError::NoKey { path: parent.to_owned() });
        }
        let value = text(fields, "value", self.problems).filter(|value| !value.is_empty());
        let own = siblings::text_of(&key, value.as_deref());
        let path = format!("{parent}.{own}");
        let share_threshold = self.flag(fields, "share_threshold");
        if share_threshold && !own.contains('*') {
            let error = RuleError::NothingToShare { path: path.clone() };
            self.problems.error_from(fields.location("share_threshold"), &error);
        }
        let spec = DescriptorSpec {
            limits: self.limits(fields),
            share_threshold,
            value_to_metric: self.flag(fields, "value_to_metric"),
            detailed_metric: self.flag(fields, "detailed_metric"),
            descriptors: {
                let children = self.level(fields, &path, depth + 1);
                siblings::check(&children, &path, self.problems);
                children.specs
            },
            key,
            value,
        };
        if !spec.key.is_empty() {
            level.push(spec, fields.at, fields.location("key"), fields.location("value"));
        }
    }

    fn flag(&mut self, fields: &YamlMap, key: &str) -> bool {
        fields.flag(key, self.problems).unwrap_or(false)
    }

    /// The limits of a descriptor, with what it says about them.
    fn limits(&mut self, fields: &YamlMap) -> LimitsSpec {
        let shadow = self.flag(fields, "shadow_mode");
        let quota = self.flag(fields, "quota_mode");
        let mode = match (shadow, quota) {
            (false, false) => Mode::Enforce,
            (true, false) => Mode::Shadow,
            (false, true) => Mode::Quota,
            (true, true) => Mode::ShadowQuota,
        };
        let free = fields.get("metadata").and_then(|field| metadata::read(field, self.problems));
        let mut limits = match (fields.get("rate_limit"), fields.get("rate_limits")) {
            (Some(one), None) => match limit::read(&one.node, self.options, self.problems) {
                Some(OneLimit::Unlimited { label, replaces }) => LimitsSpec::Unlimited { label, replaces },
                Some(OneLimit::Limited(spec)) => LimitsSpec::Limits(vec![*spec]),
                None => return LimitsSpec::None,
            },
            (None, Some(_)) => self.several(fields),
            (Some(_), Some(several)) => {
                let help = "write all limits as items of rate_limits";
                self.problems.error(several.key_at, "rate_limit and rate_limits exclude each other", help);
                return LimitsSpec::None;
            }
            (None, None) => LimitsSpec::None,
        };
        match &mut limits {
            LimitsSpec::Limits(specs) => {
                for spec in specs {
                    if shadow && spec.over_limit == OverLimit::Defer {
                        let message = "in shadow mode nothing is denied, and so nothing is deferred";
                        let help = "leave shadow_mode out once the limit is to hold";
                        self.problems.warning(fields.location("shadow_mode"), message, help);
                    }
                    spec.mode = mode;
                    spec.metadata.clone_from(&free);
                }
            }
            LimitsSpec::None | LimitsSpec::Unlimited { .. } => warn_of_idle_modes(fields, self.problems),
        }
        limits
    }

    /// Several limits on one descriptor.
    fn several(&mut self, fields: &YamlMap) -> LimitsSpec {
        let items = fields.list("rate_limits", "{ unit: minute, requests_per_unit: 10 }", self.problems);
        let is_list =
            fields.get("rate_limits").is_some_and(|field| matches!(*field.node.value, YamlValue::List(_)));
        if items.is_empty() {
            if is_list {
                self.problems.error(
                    fields.location("rate_limits"),
                    "rate_limits is empty",
                    "write a limit, or leave it out",
                );
            }
            return LimitsSpec::None;
        }
        if items.len() > LIMITS_MAX {
            let message = format!(
                "{} limits on one descriptor, at most {LIMITS_MAX} are decided together",
                items.len()
            );
            self.problems.error(fields.location("rate_limits"), message, "write fewer");
            return LimitsSpec::None;
        }
        let mut specs = Vec::new();
        for item in items {
            match limit::read(item, self.options, self.problems) {
                Some(OneLimit::Limited(spec)) => specs.push((*spec, item.at)),
                Some(OneLimit::Unlimited { .. }) => {
                    let help = "write rate_limit: { unlimited: true } instead of rate_limits";
                    self.problems.error(item.at, "unlimited among several limits means nothing", help);
                }
                None => {}
            }
        }
        check_labels(&specs, self.problems);
        LimitsSpec::Limits(specs.into_iter().map(|(spec, _)| spec).collect())
    }
}

/// A mode does not reach the descriptors below, so without a limit it does nothing.
fn warn_of_idle_modes(fields: &YamlMap, problems: &mut Problems) {
    for key in ["shadow_mode", "quota_mode"] {
        let Some(field) = fields.get(key) else { continue };
        if field.node.scalar_type() == Some(ScalarType::Bool(true)) {
            let message = format!("{key} has no effect on a descriptor without a limit of its own");
            problems.warning(field.key_at, message, "write it on each descriptor that has the limit");
        }
    }
}

/// Labels of limits on one descriptor: each once, and none replaced by its neighbour.
fn check_labels(specs: &[(RuleSpec, Location)], problems: &mut Problems) {
    for (index, (spec, at)) in specs.iter().enumerate() {
        let others = || specs.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, spec)| spec);
        let is_twice = specs.iter().take(index).any(|(other, _)| other.label == spec.label);
        if !spec.label.is_empty() && is_twice {
            let message = format!("limit {} is there twice", quoted(&spec.label));
            problems.error(*at, message, "write another name");
        }
        if let Some(other) = others().find(|(other, _)| spec.replaces.contains(&other.label)) {
            let message = format!("limit {} of the same list would never apply", quoted(&other.0.label));
            problems.error(*at, message, "leave replaces out, or leave that limit out");
        }
    }
}
