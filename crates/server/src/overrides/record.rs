//! One override, and one line of the log of their changes, as they are kept and shown.

use serde::{Deserialize, Serialize};
use tollgate_core::Time;
use tollgate_limiter::overrides::OverrideEffect;
use utoipa::ToSchema;

/// One entry of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OverrideEntry)]
pub(crate) struct OverridePair {
    /// Its key.
    pub(crate) key: String,
    /// Its value.
    pub(crate) value: String,
}

/// What holds instead of the rule: how many per window, `unlimited`, or `deny`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "limit must be a whole number, \"unlimited\" or \"deny\"")]
pub(crate) enum OverrideLimit {
    /// So many in the window of the rule.
    Count(u32),
    /// One of the two words.
    Word(OverrideWord),
}

/// What is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OverrideWord {
    /// The limit does not meet it.
    Unlimited,
    /// It gets nothing.
    Deny,
}

impl OverrideLimit {
    /// What it does.
    pub(crate) const fn effect(self) -> OverrideEffect {
        match self {
            Self::Count(count) => OverrideEffect::Limit(count),
            Self::Word(OverrideWord::Unlimited) => OverrideEffect::Unlimited,
            Self::Word(OverrideWord::Deny) => OverrideEffect::Deny,
        }
    }
}

/// An exception for one descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Override)]
pub(crate) struct OverrideRecord {
    /// Names it, to remove it.
    pub(crate) id: String,
    /// The domain.
    pub(crate) domain: String,
    /// The entries of the descriptor, in order.
    pub(crate) descriptor: Vec<OverridePair>,
    /// The name of the rule; absent for all that the descriptor meets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) rule: Option<String>,
    /// What holds instead of the rule.
    pub(crate) limit: OverrideLimit,
    /// When it ends.
    pub(crate) expires_at_unix_s: u64,
    /// Why it was made.
    pub(crate) reason: String,
    /// Who made it.
    pub(crate) who: String,
    /// When it was made.
    pub(crate) since_unix_s: u64,
}

impl OverrideRecord {
    /// What only one override can be about.
    pub(crate) fn name(&self) -> String {
        serde_json::to_string(&(&self.domain, &self.descriptor, &self.rule)).expect("texts are always JSON")
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are always JSON")
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_in_force(&self, now: Time) -> bool {
        now < Time::from_secs(self.expires_at_unix_s)
    }
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditAction {
    /// It was made, or replaced another for the same descriptor and rule.
    Put,
    /// It was removed before its end.
    Remove,
}

/// One change of an override.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditEntry {
    /// When.
    pub(crate) at_unix_s: u64,
    /// What was done.
    pub(crate) action: AuditAction,
    /// The override, with who did it and why.
    #[serde(rename = "override")]
    pub(crate) record: OverrideRecord,
}

impl AuditEntry {
    pub(crate) fn new(action: AuditAction, record: &OverrideRecord, now: Time) -> Self {
        Self { at_unix_s: now.get() / 1_000_000, action, record: record.clone() }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are always JSON")
    }
}
