//! The keys of rule files: which there are, and where each belongs.
//!
//! Asked by `fields` for every key of every map.
//!
//! Deliberately not here: what the values mean.

use tollgate_yaml::{nearest, one_of};

/// The kinds of maps in a rule file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleMapKind {
    Root,
    Descriptor,
    Limit,
    Replaces,
    Penalty,
    ListItem,
}

impl RuleMapKind {
    /// What such a map is called.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Root => "a rule file",
            Self::Descriptor => "a descriptor",
            Self::Limit => "a limit",
            Self::Replaces => "a replaces entry",
            Self::Penalty => "a penalty",
            Self::ListItem => "an item of a list",
        }
    }

    /// Where a key is that stands in such a map.
    pub(crate) const fn here(self) -> &'static str {
        match self {
            Self::Root => "at the top of the file",
            Self::Descriptor => "on a descriptor",
            Self::Limit => "inside a limit",
            Self::Replaces => "inside replaces",
            Self::Penalty => "inside penalty",
            Self::ListItem => "in an item of a list",
        }
    }

    /// What such a map looks like.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Root => "write domain: NAME, and below it descriptors:",
            Self::Descriptor => "write key: NAME, and below it rate_limit:",
            Self::Limit => "write { unit: minute, requests_per_unit: 10 }",
            Self::Replaces => "write { name: NAME }",
            Self::Penalty => "write penalty: { after: 5, within: 1m, block: 10m }",
            Self::ListItem => "write 10.0.0.0/8, { key: NAME, value: VALUE } or { file: PATH }",
        }
    }

    /// Where a key of such a map is to be written.
    pub(crate) const fn whereabouts(self) -> &'static str {
        match self {
            Self::Root => "at the top of the file, beside domain",
            Self::Descriptor => "on the descriptor, beside its key",
            Self::Limit => "inside rate_limit",
            Self::Replaces => "inside replaces",
            Self::Penalty => "inside penalty",
            Self::ListItem => "in an item of allow or deny",
        }
    }

    /// The keys that belong here, in the order of the documentation.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'static str> {
        KEYS.iter().filter(move |key| key.maps.contains(&self)).map(|key| key.name)
    }
}

/// A key that rule files know.
#[derive(Debug)]
pub(crate) struct RuleKey {
    pub(crate) name: &'static str,
    /// Where it has a meaning.
    pub(crate) maps: &'static [RuleMapKind],
    /// The reference knows it too, and lets it stand anywhere.
    pub(crate) is_envoy_key: bool,
}

const fn old(name: &'static str, maps: &'static [RuleMapKind]) -> RuleKey {
    RuleKey { name, maps, is_envoy_key: true }
}

const fn new(name: &'static str, maps: &'static [RuleMapKind]) -> RuleKey {
    RuleKey { name, maps, is_envoy_key: false }
}

const KEYS: &[RuleKey] = {
    use RuleMapKind::{Descriptor, Limit, ListItem, Penalty, Replaces, Root};
    &[
        old("domain", &[Root]),
        old("descriptors", &[Root, Descriptor]),
        old("key", &[Descriptor, ListItem]),
        old("value", &[Descriptor, ListItem]),
        old("rate_limit", &[Descriptor]),
        new("rate_limits", &[Descriptor]),
        old("shadow_mode", &[Descriptor]),
        old("quota_mode", &[Descriptor]),
        old("detailed_metric", &[Descriptor]),
        old("value_to_metric", &[Descriptor]),
        old("share_threshold", &[Descriptor]),
        old("metadata", &[Descriptor]),
        old("unit", &[Limit]),
        old("requests_per_unit", &[Limit]),
        old("unlimited", &[Limit]),
        old("name", &[Limit, Replaces]),
        old("replaces", &[Limit]),
        new("algorithm", &[Limit]),
        new("unit_multiplier", &[Limit]),
        new("burst", &[Limit]),
        new("refill", &[Limit]),
        new("buckets", &[Limit]),
        new("max_wait", &[Limit]),
        new("count_rejected", &[Limit]),
        new("throttle", &[Limit]),
        new("on_store_error", &[Limit]),
        new("postpaid", &[Limit]),
        new("penalty", &[Limit]),
        new("over_limit", &[Limit]),
        new("message", &[Limit]),
        new("after", &[Penalty]),
        new("within", &[Penalty]),
        new("block", &[Penalty]),
        new("factor", &[Penalty]),
        new("max", &[Penalty]),
        new("allow", &[Limit, Root]),
        new("deny", &[Limit, Root]),
        new("file", &[ListItem]),
    ]
};

/// Keys of a limit that a later version will know. They change what a limit
/// does, so ignoring them would be wrong.
const RESERVED: &[&str] = &["consistency", "concurrency"];

/// The keys that the reference lets stand in such a map, where they mean nothing.
pub(crate) fn idle_keys(kind: RuleMapKind) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |key| key.is_envoy_key && !key.maps.contains(&kind)).map(|key| key.name)
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static RuleKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether only a later version knows that key.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The key that an unknown one was probably meant to be.
pub(crate) fn meant(name: &str, kind: RuleMapKind) -> Option<&'static str> {
    // What belongs here is meant rather than what belongs elsewhere.
    nearest(name, kind.keys()).or_else(|| nearest(name, KEYS.iter().map(|key| key.name)))
}

/// What to write instead of an unknown key.
pub(crate) fn help_for(name: &str, kind: RuleMapKind) -> String {
    meant(name, kind).map_or_else(|| one_of(kind.keys()), |key| format!("write {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_gets_the_nearest_one_that_belongs_there() {
        let cases = [
            ("requests_per_unt", RuleMapKind::Limit, "write requests_per_unit"),
            ("request_per_unit", RuleMapKind::Limit, "write requests_per_unit"),
            ("uint", RuleMapKind::Limit, "write unit"),
            ("rate-limit", RuleMapKind::Descriptor, "write rate_limit"),
            ("ratelimits", RuleMapKind::Descriptor, "write rate_limits"),
            ("Domain", RuleMapKind::Root, "write domain"),
            ("descriptor", RuleMapKind::Root, "write descriptors"),
            ("shadowmode", RuleMapKind::Limit, "write shadow_mode"),
            ("colour", RuleMapKind::Root, "write domain, descriptors, allow or deny"),
            ("xyzzy", RuleMapKind::Replaces, "write name"),
        ];
        for (word, kind, help) in cases {
            assert_eq!(help_for(word, kind), help, "{word}");
        }
        assert_eq!(
            help_for(&"x".repeat(1_000_000), RuleMapKind::Root),
            "write domain, descriptors, allow or deny"
        );
    }
}
