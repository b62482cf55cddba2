//! The one service that everything calls.
//!
//! A request comes in; the rules say what it is charged for; the clock is read
//! once; the store decides; the reply is put together and events are offered.
//!
//! Deliberately not here: waiting out a delay, and wire formats.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_core::ruleset::Free;
use tollgate_core::{Micros, Mode, Operation, Request, RuleSet, Time, Verdict};

use crate::clock::{Clock, SystemClock};
use crate::event::{Event, EventSink, NoSink};
use crate::memory::MemoryStore;
use crate::reply::{self, FreeList, Reply};
use crate::store::{ChargeSet, RemoteStore, Store, StoreReply};

/// Decides requests by rules.
///
/// ```
/// use tollgate_core::{Descriptor, Entry, Request};
/// use tollgate_limiter::Limiter;
/// use tollgate_rules::SourceFile;
///
/// let source = SourceFile {
///     name: "shop.yaml".into(),
///     text: "domain: shop\n\
///            descriptors:\n  - key: user_id\n    rate_limit: { requests_per_unit: 1, unit: hour }\n".into(),
/// };
/// let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?;
/// let limiter = Limiter::new(loaded.rules);
///
/// let entries = [Entry::from(("user_id", "42"))];
/// let descriptors = [Descriptor::new(&entries)];
/// let request = Request::new("shop", &descriptors);
/// assert_eq!(limiter.check(&request).verdict.word(), "allow");
/// assert_eq!(limiter.check(&request).verdict.word(), "deny");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Limiter<S = MemoryStore, C = SystemClock, E = NoSink> {
    rules: ArcSwap<RuleSet>,
    store: S,
    clock: C,
    sink: E,
    all_quota: bool,
}

impl Limiter {
    /// A limiter in the memory of this process, on the machine's clock.
    pub fn new(rules: RuleSet) -> Self {
        Self::with(rules, MemoryStore::default(), SystemClock::new(), NoSink)
    }
}

impl<S, C: Clock, E: EventSink> Limiter<S, C, E> {
    /// A limiter with a store, a clock and a sink of one's own.
    pub fn with(rules: RuleSet, store: S, clock: C, sink: E) -> Self {
        Self { rules: ArcSwap::from_pointee(rules), store, clock, sink, all_quota: false }
    }

    /// The same, treating every rule as a quota: a request is refused only if
    /// all of its descriptors are, and one without a rule lets it pass.
    #[must_use]
    pub fn with_all_quota(mut self, all_quota: bool) -> Self {
        self.all_quota = all_quota;
        self
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        self.rules.load_full()
    }

    /// Puts other rules in force, all at once. Counters whose domain, entries,
    /// algorithm and window stay the same go on.
    pub fn replace_rules(&self, rules: RuleSet) {
        self.rules.store(Arc::new(rules));
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// What `operation` on `request` charges, and why nothing for the rest.
    fn lookup<'a>(
        &self,
        rules: &'a RuleSet,
        request: &Request<'a>,
        operation: Operation,
    ) -> (ChargeSet<'a>, FreeList) {
        let mut batch = ChargeSet::default();
        let mut free = FreeList::new();
        rules.charges(request, operation, |found| reply::note(found, &mut batch, &mut free));
        if self.all_quota {
            as_quotas(&mut batch, &free);
        }
        (batch, free)
    }

    /// Offers what happened. A peek is no traffic, so that nobody counts it.
    fn tell(&self, request: &Request<'_>, operation: Operation, reply: &Reply) {
        if operation == Operation::Peek {
            return;
        }
        if reply.decisions.is_empty() {
            let operation = if gives_back(request) { Operation::Refund } else { operation };
            let is_request = operation != Operation::Refund;
            self.sink.offer(Event { request, reply, decision: None, operation, is_request });
        }
        let mut is_counted = false;
        for decision in reply.decisions.iter().filter(|decision| decision.cost > 0) {
            let is_request = decision.operation != Operation::Refund && !is_counted;
            is_counted |= is_request;
            let operation = decision.operation;
            self.sink.offer(Event { request, reply, decision: Some(decision), operation, is_request });
        }
    }
}

impl<S: Store, C: Clock, E: EventSink> Limiter<S, C, E> {
    /// May this happen? Takes its cost if so.
    pub fn check(&self, request: &Request<'_>) -> Reply {
        self.operate(request, Operation::Check)
    }

