//! What happened, told to whoever keeps count.
//!
//! After each request [`crate::Limiter`] offers one [`Event`] for every decision
//! to an [`EventSink`]. Metrics and history are sinks. A peek, which a cost of
//! 0 is too, changes nothing and is not offered.
//!
//! Invariant: a sink never waits: it counts or queues within a bound, and what
//! does not fit it drops and counts as dropped.

use std::num::NonZeroU64;

use tollgate_core::{Entry, Operation, Outcome, Request};

use crate::limit_reply::LimitReply;
use crate::reply::{Reply, RuleDecision};

/// One decision, with the request it belongs to.
///
/// ```
/// use tollgate_limiter::Event;
///
/// /// A line for a log.
/// fn line(event: Event<'_>) -> String {
///     let rule = event.decision.and_then(|decision| event.reply.rule(decision));
///     format!("{} {}", rule.map_or("no rule", |rule| rule.name()), event.reply.verdict.word())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What was asked.
    pub request: &'a Request<'a>,
    /// What was answered to the request as a whole.
    pub reply: &'a Reply,
    /// The decision; none where no rule applied to the request at all.
    pub decision: Option<&'a RuleDecision>,
    /// What was done: a check, a report or a refund. One request can do
    /// several, each for another descriptor.
    pub operation: Operation,
    /// Whether the request as a whole is to be counted with this event: with
    /// one of its events, and with none if all that it does is give back.
    pub is_request: bool,
}

/// What stands for a rule's name where the caller brought the limit in a
/// descriptor.
const OVERRIDE: &str = "override";

impl Event<'_> {
    /// The name of the rule that decided, for people to read.
    pub fn rule_name(&self) -> &str {
        let rule = self.decision.and_then(|decision| self.reply.rule(decision));
        let exception = self.decision.and_then(|decision| decision.exception);
        match (rule, exception) {
            (Some(rule), _) => rule.name(),
            (None, Some(exception)) => exception.reason(),
            (None, None) => OVERRIDE,
        }
    }

    /// The entries that the decision is about.
    pub fn entries(&self) -> &[Entry<'_>] {
        let descriptor = self.decision.and_then(|decision| self.request.descriptors.get(decision.descriptor));
        descriptor.map_or(&[], |descriptor| descriptor.entries)
    }

    /// How the decision is counted; none where something was only given back,
    /// which nobody had to decide.
    pub fn outcome(&self) -> Option<Outcome> {
        let decision = self.decision.filter(|_| self.operation != Operation::Refund)?;
        Some(self.reply.outcome_of(decision))
    }
}

/// The decision of a limit that the caller brought along, by [`crate::Limiter::check_limit`].
#[derive(Debug, Clone, Copy)]
pub struct LimitEvent<'a> {
    /// The counter, as the caller calls it.
    pub name: &'a str,
    /// What was answered.
    pub reply: &'a LimitReply,
}

impl LimitEvent<'_> {
    /// What stands for a rule's name.
    pub const RULE_NAME: &'static str = "throttle";
}

/// Whoever keeps count.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tollgate_core::{Request, RuleSet};
/// use tollgate_limiter::{Event, EventSink, Limiter, ManualClock, MemoryStore};
///
/// #[derive(Default)]
/// struct Denials(AtomicU64);
///
/// impl EventSink for Denials {
///     fn offer(&self, event: Event<'_>) {
///         let denied = event.decision.is_some_and(|decision| decision.verdict.is_deny());
///         self.0.fetch_add(u64::from(denied), Ordering::Relaxed);
///     }
/// }
/// let sink = std::sync::Arc::new(Denials::default());
/// let limiter =
///     Limiter::with(RuleSet::default(), MemoryStore::default(), ManualClock::default(), sink.clone());
/// limiter.check(&Request::new("shop", &[])).at_once();
/// assert_eq!(sink.0.load(Ordering::Relaxed), 0);
/// ```
pub trait EventSink: Send + Sync {
    /// Takes note of an event, without waiting for anything.
    fn offer(&self, event: Event<'_>);

    /// The same of a limit without rules. Who counts by rules need not care.
    fn offer_limit(&self, _: LimitEvent<'_>) {}

    /// Has several events in a row offered by `act`: those of a request, or of a batch of them. Whoever has to lock
    /// something to take note does it once.
    fn batch<T>(&self, act: impl FnOnce(&mut dyn EventBatch) -> T) -> T
    where
        Self: Sized,
    {
        act(&mut OneByOne(self))
    }

    /// Whether events are worth making.
    fn is_counting(&self) -> bool {
        true
    }
}

/// Takes note of several events in a row.
pub trait EventBatch {
    /// As [`EventSink::offer`].
    fn offer(&mut self, event: Event<'_>);

    /// As [`EventSink::offer_limit`].
    fn offer_limit(&mut self, event: LimitEvent<'_>);

    /// An event about this key of a rule may be among the next; both are numbers of [`Reply::rule_number`] and
    /// [`RuleDecision::key_number`]. Whoever has to fetch something from memory for it can begin now, while the
    /// limiter waits for the state of the key; whether anything was begun.
    fn prefetch(&mut self, _rule: u64, _key: NonZeroU64) -> bool {
        false
    }
}

/// A batch of a sink that has nothing to do once for all.
struct OneByOne<'a, S>(&'a S);

impl<S: EventSink> EventBatch for OneByOne<'_, S> {
    fn offer(&mut self, event: Event<'_>) {
        self.0.offer(event);
    }

    fn offer_limit(&mut self, event: LimitEvent<'_>) {
        self.0.offer_limit(event);
    }
}

/// Keeps no count.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSink;

impl EventSink for NoSink {
    fn offer(&self, _: Event<'_>) {}

    fn is_counting(&self) -> bool {
        false
    }
}

impl<S: EventSink> EventSink for std::sync::Arc<S> {
    fn offer(&self, event: Event<'_>) {
        (**self).offer(event);
    }

    fn offer_limit(&self, event: LimitEvent<'_>) {
        (**self).offer_limit(event);
    }

    fn batch<T>(&self, act: impl FnOnce(&mut dyn EventBatch) -> T) -> T {
        (**self).batch(act)
    }

    fn is_counting(&self) -> bool {
        (**self).is_counting()
    }
}
