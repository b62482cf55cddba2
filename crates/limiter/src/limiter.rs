//! The one service that everything calls.
//!
//! A request comes in, with the time at which an adapter took it or with the clock's; the rules say
//! what it is charged for; the store decides; the reply is put together and events are offered.
//!
//! Deliberately not here: waiting out a delay, and wire formats.

mod batch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Request, RuleSet, Time, Verdict};

use crate::charge_set::{CHARGES_USUAL, ChargeSet};
use crate::clock::{Clock, SystemClock};
use crate::event::{Event, EventBatch, EventSink, LimitEvent, NoSink};
use crate::limit_reply::{CallerDecision, LimitReply};
use crate::load::LoadGauge;
use crate::lookup::Lookup;
use crate::memory::MemoryStore;
use crate::overrides::{Bending, OverrideTable};
use crate::pending::Pending;
use crate::reply::{Decided, Reply, RuleDecision};
use crate::rules_in_force::KeyHash;
use crate::rules_lease::{CurrentRules, RulesLease};
use crate::store::{Store, StoreReply};

pub use batch::CallerCheck;

/// The domain of counters whose limits callers bring along. No rule file has
/// it, so that rules and callers never share one.
const CALLER_LIMITS: &str = "\0brought";

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
/// assert_eq!(limiter.check(&request).at_once().verdict.word(), "allow");
/// assert_eq!(limiter.check(&request).at_once().verdict.word(), "deny");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Limiter<S = MemoryStore, C = SystemClock, E = NoSink> {
    pub(crate) rules: CurrentRules,
    pub(crate) store: S,
    pub(crate) clock: C,
    pub(crate) sink: E,
    load: Arc<LoadGauge>,
    /// Only asked if the flag says that there are any.
    overrides: ArcSwap<OverrideTable>,
    has_overrides: AtomicBool,
    is_all_quota: bool,
    pub(crate) is_all_shadow: bool,
}

impl Limiter {
    /// A limiter in the memory of this process, on the machine's clock.
    pub fn new(rules: RuleSet) -> Self {
        Self::with(rules, MemoryStore::default(), SystemClock::new(), NoSink)
    }
}

impl<S, C, E> Limiter<S, C, E> {
    /// A limiter with a store, a clock and a sink of one's own, and perhaps
    /// with rules that others use, too.
    pub fn with(rules: impl Into<Arc<RuleSet>>, store: S, clock: C, sink: E) -> Self {
        Self {
            rules: CurrentRules::new(rules.into()),
            store,
            clock,
            sink,
            load: Arc::default(),
            overrides: ArcSwap::default(),
            has_overrides: AtomicBool::new(false),
            is_all_quota: false,
            is_all_shadow: false,
        }
    }

    /// The same, treating every rule as a quota: a request is denied only if
    /// all of its descriptors are, and one without a rule lets it pass.
    #[must_use]
    pub fn with_all_quota(mut self, is_all_quota: bool) -> Self {
        self.is_all_quota = is_all_quota;
        self
    }

    /// The same, enforcing nothing: requests are decided and counted as ever,
    /// and all of them pass.
    #[must_use]
    pub fn with_all_shadow(mut self, is_all_shadow: bool) -> Self {
        self.is_all_shadow = is_all_shadow;
        self
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(self.rules.lease().shared_set())
    }

    /// Puts other rules in force, all at once. Counters whose domain, entries,
    /// algorithm and window stay the same go on.
    pub fn replace_rules(&self, rules: RuleSet) {
        self.rules.replace(Arc::new(rules));
    }

    /// Puts other overrides in force, all at once.
    pub fn replace_overrides(&self, table: OverrideTable) {
        let has_any = !table.is_empty();
        self.overrides.store(Arc::new(table));
        self.has_overrides.store(has_any, Ordering::Release);
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// How loaded the system is, which elastic limits go by.
    pub const fn load(&self) -> &Arc<LoadGauge> {
        &self.load
    }

    /// Who is told of events.
    pub const fn sink(&self) -> &E {
        &self.sink
    }
}

impl<S: Store, C: Clock, E: EventSink> Limiter<S, C, E> {
    /// May this happen? Takes its cost if so.
    #[inline]
    pub fn check(
        &self,
        request: &Request<'_>,
    ) -> Pending<S, impl Future<Output = Reply>, impl FnOnce() -> Reply> {
        self.operate(request, Operation::Check, self.clock.now())
    }

