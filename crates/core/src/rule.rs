//! Rules: under which condition which limit applies, and how.
//!
//! Rule files and other sources make [`DomainSpec`]s; [`crate::RuleSet`] is
//! built from them and holds the [`Rule`]s that charges refer to.
//!
//! Deliberately not here: YAML, positions in files, and where rules come from.

use std::sync::Arc;

use crate::limit::{BELOW_LOAD_MIN_PERCENT, Limit, LimitError};
use crate::list::ExceptionLists;
use crate::metadata::MetadataValue;
use crate::time::Micros;

/// A unit of time as rules name it.
///
/// ```
/// use tollgate_core::{Micros, Unit};
/// assert_eq!(Unit::from_name("MINUTE"), Some(Unit::Minute));
/// assert_eq!(Unit::Month.length(), Micros::from_secs(30 * 86_400));
/// ```
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
///
/// ```
/// use tollgate_core::Mode;
/// assert!(Mode::ShadowQuota.is_shadow() && Mode::ShadowQuota.is_quota());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Its denial denies the request.
    #[default]
    Enforce,
    /// Its denial is counted, and denies nothing.
    Shadow,
    /// Its denial denies the request only if every quota rule it meets denies.
    Quota,
    /// A quota rule that never denies: it keeps the others from denying.
    ShadowQuota,
}

impl Mode {
    /// Whether its denial is counted, and denies nothing.
    pub const fn is_shadow(self) -> bool {
        matches!(self, Self::Shadow | Self::ShadowQuota)
    }

    /// Whether it is one of several quotas of which one must pass.
    pub const fn is_quota(self) -> bool {
        matches!(self, Self::Quota | Self::ShadowQuota)
    }
}

/// What becomes of a request that a limit has no room for.
///
/// ```
/// use tollgate_core::OverLimit;
/// assert_eq!(OverLimit::from_name("defer"), Some(OverLimit::Defer));
/// assert_eq!(OverLimit::default().name(), "deny");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OverLimit {
    /// It is denied.
    #[default]
    Deny,
    /// It is taken, and sent later at the limit's rate, where whoever asks can do that.
    Defer,
}

impl OverLimit {
    /// All.
    pub const ALL: [Self; 2] = [Self::Deny, Self::Defer];

    /// The name in rule files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Defer => "defer",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }
}

/// One limit with its condition and its mode.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Limit, RuleSet, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let rule = RuleSpec { label: "burst".into(), ..RuleSpec::new(limit, Unit::Minute) };
/// let limits = LimitsSpec::Limits(vec![rule]);
/// let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// assert_eq!(rules.rules()[0].name(), "burst");
/// assert_eq!(rules.rules()[0].path, "shop.user_id");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name the operator gave it; empty if none.
    pub label: String,
    /// Where it stands: the domain and the levels as written, joined by dots.
    pub path: String,
    /// The numbers.
    pub limit: Limit,
    /// What more it allows while the load is low.
    pub elastic: Option<Box<Elastic>>,
    /// The unit the window was written in.
    pub unit: Unit,
    /// How many units the window is long.
    pub unit_multiplier: u32,
    /// Whether its denials are obeyed.
    pub mode: Mode,
    /// What becomes of a request that it has no room for.
    pub over_limit: OverLimit,
    /// Labels of rules that step back when this one applies to the same request.
    pub replaces: Vec<String>,
    /// Free data to give back.
    pub metadata: Option<MetadataValue>,
    /// What to tell whom it denies, in the operator's own words; empty if none.
    pub message: String,
    /// Whom it does not meet, and whom it always denies.
    pub lists: Option<Arc<ExceptionLists>>,
    /// Tells apart limits of one descriptor with the same algorithm and window.
    pub ordinal: u32,
}

impl Rule {
    /// Whether it is enforced and made of its limit alone.
    pub(crate) fn is_plain(&self) -> bool {
        self.mode == Mode::Enforce
            && self.lists.is_none()
            && self.elastic.is_none()
            && self.limit.penalty().is_none()
    }

    /// The name to show: the label, or else the path.
    pub fn name(&self) -> &str {
        if self.label.is_empty() { &self.path } else { &self.label }
    }
}

/// An allowance beyond a limit while the system has free resources.
///
/// ```
/// use tollgate_core::rule::Elastic;
/// use tollgate_core::{Limit, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let elastic = Elastic::new(&limit, 100, 70)?;
/// assert_eq!((elastic.limit.capacity(), elastic.limit.hard_capacity()), (10, 20));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elastic {
    /// The limit with the allowance, over the same counter.
    pub limit: Limit,
    /// It is granted below so many percent of load.
    pub below_load_percent: u32,
}

