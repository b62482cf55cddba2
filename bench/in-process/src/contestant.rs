//! A limiter in process as the harness sees it, and three of ours.
//!
//! [`Keyed`] is one limit over keys of a type, as governor is. [`Store`] is a key of rules and a limit.
//! [`Whole`] finds the rule first and makes a whole reply, and [`Prepared`] has found it beforehand.
//!
//! Invariant: all have the same limit and read the clock as their users have them.

use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
use tollgate_core::{
    Charge, Descriptor, Entry, Key, Limit, LimitError, Micros, Mode, Operation, Refill, Request, RuleSet,
    Shape, Unit,
};
use tollgate_limiter::{Capacity, ChargeSet, Clock as _, KeyedLimiter, Limiter, MemoryStore, SystemClock};

/// The most that any contestant is asked to hold.
const CAPACITY: Capacity = Capacity { keys: 12_000_000, log_bytes: 0 };

/// What the limit of a contestant lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// Every check of one key, however fast they come.
    OneKey,
    /// Every check of many keys; a key is remembered for 10 s and more after it was asked.
    ManyKeys,
    /// Nothing but the first two checks of a key.
    Nothing,
}

impl Allowance {
    /// Whether checks pass.
    pub fn allows(self) -> bool {
        self != Self::Nothing
    }

    /// How many tokens a full bucket has. One that is empty fills in less than two years.
    pub const fn burst(self) -> u32 {
        match self {
            Self::OneKey => 300_000_000,
            Self::ManyKeys => 5_000_000,
            Self::Nothing => 2,
        }
    }

    /// How many tokens come in how many seconds.
    pub const fn rate(self) -> (u32, u64) {
        match self {
            Self::OneKey => (5, 1),
            Self::ManyKeys => (1, 10),
            Self::Nothing => (1, 3_600),
        }
    }

    fn limit(self) -> Result<Limit, LimitError> {
        let shape = Shape::TokenBucket { burst: self.burst(), refill: Refill::Smooth };
        let (count, seconds) = self.rate();
        Limit::new(count, Micros::from_secs(seconds), shape)
    }
}

/// A limiter that is measured.
pub trait Contestant: Send + Sync + Sized + 'static {
    /// What it is called in tables.
    const NAME: &'static str;

    /// An empty one.
    fn new(allowance: Allowance) -> Self;

    /// Checks a key; whether it passed.
    #[expect(clippy::ptr_arg, reason = "governor's keys are Strings, and nobody should copy one")]
    fn check(&self, key: &String) -> bool;

    /// Checks of one thread.
    fn caller(&self) -> impl FnMut(&String) -> bool {
        |key| self.check(key)
    }

    /// Checks of one thread that has several keys at a time; how many passed.
    fn batch_caller(&self) -> impl FnMut(&[&String]) -> usize {
        let mut check = self.caller();
        move |keys| keys.iter().filter(|key| check(key)).count()
    }
}

/// [`KeyedLimiter`].
#[derive(Debug)]
pub struct Keyed(KeyedLimiter<String>);

impl Contestant for Keyed {
    const NAME: &'static str = "Tollgate, one limit (`KeyedLimiter`)";

    fn new(allowance: Allowance) -> Self {
        let limit = allowance.limit().expect("a limit that is one");
        Self(KeyedLimiter::with(limit, CAPACITY, SystemClock::new()))
    }

    fn check(&self, key: &String) -> bool {
        !self.0.check(key).verdict.is_deny()
    }

    fn batch_caller(&self) -> impl FnMut(&[&String]) -> usize {
        |keys| self.0.check_batch(keys).iter().filter(|decision| !decision.verdict.is_deny()).count()
    }
}

/// [`MemoryStore`], with keys as rules make them.
#[derive(Debug)]
pub struct Store {
    store: MemoryStore,
    clock: SystemClock,
    limit: Limit,
}

impl Contestant for Store {
    const NAME: &'static str = "Tollgate, the store (`MemoryStore`)";

    fn new(allowance: Allowance) -> Self {
        let limit = allowance.limit().expect("a limit that is one");
        Self { store: MemoryStore::new(CAPACITY), clock: SystemClock::new(), limit }
    }

    fn check(&self, key: &String) -> bool {
        let entries = [Entry { key: "user_id", value: key }];
        let key = Key { domain: "shop", entries: &entries, shared: &[], limit: &self.limit, ordinal: 0 };
        let (mode, operation) = (Mode::Enforce, Operation::Check);
        let mut set = ChargeSet::default();
        set.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
        self.store.decide(&set, self.clock.now()).iter().all(|decision| !decision.verdict.is_deny())
    }
}

/// [`Limiter`] with a rule on `user_id`.
#[derive(Debug)]
pub struct Whole(Limiter);

impl Contestant for Whole {
    const NAME: &'static str = "Tollgate, rules and reply (`Limiter`)";

    fn new(allowance: Allowance) -> Self {
        let limit = allowance.limit().expect("a limit that is one");
        Self(Limiter::new(one_domain(vec![node("user_id", None, limit)])))
    }

    fn check(&self, key: &String) -> bool {
        let entries = [Entry { key: "user_id", value: key }];
        let descriptors = [Descriptor::new(&entries)];
        !self.0.check(&Request::new("shop", &descriptors)).at_once().verdict.is_deny()
    }
}

/// [`Limiter`] with a rule on `user_id`, asked about by a check that was prepared.
#[derive(Debug)]
pub struct Prepared(Limiter);

impl Contestant for Prepared {
    const NAME: &'static str = "Tollgate, a prepared rule (`PreparedCheck`)";

    fn new(allowance: Allowance) -> Self {
        Self(Whole::new(allowance).0)
    }

    fn check(&self, key: &String) -> bool {
        self.caller()(key)
    }

    fn caller(&self) -> impl FnMut(&String) -> bool {
        let mut prepared = self.0.prepare("shop", ["user_id"]);
        move |key| !prepared.check([key]).verdict.is_deny()
    }

    fn batch_caller(&self) -> impl FnMut(&[&String]) -> usize {
        let mut prepared = self.0.prepare("shop", ["user_id"]);
        move |keys| {
            let replies = prepared.check_batch(keys.iter().map(|key| [key.as_str()]));
            replies.iter().filter(|reply| !reply.verdict.is_deny()).count()
        }
    }
}

/// A rule on a key, or on one value of it.
pub fn node(key: &str, value: Option<String>, limit: Limit) -> DescriptorSpec {
    let limits = LimitsSpec::Limits(vec![RuleSpec::new(limit, Unit::Hour)]);
    DescriptorSpec { key: key.into(), value, limits, ..Default::default() }
}

/// Rules of one domain, `shop`.
pub fn one_domain(descriptors: Vec<DescriptorSpec>) -> RuleSet {
    RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors, ..Default::default() }])
        .expect("rules that go together")
}