    /// What would [`Limiter::check`] answer? Changes nothing.
    pub fn peek(
        &self,
        request: &Request<'_>,
    ) -> Pending<S, impl Future<Output = Reply>, impl FnOnce() -> Reply> {
        self.operate(request, Operation::Peek, self.clock.now())
    }

    /// This has happened: takes its cost even where it does not fit.
    pub fn report(
        &self,
        request: &Request<'_>,
    ) -> Pending<S, impl Future<Output = Reply>, impl FnOnce() -> Reply> {
        self.operate(request, Operation::Report, self.clock.now())
    }

    /// This has not happened after all: gives its cost back, never above full.
    pub fn refund(
        &self,
        request: &Request<'_>,
    ) -> Pending<S, impl Future<Output = Reply>, impl FnOnce() -> Reply> {
        self.operate(request, Operation::Refund, self.clock.now())
    }

    /// Does any of the four at an instant of the clock, for callers that decide
    /// several requests at one. The store may have a better clock.
    #[inline]
    pub fn operate(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
    ) -> Pending<S, impl Future<Output = Reply>, impl FnOnce() -> Reply> {
        let future = self.decide(request, operation, now, move |reply| self.offer(request, operation, reply));
        let shortcut = self.store.memory().map(|memory| {
            move || {
                let step = RequestStep { request, operation, now };
                // Made where the caller wants it: what is shown to somebody first is moved there afterwards.
                if !self.sink.is_counting() {
                    return self.decide_in_memory(memory, step, None);
                }
                self.sink.batch(|events| {
                    let reply = self.decide_in_memory(memory, step, Some(events));
                    offer(events, step.request, operation, &reply);
                    reply
                })
            }
        });
        Pending::with_shortcut(future, shortcut)
    }

    /// The same on a store in this process, which nobody has to wait for: shows the reply to `then`,
    /// where it is. None on any other store, and then nothing was done.
    pub fn operate_at_once<T>(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
        then: impl FnOnce(&Reply) -> T,
    ) -> Option<T> {
        let memory = self.store.memory()?;
        Some(self.sink.batch(|events| {
            let step = RequestStep { request, operation, now };
            let reply = self.decide_in_memory(memory, step, Some(events));
            offer(events, request, operation, &reply);
            then(&reply)
        }))
    }

    /// Checks for a caller who holds what is delayed, and holds nothing for
    /// longer than `patience`: what would have to wait longer is denied, and its
    /// place in the queue given back.
    pub fn check_within(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
    ) -> Pending<S, impl Future<Output = Reply>> {
        let offer = move |reply: &Reply| self.offer(request, Operation::Check, reply);
        Pending::new(self.check_patiently(PatientCheck { request, now, patience }, offer))
    }

    /// The same on a store in this process, as [`Limiter::operate_at_once`].
    pub fn check_within_at_once<T>(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
        then: impl FnOnce(&Reply) -> T,
    ) -> Option<T> {
        let (memory, check) = (self.store.memory()?, PatientCheck { request, now, patience });
        Some(self.sink.batch(|events| {
            let mut reply = self.decide_in_memory(memory, check.step(Operation::Check), Some(events));
            self.keep_patience(memory, check, &mut reply);
            offer(events, request, Operation::Check, &reply);
            then(&reply)
        }))
    }

    /// The same, counted by nobody until it is handed to [`Limiter::count`]: for a caller who may
    /// put off what is denied.
    pub fn check_uncounted(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
    ) -> Pending<S, impl Future<Output = Reply>> {
        Pending::new(self.check_patiently(PatientCheck { request, now, patience }, |_| ()))
    }