impl Elastic {
    /// `limit` exceeded by `percent` below a load.
    ///
    /// # Errors
    /// If a percentage is out of range, or the larger limit cannot be kept exactly.
    pub fn new(limit: &Limit, percent: u32, below_load_percent: u32) -> Result<Self, LimitError> {
        if !(BELOW_LOAD_MIN_PERCENT..=100).contains(&below_load_percent) {
            return Err(LimitError::BelowLoad { percent: below_load_percent });
        }
        Ok(Self { limit: limit.soft(percent)?, below_load_percent })
    }

    /// The limit without the allowance, over the same counter.
    pub fn withdrawn(&self) -> Limit {
        self.limit.withdrawn()
    }
}

/// The rules of one domain, as read.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Limit, RuleSet, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let rule = RuleSpec { label: "burst".into(), ..RuleSpec::new(limit, Unit::Minute) };
/// let limits = LimitsSpec::Limits(vec![rule]);
/// let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// assert_eq!(rules.domains().collect::<Vec<_>>(), ["shop"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct DomainSpec {
    /// The name that requests carry.
    pub name: String,
    /// Whom no limit of it meets, and whom it always denies.
    pub lists: Option<Arc<ExceptionLists>>,
    /// The first level.
    pub descriptors: Vec<DescriptorSpec>,
}

/// One node of a domain's tree, as read.
///
/// ```
/// use tollgate_core::rule::DescriptorSpec;
/// let any_user = DescriptorSpec { key: "user_id".into(), ..Default::default() };
/// assert!(any_user.value.is_none());
/// ```
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
///
/// ```
/// use tollgate_core::rule::LimitsSpec;
/// assert!(matches!(LimitsSpec::default(), LimitsSpec::None), "nothing said, nothing limited");
/// ```
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

/// What a rule set lets through without counting.
///
/// ```
/// use tollgate_core::RuleSet;
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec};
/// let limits = LimitsSpec::Unlimited { label: "staff".into(), replaces: Vec::new() };
/// let staff = DescriptorSpec { key: "staff".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![staff], ..Default::default() }])?;
/// assert_eq!((rules.unlimited()[0].name(), rules.unlimited()[0].path.as_str()), ("staff", "shop.staff"));
/// # Ok::<(), tollgate_core::RuleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlimited {
    /// The label; may be empty.
    pub label: String,
    /// `domain.level.level`, as written.
    pub path: String,
}

impl Unlimited {
    /// The label, or the path where there is none.
    pub fn name(&self) -> &str {
        if self.label.is_empty() { &self.path } else { &self.label }
    }
}

/// One limit at a node, as read.
///
/// ```
/// use tollgate_core::rule::RuleSpec;
/// use tollgate_core::{Limit, Mode, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// assert_eq!(RuleSpec::new(limit, Unit::Minute).mode, Mode::Enforce);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RuleSpec {
    /// The label; empty if none.
    pub label: String,
    /// The numbers.
    pub limit: Limit,
    /// What more it allows while the load is low.
    pub elastic: Option<Box<Elastic>>,
    /// The unit the window was written in.
    pub unit: Unit,
    /// How many units the window is long.
    pub unit_multiplier: u32,
    /// Whether its denials are obeyed.
    pub mode: Mode,
    /// What becomes of a request that it has no room for.
    pub over_limit: OverLimit,
    /// Labels of rules that step back.
    pub replaces: Vec<String>,
    /// Free data to give back.
    pub metadata: Option<MetadataValue>,
    /// What to tell whom it denies, in the operator's own words; empty if none.
    pub message: String,
    /// Whom it does not meet, and whom it always denies.
    pub lists: Option<Arc<ExceptionLists>>,
}

impl RuleSpec {
    /// An enforced limit without a label, its window one `unit` long.
    pub fn new(limit: Limit, unit: Unit) -> Self {
        Self {
            label: String::new(),
            limit,
            elastic: None,
            unit,
            unit_multiplier: 1,
            mode: Mode::Enforce,
            over_limit: OverLimit::Deny,
            replaces: Vec::new(),
            metadata: None,
            message: String::new(),
            lists: None,
        }
    }
}

/// Which rule of a [`RuleSet`](crate::RuleSet).
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Limit, RuleSet, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let rule = RuleSpec { label: "burst".into(), ..RuleSpec::new(limit, Unit::Minute) };
/// let limits = LimitsSpec::Limits(vec![rule]);
/// let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// let trace = rules.trace("shop", &[("user_id", "42").into()]).expect("a known domain");
/// assert_eq!(trace.rules[0].index(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u32);

impl RuleId {
    /// Its place among all rules of the set.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}
