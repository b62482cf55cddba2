//! A response of an xDS server → rules.
//!
//! The same checks as for files, as far as they apply: there are no unknown
//! keys here, and no lines; a problem names the resource and the path.
//!
//! Invariant: the order of resources does not matter; they are sorted by name.

use std::collections::HashMap;

use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
use envoy_types::pb::google::protobuf::{Any, Struct, Value as WireValue, value::Kind};
use envoy_types::pb::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};
use prost::Message as _;
use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
use tollgate_core::{Limit, MetadataValue, Mode, OverLimit, RuleError, RuleSet, Shape, Unit};
use tollgate_rules::{LoadError, Loaded, Options, Problem};
use tollgate_yaml::PROBLEMS_MAX;

/// What a resource of rules is called.
pub(super) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// All rules that a server has, as it sends them.
#[derive(Debug)]
pub(super) struct RuleResources(Vec<RateLimitConfig>);

/// The resources of a response, all of them rules.
pub(super) fn resources(response: DiscoveryResponse) -> Result<RuleResources, String> {
    let DiscoveryResponse { type_url, resources, .. } = response;
    if type_url != TYPE_URL {
        return Err(format!("'{type_url}' was not asked for; send {TYPE_URL}"));
    }
    let decode = |(index, any): (usize, Any)| {
        if any.type_url != TYPE_URL {
            return Err(format!("resource {index} is a '{}'; send {TYPE_URL}", any.type_url));
        }
        RateLimitConfig::decode(any.value.as_slice())
            .map_err(|error| format!("resource {index} cannot be decoded: {error}"))
    };
    let mut resources: Vec<_> = resources.into_iter().enumerate().map(decode).collect::<Result<_, _>>()?;
    resources.sort_by(|one, other| name_of(one).cmp(name_of(other)));
    Ok(RuleResources(resources))
}

impl RuleResources {
    /// What they are called in messages.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|one| name_of(one).to_owned()).collect()
    }

    /// The rules of all resources, or all that is wrong with them.
    pub(super) fn into_rules(self, options: &Options) -> Result<Loaded, LoadError> {
        let files = self.0.len();
        let mut reader = ResourceReader { options, resource: String::new(), problems: Vec::new() };
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut domains: Vec<DomainSpec> = Vec::new();
        for resource in self.0 {
            reader.resource = name_of(&resource).to_owned();
            let spec = reader.domain(resource);
            // On its own first, so that a mistake is put to the resource that makes it.
            if let Err(error) = RuleSet::new(vec![spec.clone()]) {
                reader.refuse(&error);
                continue;
            }
            match places.get(&spec.name).and_then(|index| domains.get_mut(*index)) {
                None => {
                    places.insert(spec.name.clone(), domains.len());
                    domains.push(spec);
                }
                Some(known) if options.merge_domains => known.descriptors.extend(spec.descriptors),
                Some(_) => reader.refuse(&RuleError::DomainTwice { domain: spec.name }),
            }
        }
        if !reader.problems.is_empty() {
            return Err(LoadError { problems: reader.problems });
        }
        match RuleSet::new(domains) {
            Ok(rules) => Ok(Loaded { rules, warnings: Vec::new(), files }),
            Err(error) => {
                reader.refuse(&error);
                Err(LoadError { problems: reader.problems })
            }
        }
    }
}

fn name_of(resource: &RateLimitConfig) -> &str {
    if resource.name.is_empty() { &resource.domain } else { &resource.name }
}

struct ResourceReader<'a> {
    options: &'a Options,
    resource: String,
    problems: Vec<Problem>,
}