    /// What would [`Limiter::check`] answer? Changes nothing.
    pub fn peek(&self, request: &Request<'_>) -> Reply {
        self.operate(request, Operation::Peek)
    }

    /// This has happened: takes its cost even where it does not fit.
    pub fn report(&self, request: &Request<'_>) -> Reply {
        self.operate(request, Operation::Report)
    }

    /// This has not happened after all: gives its cost back, never above full.
    pub fn refund(&self, request: &Request<'_>) -> Reply {
        self.operate(request, Operation::Refund)
    }

    /// Does any of the four.
    pub fn operate(&self, request: &Request<'_>, operation: Operation) -> Reply {
        self.operate_at(request, operation, self.clock.now())
    }

    /// Does any of the four at an instant of the clock, for callers that
    /// decide several requests at one.
    pub fn operate_at(&self, request: &Request<'_>, operation: Operation, now: Time) -> Reply {
        let rules = self.rules.load();
        let (batch, free) = self.lookup(&rules, request, operation);
        let decisions = self.store.check(&batch, now);
        let answer = StoreReply { now, decisions, ..StoreReply::default() };
        let decided = reply::Decided::new(&batch, &answer);
        drop(batch);
        let reply = Reply::new(rules, now, free, decided);
        self.tell(request, operation, &reply);
        reply
    }

    /// Forgets what the counters of this request hold; how many held anything.
    pub fn reset(&self, request: &Request<'_>) -> usize {
        let rules = self.rules.load();
        let (batch, _) = self.lookup(&rules, request, Operation::Check);
        batch.charges.iter().filter(|charge| self.store.reset(&charge.key)).count()
    }
}

impl<S: RemoteStore, C: Clock, E: EventSink> Limiter<S, C, E> {
    /// Check, peek, report or refund on a store that is not in this process.
    pub async fn operate_remote(&self, request: &Request<'_>, operation: Operation) -> Reply {
        self.operate_remote_at(request, operation, self.clock.now()).await
    }

    /// The same at an instant of the clock, for callers that decide several
    /// requests at one. The store may have a better clock.
    pub async fn operate_remote_at(&self, request: &Request<'_>, operation: Operation, now: Time) -> Reply {
        let reply = self.decide_remote(request, operation, now).await;
        self.tell(request, operation, &reply);
        reply
    }

    /// Checks for a caller who holds what is delayed, and holds nothing for
    /// longer than `patience`: what would have to wait longer is denied, and its
    /// place in the queue given back.
    pub async fn check_remote_within(&self, request: &Request<'_>, now: Time, patience: Micros) -> Reply {
        let mut reply = self.decide_remote(request, Operation::Check, now).await;
        if matches!(reply.verdict, Verdict::Delay { wait } if wait > patience) {
            self.decide_remote(request, Operation::Refund, now).await;
            reply.deny_waits_above(patience);
        }
        self.tell(request, Operation::Check, &reply);
        reply
    }

    async fn decide_remote(&self, request: &Request<'_>, operation: Operation, now: Time) -> Reply {
        let rules = self.rules.load();
        let (batch, free) = self.lookup(&rules, request, operation);
        let answer = self.store.check(&batch, now).await;
        let decided = reply::Decided::new(&batch, &answer);
        drop(batch);
        Reply::new(rules, answer.now, free, decided)
    }

    /// Forgets what the counters of this request hold; how many held anything.
    pub async fn reset_remote(&self, request: &Request<'_>) -> usize {
        let rules = self.rules.load_full();
        let (batch, _) = self.lookup(&rules, request, Operation::Check);
        let now = self.clock.now();
        let mut forgotten = 0;
        for charge in &batch.charges {
            forgotten += usize::from(self.store.reset(&charge.key, now).await);
        }
        forgotten
    }
}

/// Whether all that a request does is give back.
fn gives_back(request: &Request<'_>) -> bool {
    !request.descriptors.is_empty() && request.descriptors.iter().all(|descriptor| descriptor.refund)
}

/// Makes every charge a quota; a descriptor that no rule matches is one that passes.
fn as_quotas(batch: &mut ChargeSet<'_>, free: &[Option<Free>]) {
    batch.quota_passes = free.iter().flatten().any(|why| *why != Free::Unlimited);
    for charge in &mut batch.charges {
        charge.mode = match charge.mode {
            Mode::Enforce | Mode::Quota => Mode::Quota,
            Mode::Shadow | Mode::ShadowQuota => Mode::ShadowQuota,
        };
    }
}
