//! A request that is held, or whose answer has a say in what it is charged.
//!
//! Made by [`super::AdmissionControl::admit`] for such requests alone; all others are done with when
//! they were checked. It owns its entries, because it outlives what they were found in, and its terms,
//! so that a mapping that is replaced meanwhile changes nothing for it.
//!
//! Invariants: what it took is given back if it never gets its turn. Once it was let through, it is
//! settled exactly once: by its answer, or as [`CLIENT_CLOSED_REQUEST`] if nobody waits for that.

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};

use tokio::runtime::Handle;
use tollgate_core::{Descriptor, Entry, Operation, Request};
use tollgate_limiter::{Reply, RuleDecision};

use super::Checker;
use super::open_charge::{DueCharge, DueCharges, OpenCharge};
use super::waiting_room::{FreedTurn, WaitingPlace};
use crate::request::charge_terms::ActiveTerms;

/// The status of a request whose client went away before there was an answer, as nginx has it.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Seeded at random, so that nobody can aim at another's line.
static LINE_HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A request that is held, or whose answer has a say.
#[derive(Debug)]
pub(super) struct PendingRequest<C: Checker> {
    checker: Arc<C>,
    domain: String,
    route: Option<String>,
    descriptors: Vec<OwnedDescriptor>,
    /// Whether it has one of [`Checker::take_request`].
    has_request: bool,
    stage: RequestStage,
}

/// How far a request is.
#[derive(Debug)]
enum RequestStage {
    Waiting(WaitingPlace),
    /// On its way to whoever answers it.
    LetThrough,
    Settled,
}

#[derive(Debug)]
struct OwnedDescriptor {
    entries: Vec<(String, String)>,
    terms: Arc<ActiveTerms>,
    /// Whether the check took something.
    has_taken: bool,
}

impl<C: Checker> PendingRequest<C> {
    pub(super) fn new(
        checker: Arc<C>,
        request: &Request<'_>,
        terms: impl Iterator<Item = Arc<ActiveTerms>>,
        reply: &Reply,
    ) -> Self {
        let own = |entry: &Entry<'_>| (entry.key.to_owned(), entry.value.to_owned());
        let took = |decision: &&RuleDecision| {
            let counts_rejected = || reply.rule(decision).is_some_and(|rule| rule.limit.counts_rejected());
            decision.operation == Operation::Check && (!decision.verdict.is_deny() || counts_rejected())
        };
        let descriptors = request.descriptors.iter().zip(terms).enumerate();
        let descriptors = descriptors.map(|(index, (descriptor, terms))| OwnedDescriptor {
            entries: descriptor.entries.iter().map(own).collect(),
            terms,
            has_taken: reply.decisions.iter().filter(took).any(|decision| decision.descriptor == index),
        });
        Self {
            checker,
            domain: request.domain.to_owned(),
            route: request.route.map(str::to_owned),
            descriptors: descriptors.collect(),
            has_request: false,
            stage: RequestStage::LetThrough,
        }
    }

    /// It has taken one of [`Checker::take_request`], too.
    pub(super) fn took_request(&mut self) {
        self.has_request = true;
    }

    /// The same, waiting for its turn.
    pub(super) fn waiting(self, place: WaitingPlace) -> Self {
        // There is no moving out of what gives back when it is dropped.
        let mut held = self;
        held.stage = RequestStage::Waiting(place);
        held
    }

    /// Waits for its turn.
    pub(super) async fn turn(&mut self) {
        if let RequestStage::Waiting(place) = &mut self.stage {
            place.turn().await;
        }
        self.stage = RequestStage::LetThrough;
    }

    /// What the answer has a say in.
    pub(super) fn open_charges(&self) -> impl Iterator<Item = OpenCharge> {
        let open = |(_, own): &(usize, &OwnedDescriptor)| {
            let terms = &own.terms.terms;
            terms.need_response() && (own.has_taken || !terms.take_at_once())
        };
        let open = self.descriptors.iter().enumerate().filter(open);
        open.map(|(index, own)| OpenCharge::new(index, Arc::clone(&own.terms)))
    }

    /// Nothing more becomes of it.
    pub(super) fn close(mut self) {
        self.stage = RequestStage::Settled;
    }

    /// It got no answer but this status.
    pub(super) fn fail(&self, status: u16) {
        self.settle(self.open_charges().filter_map(|charge| charge.due(status)).collect());
    }

    /// Charges and gives back what is due, without waiting for the store.
    pub(super) fn settle(&self, due: DueCharges) {
        self.settle_and_free(due, None);
    }

    /// The same, after which a turn is free.
    fn settle_and_free(&self, due: DueCharges, turn: Option<FreedTurn>) {
        if due.iter().all(|charge| charge.cost == 0) {
            return;
        }
        let own = |charge: &DueCharge| {
            let entries = self.descriptors.get(charge.descriptor).map(|own| own.entries.clone());
            (*charge, entries.unwrap_or_default())
        };
        let due: Vec<(DueCharge, Vec<(String, String)>)> = due.iter().map(own).collect();
        let (checker, domain, route) = (Arc::clone(&self.checker), self.domain.clone(), self.route.clone());
        detach(async move {
            let entries: Vec<Vec<Entry<'_>>> = due
                .iter()
                .map(|(_, own)| own.iter().map(|(key, value)| Entry { key, value }).collect())
                .collect();
            let descriptors = due.iter().zip(&entries).map(|((charge, _), entries)| {
                Descriptor::new(entries).with_cost(charge.cost).with_operation(charge.operation)
            });
            let descriptors: Vec<Descriptor<'_>> = descriptors.collect();
            let request = Request { route: route.as_deref(), ..Request::new(&domain, &descriptors) };
            checker.settle(&request, checker.now()).await;
            drop(turn);
        });
    }

