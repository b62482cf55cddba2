//! From the tree of a file to the specification of a domain.
//!
//! After parsing and before building the rule set. The walk goes on after a
//! mistake, so that all of them are told at once; what it then returns is
//! never used.
//!
//! Deliberately not here: numbers of limits, and what siblings do to each other.

use tollgate_core::rule::{DescriptorSpec, LimitsSpec};
use tollgate_core::ruleset::DEPTH_MAX;
use tollgate_core::{Mode, RuleError};

use super::fields::Fields;
use super::keys::Level;
use super::limit::{self, OneLimit};
use super::metadata;
use super::problem::{Place, Report, quoted};
use super::siblings::{self, Siblings};
use super::yaml::{Kind, Node};

/// A descriptor has at most this many limits: each request that meets it
/// charges all of them in one step.
pub const LIMITS_MAX: usize = 16;

/// What one file says.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) name: String,
    pub(crate) name_at: Place,
    /// The first level, not yet checked against each other: other files may
    /// add to it.
    pub(crate) level: Siblings,
}

/// Reads a file; none if it names no domain, which is reported.
pub(crate) fn domain(root: &Node, report: &mut Report) -> Option<Domain> {
    if root.is_null() {
        empty(root.at, report);
        return None;
    }
    let fields = Fields::read(root, Level::Root, "a rule file", report)?;
    let errors_before = report.errors_seen();
    let name = fields.text("domain", report).unwrap_or_default();
    let name_at = fields.place("domain");
    let is_told = report.errors_seen() > errors_before || fields.is_told("domain");
    if name.is_empty() && !is_told {
        report.refuse(name_at, &RuleError::NoDomain);
    }
    // Paths in messages need some name.
    let level = level(&fields, if name.is_empty() { "?" } else { &name }, 1, report);
    (!name.is_empty()).then_some(Domain { name, name_at, level })
}

/// Says that a file has nothing in it.
pub(crate) fn empty(at: Place, report: &mut Report) {
    report.error(at, "the file is empty", "write domain: NAME, and below it descriptors:");
}

fn level(parent: &Fields, path: &str, depth: usize, report: &mut Report) -> Siblings {
    let mut level = Siblings::default();
    let items = parent.list("descriptors", "key: NAME", report);
    if depth > DEPTH_MAX && !items.is_empty() {
        report.refuse(parent.place("descriptors"), &RuleError::TooDeep { path: path.to_owned() });
        return level;
    }
    for item in items {
        let Some(fields) = Fields::read(&item, Level::Descriptor, "a descriptor", report) else { continue };
        descriptor(&fields, path, depth, &mut level, report);
    }
    level
}

fn descriptor(fields: &Fields, parent: &str, depth: usize, level: &mut Siblings, report: &mut Report) {
    let errors_before = report.errors_seen();
    let key = fields.text("key", report).unwrap_or_default();
    let is_told = report.errors_seen() > errors_before || fields.is_told("key");
    if key.is_empty() && !is_told {
        report.refuse(fields.place("key"), &RuleError::NoKey { path: parent.to_owned() });
    }
    let value = fields.text("value", report).filter(|value| !value.is_empty());
    let text = siblings::text_of(&key, value.as_deref());
    let path = format!("{parent}.{text}");
    let share_threshold = fields.flag("share_threshold", report).unwrap_or(false);
    if share_threshold && !text.contains('*') {
        report.refuse(fields.place("share_threshold"), &RuleError::NothingToShare { path: path.clone() });
    }
    let spec = DescriptorSpec {
        limits: limits(fields, report),
        share_threshold,
        value_to_metric: fields.flag("value_to_metric", report).unwrap_or(false),
        detailed_metric: fields.flag("detailed_metric", report).unwrap_or(false),
        descriptors: {
            let children = self::level(fields, &path, depth + 1, report);
            siblings::check(&children, &path, report);
            children.specs
        },
        key,
        value,
    };
    if !spec.key.is_empty() {
        level.push(spec, fields.at, fields.place("key"), fields.place("value"));
    }
}

