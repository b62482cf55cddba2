//! Requests that arrived together, where counters are in memory.
//!
//! Whoever has several, such as a pipeline of commands, hands them over at once: those that meet one limit
//! and nothing else are decided by `MemoryStore::decide_batch`, which fetches their counters side by side.
//! All others take the long way, each in its turn.
//!
//! Invariant: replies, counters and events are those of one request after the other, by the rules and overrides that
//! were in force when the run of such requests that it belongs to began; no request is decided by older rules than one before it.
//!
//! Deliberately not here: stores that have to be waited for, which send together what comes together.

use smallvec::SmallVec;
use tollgate_core::{Charge, Decision, Entry, Limit, Operation, PlainBucket, Request, Time};

use super::{Limiter, RequestStep, caller_charge, offer, prefetch_event};
use crate::clock::Clock;
use crate::event::{EventBatch, EventSink};
use crate::limit_reply::{CallerDecision, LimitReply};
use crate::memory::{BatchedCharges, MemoryStore};
use crate::reply::{Reply, RuleDecision};
use crate::rules_in_force::{KeyHash, RulesInForce};
use crate::rules_lease::RulesLease;
use crate::store::Store;

/// Requests that are mostly handed over at once; more cost an allocation.
const REQUESTS_USUAL: usize = 64;

/// A check of a limit that the caller brings along.
#[derive(Debug, Clone, Copy)]
pub struct CallerCheck<'a> {
    /// The name of the counter.
    pub name: &'a str,
    /// The limit.
    pub limit: &'a Limit,
    /// What is taken.
    pub cost: u64,
}

/// What some requests are charged for, each for one limit and nothing else.
#[derive(Default)]
struct SingleCharges<'a> {
    hashes: SmallVec<[KeyHash; REQUESTS_USUAL]>,
    charges: SmallVec<[Charge<'a>; REQUESTS_USUAL]>,
}

impl<'a> SingleCharges<'a> {
    /// Adds those of the first of these requests, up to one that is charged for more, or for nothing. They are put
    /// where they stay, because moving both lists would take longer than a check.
    fn fill(&mut self, memory: &MemoryStore, rules: &'a RulesInForce, requests: &[Request<'a>]) {
        for one in requests.iter().map_while(|request| rules.single_charge(request, Operation::Check)) {
            self.hashes.push(rules.hash_of_rule(memory, &one));
            self.charges.push(one);
        }
    }

    fn get(&self, at: usize) -> &Charge<'a> {
        self.charges.get(at).expect("there is a charge for each hash")
    }

    /// A decision about one of them.
    fn decision(&self, at: usize, decision: &Decision) -> RuleDecision {
        let mut decision = RuleDecision::new(self.get(at), decision);
        decision.key_number = self.hashes.get(at).and_then(|hash| hash.key_number());
        decision
    }
}

impl BatchedCharges for SingleCharges<'_> {
    fn plain_bucket(&self, at: usize) -> Option<&PlainBucket> {
        self.get(at).plain_bucket()
    }

    fn charge(&self, at: usize) -> Charge<'_> {
        *self.get(at)
    }
}

/// The charges of limits that callers bring along. The name is in the hash, and nothing else is decided by it.
impl BatchedCharges for [CallerCheck<'_>] {
    fn plain_bucket(&self, at: usize) -> Option<&PlainBucket> {
        self.get(at).filter(|check| check.cost == 1).and_then(|check| check.limit.plain_bucket())
    }

    fn charge(&self, at: usize) -> Charge<'_> {
        let check = self.get(at).expect("there is a hash for each check");
        caller_charge(&[], check.limit, check.cost)
    }
}

impl<S: Store, C: Clock, E: EventSink> Limiter<S, C, E> {
    /// Checks requests one after the other, and shows each reply to `then`, with the number of its
    /// request. False on a store that is not in this process, and then nothing was done.
    pub fn check_batch_at_once(
        &self,
        requests: &[Request<'_>],
        now: Time,
        mut then: impl FnMut(usize, &Reply),
    ) -> bool {
        let Some(memory) = self.store.memory() else { return false };
        self.sink.batch(|events| {
            let mut first = 0;
            while let Some(rest) = requests.get(first..).filter(|rest| !rest.is_empty()) {
                let mut show = |at: usize, reply: &Reply| then(first + at, reply);
                first += self.check_some((memory, now), rest, events, &mut show);
            }
        });
        true
    }

    /// Checks the first of these requests, up to one that does not take the short way; how many.
    fn check_some(
        &self,
        (memory, now): (&MemoryStore, Time),
        requests: &[Request<'_>],
        events: &mut dyn EventBatch,
        then: &mut impl FnMut(usize, &Reply),
    ) -> usize {
        let rules = self.rules.lease();
        let mut single = SingleCharges::default();
        if self.may_be_single() {
            single.fill(memory, &rules, requests);
        }
        for hash in &single.hashes {
            prefetch_event(events, *hash);
        }
        let mut reply: Option<Reply> = None;
        memory.decide_batch(single.hashes.iter().map(|hash| hash.hash), &single, now, |at, decision| {
            let decision = single.decision(at, &decision);
            match &mut reply {
                Some(reply) => reply.replace_single(decision),
                None => {
                    let rules = RulesLease::of(rules.shared());
                    reply = Some(Reply::single(rules, now, decision, self.is_all_shadow));
                }
            }
            if let (Some(request), Some(reply)) = (requests.get(at), &reply) {
                offer(events, request, Operation::Check, reply);
                then(at, reply);
            }
        });
        let decided = single.hashes.len();
        if let Some(request) = requests.get(decided) {
            let step = RequestStep { request, operation: Operation::Check, now };
            let reply = self.decide_in_memory(memory, step, Some(events));
            offer(events, request, Operation::Check, &reply);
            then(decided, &reply);
        }
        decided + 1
    }

    /// Checks limits that callers bring along one after the other, and shows each reply to `then`, with the
    /// number of its check. False on a store that is not in this process, and then nothing was done.
    pub fn check_limits_at_once(
        &self,
        checks: &[CallerCheck<'_>],
        now: Time,
        mut then: impl FnMut(usize, &LimitReply),
    ) -> bool {
        let Some(memory) = self.store.memory() else { return false };
        let mut hashes: SmallVec<[u64; REQUESTS_USUAL]> = SmallVec::new();
        let mut last: Option<(&Limit, u64)> = None;
        for check in checks {
            let entries = [Entry { key: "", value: check.name }];
            let charge = caller_charge(&entries, check.limit, check.cost);
            // Commands that come together mostly bring the same limit.
            let scope = match last {
                Some((limit, scope)) if std::ptr::eq(limit, check.limit) => scope,
                Some(_) | None => memory.scope(&charge.key),
            };
            last = Some((check.limit, scope));
            hashes.push(memory.hash_in_scope(scope, &charge.key));
        }
        let check = |at: usize| checks.get(at).expect("there is a hash for each check");
        self.sink.batch(|events| {
            memory.decide_batch(hashes, checks, now, |at, decision| {
                let decided = CallerDecision { now, decision, degraded: false };
                let CallerCheck { name, cost, .. } = *check(at);
                then(at, &self.counted_caller_reply(events, name, cost, decided));
            });
        });
        true
    }
}