impl ResourceReader<'_> {
    fn error(&mut self, message: String, help: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem::of_file(&self.resource, message, help));
        }
    }

    /// An error whose text says, after a semicolon, what would be right.
    fn refuse(&mut self, error: &dyn std::error::Error) {
        let text = error.to_string();
        let (message, help) = text.split_once("; ").unwrap_or((&text, ""));
        self.error(message.to_owned(), help);
    }

    fn domain(&mut self, resource: RateLimitConfig) -> DomainSpec {
        let RateLimitConfig { domain, descriptors, .. } = resource;
        let descriptors = descriptors.into_iter().map(|one| self.descriptor(one, &domain)).collect();
        DomainSpec { name: domain, descriptors, ..Default::default() }
    }

    /// The wire's messages nest at most as deep as the decoder allows, which bounds this.
    fn descriptor(&mut self, descriptor: RateLimitDescriptor, above: &str) -> DescriptorSpec {
        let RateLimitDescriptor { key, value, rate_limit, descriptors, detailed_metric, .. } = descriptor;
        let path = if value.is_empty() { format!("{above}.{key}") } else { format!("{above}.{key}_{value}") };
        let mode = match (descriptor.shadow_mode, descriptor.quota_mode) {
            (false, false) => Mode::Enforce,
            (true, false) => Mode::Shadow,
            (false, true) => Mode::Quota,
            (true, true) => Mode::ShadowQuota,
        };
        let metadata = descriptor.metadata.map(|free| self.metadata(free, &path));
        let limits = match rate_limit {
            None => LimitsSpec::None,
            Some(policy) => self.limits(policy, &path, mode, metadata),
        };
        DescriptorSpec {
            key,
            value: Some(value).filter(|value| !value.is_empty()),
            limits,
            detailed_metric,
            descriptors: descriptors.into_iter().map(|one| self.descriptor(one, &path)).collect(),
            ..DescriptorSpec::default()
        }
    }

    fn limits(
        &mut self,
        policy: RateLimitPolicy,
        path: &str,
        mode: Mode,
        metadata: Option<MetadataValue>,
    ) -> LimitsSpec {
        let unit = unit_of(policy.unit());
        let label = policy.name;
        let mut replaces = Vec::new();
        for other in policy.replaces {
            if other.name.is_empty() {
                let message = format!("'{path}' has a replaces entry without a name");
                self.error(message, "send the name of another limit");
            } else if other.name == label {
                let message = format!("limit '{label}' of '{path}' replaces itself");
                self.error(message, "send the name of another limit");
            } else {
                replaces.push(other.name);
            }
        }
        if policy.unlimited {
            if unit.is_some() {
                let message = format!("'{path}' is unlimited and has a unit");
                self.error(message, "send one of the two");
            }
            return LimitsSpec::Unlimited { label, replaces };
        }
        let Some(unit) = unit else {
            let message = format!("'{path}' has the unknown unit {}", policy.unit);
            self.error(message, "send a unit from 1 (second) to 7 (week)");
            return LimitsSpec::None;
        };
        match Limit::new(policy.requests_per_unit, unit.length(), Shape::FixedWindow) {
            Ok(limit) => {
                let limit = limit.counting_rejected(!self.options.stop_counting_rejected);
                LimitsSpec::Limits(vec![RuleSpec {
                    label,
                    limit,
                    elastic: None,
                    unit,
                    unit_multiplier: 1,
                    mode,
                    over_limit: OverLimit::Deny,
                    replaces,
                    metadata,
                    message: String::new(),
                    lists: None,
                }])
            }
            Err(error) => {
                self.refuse(&error);
                LimitsSpec::None
            }
        }
    }

    fn metadata(&mut self, free: Struct, path: &str) -> MetadataValue {
        let mut fields: Vec<(String, WireValue)> = free.fields.into_iter().collect();
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        MetadataValue::Map(fields.into_iter().map(|(name, value)| (name, self.value(value, path))).collect())
    }

    fn value(&mut self, value: WireValue, path: &str) -> MetadataValue {
        match value.kind {
            None | Some(Kind::NullValue(_)) => MetadataValue::Null,
            Some(Kind::BoolValue(is_true)) => MetadataValue::Bool(is_true),
            Some(Kind::StringValue(text)) => MetadataValue::Text(text),
            Some(Kind::StructValue(free)) => self.metadata(free, path),
            Some(Kind::ListValue(list)) => {
                MetadataValue::List(list.values.into_iter().map(|value| self.value(value, path)).collect())
            }
            Some(Kind::NumberValue(number)) => {
                // A whole number prints without a point.
                let text = number.to_string();
                text.parse().map_or_else(|_| MetadataValue::Number(text), MetadataValue::Int)
            }
        }
    }
}

fn unit_of(unit: RateLimitUnit) -> Option<Unit> {
    match unit {
        RateLimitUnit::Unknown => None,
        RateLimitUnit::Second => Some(Unit::Second),
        RateLimitUnit::Minute => Some(Unit::Minute),
        RateLimitUnit::Hour => Some(Unit::Hour),
        RateLimitUnit::Day => Some(Unit::Day),
        RateLimitUnit::Week => Some(Unit::Week),
        RateLimitUnit::Month => Some(Unit::Month),
        RateLimitUnit::Year => Some(Unit::Year),
    }
}