    /// Counts the reply of [`Limiter::check_uncounted`].
    pub fn count(&self, request: &Request<'_>, reply: &Reply) {
        self.offer(request, Operation::Check, reply);
    }

    /// Reports and gives back what an earlier check left open, as the descriptors
    /// say. It is no request of its own, and is not counted as one.
    pub fn settle(&self, request: &Request<'_>, now: Time) -> Pending<S, impl Future<Output = Reply>> {
        Pending::new(self.decide(request, Operation::Report, now, move |reply| {
            for decision in reply.decisions.iter().filter(|decision| decision.cost > 0) {
                let operation = decision.operation;
                let event = Event { request, reply, decision: Some(decision), operation, is_request: false };
                self.sink.offer(event);
            }
        }))
    }

    /// Takes `cost` from the counter `name` of a limit that the caller brings
    /// along, without any rule.
    pub fn check_limit(
        &self,
        name: &str,
        limit: &Limit,
        cost: u64,
        now: Time,
    ) -> Pending<S, impl Future<Output = LimitReply>> {
        Pending::new(async move {
            if let Some(reply) = self.check_limit_at_once(name, limit, cost, now) {
                return reply;
            }
            let entries = [Entry { key: "", value: name }];
            let decided = Box::pin(self.check_remotely(caller_charge(&entries, limit, cost), now)).await;
            self.caller_reply(name, cost, decided)
        })
    }

    /// The same on a store in this process, as [`Limiter::operate_at_once`].
    #[inline]
    pub fn check_limit_at_once(&self, name: &str, limit: &Limit, cost: u64, now: Time) -> Option<LimitReply> {
        let memory = self.store.memory()?;
        let entries = [Entry { key: "", value: name }];
        let decision = memory.decide_one(&caller_charge(&entries, limit, cost), now);
        Some(self.caller_reply(name, cost, CallerDecision { now, decision, degraded: false }))
    }

    fn caller_reply(&self, name: &str, cost: u64, decided: CallerDecision) -> LimitReply {
        self.sink.batch(|events| self.counted_caller_reply(events, name, cost, decided))
    }

    fn counted_caller_reply(
        &self,
        events: &mut dyn EventBatch,
        name: &str,
        cost: u64,
        decided: CallerDecision,
    ) -> LimitReply {
        let reply = LimitReply::new(decided, self.is_all_shadow);
        // A cost of 0 is no traffic.
        if cost > 0 || reply.verdict.is_deny() {
            events.offer_limit(LimitEvent { name, reply: &reply });
        }
        reply
    }

    async fn check_remotely(&self, charge: Charge<'_>, now: Time) -> CallerDecision {
        let mut set = ChargeSet::default();
        set.charges.push(charge);
        CallerDecision::first(&self.store.check(&set, now).await)
    }

    /// Forgets what the counters of this request hold; how many held anything.
    pub fn reset(&self, request: &Request<'_>) -> Pending<S, impl Future<Output = usize>> {
        Pending::new(async move {
            let rules = self.rules.lease();
            let lookup = Lookup::new(&rules, request, Operation::Report, self.is_all_quota);
            let now = self.clock.now();
            let mut forgotten = 0;
            for charge in &lookup.set.charges {
                forgotten += usize::from(self.store.reset(&charge.key, now).await);
            }
            forgotten
        })
    }

    /// Decides a request and shows the reply to `then`. That is an argument so that an operation is one
    /// future and not one within another, which would copy every reply once more.
    async fn decide(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
        then: impl FnOnce(&Reply),
    ) -> Reply {
        let step = RequestStep { request, operation, now };
        let reply = match self.store.memory() {
            Some(memory) => self.decide_in_memory(memory, step, None),
            // In a place of its own, so that what never waits is not made larger by what may.
            None => Box::pin(self.decide_remotely(step)).await,
        };
        then(&reply);
        reply
    }

