//! Rules: under which condition which limit applies, and how.
//!
//! Rule files and other sources make [`DomainSpec`]s; [`crate::RuleSet`] is
//! built from them and holds the [`Rule`]s that charges refer to.
//!
//! Deliberately not here: YAML, positions in files, and where rules come from.

use crate::limit::Limit;
use crate::metadata::Value;
use crate::time::Micros;

/// A unit of time as rules name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3,600 s.
    Hour,
    /// 86,400 s.
    Day,
    /// 7 days; weeks begin on Thursday, as the epoch did.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All, shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The name in rule files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit of that name, in capital letters or not.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// Its length.
    pub const fn length(self) -> Micros {
        Micros::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        })
    }
}

/// Whether a rule's denials are obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// A denial refuses the request.
    #[default]
    Enforce,
    /// A denial is told and counted, and refuses nothing.
    Shadow,
    /// A denial refuses the request only if every quota rule it meets denies.
    Quota,
    /// A quota rule that never denies: it keeps the others from refusing.
    ShadowQuota,
}

impl Mode {
    /// Whether a denial is told and counted, and refuses nothing.
    pub const fn is_shadow(self) -> bool {
        matches!(self, Self::Shadow | Self::ShadowQuota)
    }

    /// Whether it is one of several quotas of which one must pass.
    pub const fn is_quota(self) -> bool {
        matches!(self, Self::Quota | Self::ShadowQuota)
    }
}

/// One limit with its condition and its mode.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name the operator gave it; empty if none.
    pub label: String,
    /// Where it stands: the domain and the levels as written, joined by dots.
    pub path: String,
    /// The numbers.
    pub limit: Limit,
    /// The unit the window was written in.
    pub unit: Unit,
    /// How many units the window is long.
    pub unit_multiplier: u32,
    /// Whether its denials are obeyed.
    pub mode: Mode,
    /// Labels of rules that step back when this one applies to the same request.
    pub replaces: Vec<String>,
    /// Free data to give back.
    pub metadata: Option<Value>,
    /// Tells apart limits of one descriptor with the same algorithm and window.
    pub ordinal: u32,
}

impl Rule {
    /// The name to show: the label, or else the path.
    pub fn name(&self) -> &str {
        if self.label.is_empty() { &self.path } else { &self.label }
    }
}

/// The rules of one domain, as read.
#[derive(Debug, Clone, Default)]
pub struct DomainSpec {
    /// The name that requests carry.
    pub name: String,
    /// The first level.
    pub descriptors: Vec<DescriptorSpec>,
}

/// One node of a domain's tree, as read.
#[derive(Debug, Clone, Default)]
pub struct DescriptorSpec {
    /// The entry's key.
    pub key: String,
    /// The entry's value, perhaps with `*`; none for any value.
    pub value: Option<String>,
    /// The limits here.
    pub limits: LimitsSpec,
    /// All values that match the pattern share one counter.
    pub share_threshold: bool,
    /// The metric name has the value at this level.
    pub value_to_metric: bool,
    /// The metric name has the values at every level.
    pub detailed_metric: bool,
    /// The next level.
    pub descriptors: Vec<DescriptorSpec>,
}

/// What applies when a request ends at a node.
#[derive(Debug, Clone, Default)]
pub enum LimitsSpec {
    /// Nothing: the request is not limited, and no shorter rule is tried.
    #[default]
    None,
    /// Allowed without counting.
    Unlimited {
        /// The label.
        label: String,
        /// Labels of rules that step back.
        replaces: Vec<String>,
    },
    /// These, all or nothing.
    Limits(Vec<RuleSpec>),
}

/// One limit at a node, as read.
#[derive(Debug, Clone)]
pub struct RuleSpec {
    /// The label; empty if none.
    pub label: String,
    /// The numbers.
    pub limit: Limit,
    /// The unit the window was written in.
    pub unit: Unit,
    /// How many units the window is long.
    pub unit_multiplier: u32,
    /// Whether its denials are obeyed.
    pub mode: Mode,
    /// Labels of rules that step back.
    pub replaces: Vec<String>,
    /// Free data to give back.
    pub metadata: Option<Value>,
}