/// The limits of a descriptor, with what it says about them.
fn limits(fields: &Fields, report: &mut Report) -> LimitsSpec {
    let shadow = fields.flag("shadow_mode", report).unwrap_or(false);
    let quota = fields.flag("quota_mode", report).unwrap_or(false);
    let mode = match (shadow, quota) {
        (false, false) => Mode::Enforce,
        (true, false) => Mode::Shadow,
        (false, true) => Mode::Quota,
        (true, true) => Mode::ShadowQuota,
    };
    let free = fields.set("metadata").and_then(|field| metadata::read(field, report));
    let mut limits = match (fields.set("rate_limit"), fields.set("rate_limits")) {
        (Some(one), None) => match limit::read(&one.node, report) {
            Some(OneLimit::Unlimited { label, replaces }) => LimitsSpec::Unlimited { label, replaces },
            Some(OneLimit::Limited(spec)) => LimitsSpec::Limits(vec![spec]),
            None => return LimitsSpec::None,
        },
        (None, Some(_)) => several(fields, report),
        (Some(_), Some(several)) => {
            let help = "write all limits as items of rate_limits";
            report.error(several.key_at, "rate_limit and rate_limits exclude each other", help);
            return LimitsSpec::None;
        }
        (None, None) => LimitsSpec::None,
    };
    match &mut limits {
        LimitsSpec::Limits(specs) => {
            for spec in specs {
                spec.mode = mode;
                spec.metadata.clone_from(&free);
            }
        }
        LimitsSpec::None | LimitsSpec::Unlimited { .. } => warn_of_idle_modes(fields, report),
    }
    limits
}

/// A mode does not reach the descriptors below, so without a limit it does nothing.
fn warn_of_idle_modes(fields: &Fields, report: &mut Report) {
    for key in ["shadow_mode", "quota_mode"] {
        let Some(field) = fields.get(key) else { continue };
        let is_true = matches!(&*field.node.kind, Kind::Scalar(scalar)
            if scalar.resolve() == super::yaml::Resolved::Bool(true));
        if is_true {
            let message = format!("{key} has no effect on a descriptor without a limit of its own");
            report.warning(field.key_at, message, "write it on each descriptor that has the limit");
        }
    }
}

/// Several limits on one descriptor.
fn several(fields: &Fields, report: &mut Report) -> LimitsSpec {
    let items = fields.list("rate_limits", "{ unit: minute, requests_per_unit: 10 }", report);
    let is_list = fields.set("rate_limits").is_some_and(|field| matches!(*field.node.kind, Kind::List(_)));
    if items.is_empty() {
        if is_list {
            report.error(
                fields.place("rate_limits"),
                "rate_limits is empty",
                "write a limit, or leave it out",
            );
        }
        return LimitsSpec::None;
    }
    if items.len() > LIMITS_MAX {
        let message =
            format!("{} limits on one descriptor, at most {LIMITS_MAX} are decided together", items.len());
        report.error(fields.place("rate_limits"), message, "write fewer");
        return LimitsSpec::None;
    }
    let mut specs = Vec::new();
    for item in &items {
        match limit::read(item, report) {
            Some(OneLimit::Limited(spec)) => specs.push((spec, item.at)),
            Some(OneLimit::Unlimited { .. }) => {
                let help = "write rate_limit: { unlimited: true } instead of rate_limits";
                report.error(item.at, "unlimited among several limits means nothing", help);
            }
            None => {}
        }
    }
    for (index, (spec, at)) in specs.iter().enumerate() {
        let others = || specs.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, spec)| spec);
        let is_twice = specs.iter().take(index).any(|(other, _)| other.label == spec.label);
        if !spec.label.is_empty() && is_twice {
            let message = format!("limit {} is there twice", quoted(&spec.label));
            report.error(*at, message, "write another name");
        }
        if let Some(other) = others().find(|(other, _)| spec.replaces.contains(&other.label)) {
            let message = format!("limit {} of the same list would never apply", quoted(&other.0.label));
            report.error(*at, message, "leave replaces out, or leave that limit out");
        }
    }
    LimitsSpec::Limits(specs.into_iter().map(|(spec, _)| spec).collect())
}