    async fn check_patiently(&self, check: PatientCheck<'_, '_>, then: impl FnOnce(&Reply)) -> Reply {
        let reply = match self.store.memory() {
            Some(memory) => {
                let mut reply = self.decide_in_memory(memory, check.step(Operation::Check), None);
                self.keep_patience(memory, check, &mut reply);
                reply
            }
            None => {
                Box::pin(async {
                    let mut reply = self.decide_remotely(check.step(Operation::Check)).await;
                    if check.is_too_long(&reply) {
                        self.decide_remotely(check.step(Operation::Refund)).await;
                        reply.deny_waits_above(check.patience);
                    }
                    reply
                })
                .await
            }
        };
        then(&reply);
        reply
    }

    /// Denies what would have to wait for too long. The reply stays where it is: it is large.
    fn keep_patience(&self, memory: &MemoryStore, check: PatientCheck<'_, '_>, reply: &mut Reply) {
        if check.is_too_long(reply) {
            self.decide_in_memory(memory, check.step(Operation::Refund), None);
            reply.deny_waits_above(check.patience);
        }
    }

    /// Decides a request on a store in this process.
    ///
    /// The short way is for a request that meets one limit and nothing else: it needs no lists of charges and
    /// decisions, nor anybody to say how they bear on each other. The decision and the reply are the same as by
    /// the long way, which takes twice as long; tests compare both.
    ///
    /// `events` is told what will be offered to it.
    fn decide_in_memory(
        &self,
        memory: &MemoryStore,
        step: RequestStep<'_, '_>,
        events: Option<&mut dyn EventBatch>,
    ) -> Reply {
        let rules = self.rules.lease();
        if self.may_be_single()
            && let Some(charge) = rules.single_charge(step.request, step.operation)
        {
            let hash = rules.hash_of_rule(memory, &charge);
            // They come side by side then. By itself, a check would wait for its state all the same.
            if events.is_some_and(|events| prefetch_event(events, hash)) {
                memory.prefetch(hash.hash);
            }
            let decision = memory.decide_hash(hash.hash, &charge, step.now);
            let mut decision = RuleDecision::new(&charge, &decision);
            decision.key_number = hash.key_number();
            return Reply::single(rules, step.now, decision, self.is_all_shadow);
        }
        self.decide_several(memory, rules, step, events)
    }

    /// The long way, for everything. By itself, so that the short one need not make room for it.
    #[inline(never)]
    fn decide_several(
        &self,
        memory: &MemoryStore,
        rules: RulesLease,
        step: RequestStep<'_, '_>,
        events: Option<&mut dyn EventBatch>,
    ) -> Reply {
        let (mut bent, now) = (Vec::new(), step.now);
        let lookup = self.look_up(&rules, &mut bent, step);
        let keys: SmallVec<[KeyHash; CHARGES_USUAL]> =
            lookup.set.charges.iter().map(|charge| rules.hash(memory, charge)).collect();
        let hashes: SmallVec<[u64; CHARGES_USUAL]> = keys.iter().map(|key| key.hash).collect();
        if let Some(events) = events {
            for key in &keys {
                memory.prefetch(key.hash);
                prefetch_event(events, *key);
            }
        }
        let decisions = memory.decide_hashes(&hashes, &lookup.set, now);
        let reply = StoreReply { now, decisions, ..StoreReply::default() };
        let decided = Decided::new(lookup, &reply, |charge| keys.get(charge)?.key_number());
        Reply::new(rules, decided, self.is_all_shadow)
    }

    /// Whether a request may take the short way, if its rule lets it.
    #[inline]
    pub(crate) fn may_be_single(&self) -> bool {
        !self.is_all_quota && !self.has_overrides.load(Ordering::Acquire)
    }

    async fn decide_remotely(&self, step: RequestStep<'_, '_>) -> Reply {
        let (rules, mut bent) = (self.rules.lease(), Vec::new());
        let lookup = self.look_up(&rules, &mut bent, step);
        let answer = self.store.check(&lookup.set, step.now).await;
        let decided = Decided::new(lookup, &answer, |_| None);
        Reply::new(rules, decided, self.is_all_shadow)
    }