    fn give_back(&self, turn: FreedTurn) {
        if self.has_request {
            self.checker.give_back_request();
        }
        let taken = self.descriptors.iter().enumerate().filter(|(_, own)| own.has_taken);
        let refund = |(descriptor, _)| DueCharge { descriptor, operation: Operation::Refund, cost: 1 };
        self.settle_and_free(taken.map(refund).collect(), Some(turn));
    }
}

impl<C: Checker> Drop for PendingRequest<C> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, RequestStage::Settled) {
            RequestStage::Waiting(place) => self.give_back(place.give_up()),
            RequestStage::LetThrough => self.fail(CLIENT_CLOSED_REQUEST),
            RequestStage::Settled => {}
        }
    }
}

/// Requests that wait for the same limit on the same entries are in one line.
pub(super) fn line(request: &Request<'_>, reply: &Reply) -> u64 {
    let binding = reply.binding();
    let descriptor = binding.and_then(|decision| request.descriptors.get(decision.descriptor));
    let rule = binding.and_then(|decision| reply.rule(decision)).map(|rule| &rule.path);
    LINE_HASHER.hash_one((request.domain, descriptor.map(|descriptor| descriptor.entries), rule))
}

/// Does what nobody waits for: at once where the store is in this process, and else as a task. It is
/// given up if the runtime has ended.
fn detach(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn(work);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::convert::Infallible;
    use std::time::Duration;

    use http::HeaderMap;
    use tokio::sync::Notify;
    use tokio::time::Instant;
    use tollgate_core::{Micros, Time};
    use tollgate_limiter::{Clock, Limiter, MemoryStore, NoSink};
    use tollgate_rules::{Options, SourceFile};

    use super::*;
    use crate::admission::{Admission, AdmissionControl, LimiterChecker};
    use crate::request::{Action, Fact, HttpRequestFacts, Mapping, PathTemplates};
    use crate::response::ResponseSettings;

    const PACED: &str = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: second, requests_per_unit: 1, algorithm: leaky_bucket, burst: 9 }\n";

    /// Follows the timers, so that a test decides how fast time passes.
    struct PausedClock(Instant);

    impl Clock for PausedClock {
        fn now(&self) -> Time {
            Time::from_secs(1_700_000_000) + Micros::from(self.0.elapsed())
        }
    }

    /// A store that is asked at once and takes its time with what is given back.
    struct SlowToSettle {
        checker: LimiterChecker<MemoryStore, PausedClock, NoSink>,
        /// Lets one of those who settle go on.
        may_settle: Notify,
        has_settled: Notify,
    }

    impl Checker for SlowToSettle {
        type Error = Infallible;

        fn now(&self) -> Time {
            self.checker.now()
        }

        fn calendar(&self) -> Time {
            self.checker.calendar()
        }

        fn responses(&self) -> &ResponseSettings {
            self.checker.responses()
        }

        fn route<'a>(&'a self, _: &'a [u8], _: Option<&'a PathTemplates>) -> Option<Cow<'a, str>> {
            None
        }

        fn passed(&self, _: &str, _: Time) {}

        async fn check(&self, request: &Request<'_>, now: Time, most: Micros) -> Result<Reply, Infallible> {
            self.checker.check(request, now, most).await
        }

        async fn settle(&self, request: &Request<'_>, now: Time) {
            self.may_settle.notified().await;
            self.checker.settle(request, now).await;
            self.has_settled.notify_one();
        }
    }

    fn slow_checker() -> Arc<SlowToSettle> {
        let source = SourceFile { name: "rules.yaml".into(), text: PACED.into() };
        let rules = tollgate_rules::load(vec![source], &Options::default()).unwrap().rules;
        let limiter = Limiter::with(rules, MemoryStore::default(), PausedClock(Instant::now()), NoSink);
        let checker = LimiterChecker { limiter: Arc::new(limiter), responses: ResponseSettings::default() };
        Arc::new(SlowToSettle { checker, may_settle: Notify::new(), has_settled: Notify::new() })
    }

    async fn admit(control: &AdmissionControl, checker: &Arc<SlowToSettle>) -> Admission<SlowToSettle> {
        let headers = HeaderMap::new();
        let facts = HttpRequestFacts {
            peer: None,
            peer_name: None,
            method: "GET",
            target: b"/",
            host: None,
            headers: (&headers).into(),
        };
        control.admit(checker, &facts).await.expect("the mapping denies nothing")
    }

    /// While the store has the charge still, the limiter tells turns that are one too late: whoever comes then takes
    /// the turn that was left, and whoever comes afterwards the last one.
    #[tokio::test(start_paused = true)]
    async fn a_turn_is_free_when_the_store_has_the_charge_back_and_not_before() {
        let checker = slow_checker();
        let mapping = Mapping::new("d", vec![vec![Action::new("k", Fact::Text("x".into()))]]).unwrap();
        let control = AdmissionControl::new(mapping, Duration::from_secs(60));
        let start = Instant::now();
        admit(&control, &checker).await.turn().await;
        let (first, leaving) = (admit(&control, &checker).await, admit(&control, &checker).await);
        drop(leaving);
        let meanwhile = admit(&control, &checker).await;
        checker.may_settle.notify_one();
        checker.has_settled.notified().await;
        let next = admit(&control, &checker).await;
        let mut waits = Vec::new();
        for mut admission in [first, meanwhile, next] {
            waits.push(tokio::spawn(async move {
                admission.turn().await;
                start.elapsed().as_millis()
            }));
        }
        let mut turns = Vec::new();
        for wait in waits {
            turns.push(wait.await.unwrap());
        }
        assert_eq!(turns, [1_000, 2_000, 3_000]);
    }
}