    /// What a request is charged, by the limits in force at this moment. `bent` holds those of operators.
    fn look_up<'a>(
        &self,
        rules: &'a RuleSet,
        bent: &'a mut Vec<Option<Limit>>,
        step: RequestStep<'_, 'a>,
    ) -> Lookup<'a> {
        let RequestStep { request, operation, now } = step;
        let mut lookup = Lookup::new(rules, request, operation, self.is_all_quota);
        if self.has_overrides.load(Ordering::Acquire) {
            let table = self.overrides.load_full();
            let bending = Bending { table: &table, rules, request, operation, now };
            bent.extend(bending.bend(&mut lookup));
            lookup.replace_limits(bent);
        }
        lookup.stretch(rules, request.domain, &self.load, now);
        lookup
    }

    /// Offers what happened, to who keeps count.
    fn offer(&self, request: &Request<'_>, operation: Operation, reply: &Reply) {
        self.sink.batch(|events| offer(events, request, operation, reply));
    }
}

/// Has whatever the event of a decision about this key will need fetched from memory; whether there is any.
#[inline]
fn prefetch_event(events: &mut dyn EventBatch, key: KeyHash) -> bool {
    key.rule.zip(key.key_number()).is_some_and(|(rule, number)| events.prefetch(rule, number))
}

/// Offers what happened. A peek is no traffic, so that nobody counts it.
fn offer(events: &mut dyn EventBatch, request: &Request<'_>, operation: Operation, reply: &Reply) {
    if operation == Operation::Peek {
        return;
    }
    if reply.decisions.is_empty() {
        let operation = if gives_back(request) { Operation::Refund } else { operation };
        let is_request = operation != Operation::Refund;
        events.offer(Event { request, reply, decision: None, operation, is_request });
    }
    let mut is_counted = false;
    // A cost of 0 is no traffic, unless a postpaid limit denies it. Nor is a peek.
    let is_peek = |decision: &RuleDecision| decision.operation == Operation::Peek;
    let counts =
        |decision: &&RuleDecision| decision.cost > 0 && !is_peek(decision) || decision.verdict.is_deny();
    for decision in reply.decisions.iter().filter(counts) {
        let is_request = decision.operation != Operation::Refund && !is_counted;
        is_counted |= is_request;
        let operation = decision.operation;
        events.offer(Event { request, reply, decision: Some(decision), operation, is_request });
    }
    // What such a request costs is settled later; that it came is known now.
    if !is_counted && reply.decisions.iter().any(is_peek) {
        events.offer(Event { request, reply, decision: None, operation, is_request: true });
    }
}

/// What is done with a request, and when.
#[derive(Clone, Copy)]
struct RequestStep<'r, 'a> {
    request: &'r Request<'a>,
    operation: Operation,
    now: Time,
}

/// A check by a caller who holds nothing for longer than `patience`.
#[derive(Clone, Copy)]
struct PatientCheck<'r, 'a> {
    request: &'r Request<'a>,
    now: Time,
    patience: Micros,
}

impl<'r, 'a> PatientCheck<'r, 'a> {
    const fn step(self, operation: Operation) -> RequestStep<'r, 'a> {
        RequestStep { request: self.request, operation, now: self.now }
    }

    fn is_too_long(self, reply: &Reply) -> bool {
        matches!(reply.verdict, Verdict::Delay { wait } if wait > self.patience)
    }
}

/// The charge of a limit that the caller brings along.
fn caller_charge<'a>(entries: &'a [Entry<'a>], limit: &'a Limit, cost: u64) -> Charge<'a> {
    let key = Key { domain: CALLER_LIMITS, entries, shared: &[], limit, ordinal: 0 };
    let (mode, operation) = (Mode::Enforce, Operation::Check);
    Charge { descriptor: 0, rule: None, key, mode, operation, cost }
}

/// Whether all that a request does is give back.
fn gives_back(request: &Request<'_>) -> bool {
    !request.descriptors.is_empty()
        && request.descriptors.iter().all(|descriptor| descriptor.operation == Some(Operation::Refund))
}
