//! The shared store: a batch of charges in, decisions out, always in time.
//!
//! What is known to be denied is denied at once (`Denials`). Each other
//! charge has a `Place`: a backend, a slot of it, and who keeps it there. A
//! batch whose charges are all in one place, which is the rule, is one call.
//! Others go from place to place in order (`Course`), and give back what they
//! took if a later place denies. Where a place cannot be asked, `Local`
//! decides.
//!
//! Invariant: every call ends by one deadline, which the whole request shares.

mod place;

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{Charge, Key, Micros, OnStoreError, Operation, State, Time};
use tollgate_limiter::Usage;
use tollgate_limiter::store::{CHARGES_USUAL, ChargeSet, Decisions, Store, StoreReply, counts_anyway};

use crate::backend::Backend;
use crate::codec::{self, Outcome, Seen};
use crate::config::{Layout, RedisConfig};
use crate::course::{Course, How, Picks};
use crate::denials::Denials;
use crate::error::{Error, Trouble};
use crate::local::Local;
use crate::question::Question;
use crate::stats::Stats;
use crate::{envoy, keys, mend};
use place::{Job, Keeper, Named, Place, window_end};

/// State in Redis, shared with other nodes.
///
/// It must be asked on a Tokio runtime; every thread that asks gets connections
/// of its own.
#[derive(Debug)]
pub struct RedisStore {
    main: Backend,
    per_second: Option<Backend>,
    prefix: String,
    layout: Layout,
    local: Local,
    denials: Option<Denials>,
    clock: ClockOf,
    stats: Arc<Stats>,
}

/// Whose clock decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockOf {
    Server,
    Caller,
}

/// When a request came, and by when it is answered.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: Time,
    deadline: Instant,
    /// The age of the memory of denials.
    age: u64,
}

/// Who is to be asked.
enum Way<'b, 'a> {
    /// Nobody: it is known.
    Known(Box<StoreReply>),
    /// One place.
    One(Job<'b, 'a>),
    /// One place after the other.
    Several(Box<(Course<'b, 'a>, Named)>),
}

/// Charges decided by the store.
struct Done {
    now: Time,
    decisions: Decisions,
    how: How,
    /// Until when what was taken can be given back without harm.
    give_back_until: Time,
}

impl RedisStore {
    /// A store that connects when it is first asked.
    ///
    /// # Errors
    /// If certificates or keys for TLS cannot be used.
    pub fn new(config: RedisConfig) -> Result<Self, Error> {
        let stats = Arc::new(Stats::default());
        let backend = |endpoint| Backend::new(endpoint, &config.key_prefix, &stats);
        Ok(Self {
            main: backend(&config.main)?,
            per_second: config.per_second.as_ref().map(backend).transpose()?,
            layout: config.layout,
            local: Local::new(config.local),
            denials: Denials::new(config.denial_bytes),
            clock: ClockOf::Server,
            prefix: config.key_prefix,
            stats,
        })
    }

    /// The same, deciding at the `now` that callers bring, not the server's:
    /// for tests and simulations.
    #[must_use]
    pub const fn on_the_callers_clock(mut self) -> Self {
        self.clock = ClockOf::Caller;
        self
    }

    /// What the store counts about itself.
    pub const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// What this node remembers of the store's counters.
    pub fn local_usage(&self) -> Usage {
        self.local.usage()
    }

    /// Drops what has run out of what this node remembers.
    pub fn sweep_local(&self, now: Time) {
        self.local.sweep(self.local.store_time(now));
    }

    /// Whether every endpoint takes a write, and no server is given up. It may
    /// take longer than a request would wait; it is for health, not for requests.
    pub async fn is_well(&self) -> bool {
        for backend in std::iter::once(&self.main).chain(&self.per_second) {
            if !backend.takes_a_write(&self.prefix).await {
                return false;
            }
        }
        !self.stats.is_degraded()
    }

    fn moment(&self, now: Time) -> Moment {
        let main = self.main.timeout;
        let timeout = self.per_second.as_ref().map_or(main, |other| other.timeout.max(main));
        let age = self.denials.as_ref().map_or(0, Denials::age);
        Moment { now, deadline: Instant::now() + timeout, age }
    }

    /// The store's clock, as far as this node knows it.
    fn store_time(&self, moment: Moment) -> Time {
        match self.clock {
            ClockOf::Server => self.local.store_time(moment.now),
            ClockOf::Caller => moment.now,
        }
    }

    fn backend(&self, place: Place) -> &Backend {
        self.per_second.as_ref().filter(|_| place.is_per_second).unwrap_or(&self.main)
    }

    fn locate(&self, key: &Key<'_>, now: Time) -> (String, Place) {
        let is_envoy = self.layout != Layout::Tollgate && envoy::suits(key);
        let keeper = if is_envoy { Keeper::Envoy } else { Keeper::Script };
        let name = if is_envoy { envoy::name(&self.prefix, key, now) } else { keys::name(&self.prefix, key) };
        let is_per_second = self.per_second.is_some() && key.limit.window() == Micros::SECOND;
        let mut place = Place { keeper, is_per_second, slot: None };
        place.slot = self.backend(place).slot(&name);
        (name, place)
    }

    async fn decide(&self, batch: &ChargeSet<'_>, moment: Moment) -> StoreReply {
        match self.way(batch, moment) {
            Way::Known(answer) => *answer,
            Way::One(job) => self.decide_in_one(job, moment).await,
            // Boxed, as all that is rare: a future is as large as its largest
            // part, and is allocated for each request.
            Way::Several(several) => {
                let (course, named) = *several;
                Box::pin(self.decide_in_several(batch, course, named, moment)).await
            }
        }
    }

    fn way<'b, 'a>(&self, batch: &'b ChargeSet<'a>, moment: Moment) -> Way<'b, 'a> {
        let course = self.recall(batch, moment);
        if let Some(course) = &course {
            let open = course.open();
            let rest = course.part(&open);
            if !rest.charges.iter().any(counts_anyway) {
                return Way::Known(Box::new(self.denied_again(batch, moment)));
            }
        }
        let (names, places) = batch.charges.iter().map(|charge| self.locate(&charge.key, moment.now)).unzip();
        let named = Named { names, places };
        match (course, named.only_place()) {
            (None, Some(place)) => Way::One(Job { place, batch, names: named.names, not_after: None }),
            (course, _) => Way::Several(Box::new((course.unwrap_or_else(|| Course::new(batch)), named))),
        }
    }

    /// What is known to be denied, if that refuses the request.
    fn recall<'b, 'a>(&self, batch: &'b ChargeSet<'a>, moment: Moment) -> Option<Course<'b, 'a>> {
        let denials = self.denials.as_ref()?;
        let now = self.store_time(moment);
        let mut course = Course::new(batch);
        for (index, charge) in batch.charges.iter().enumerate() {
            if let Some(decision) = denials.recall(charge, now) {
                course.settle(&[index], &[decision], How::Kept);
            }
        }
        course.is_denied().then_some(course)
    }

    /// The answer where all that is asked is known: what denies, and for the
    /// others what this node last saw.
    fn denied_again(&self, batch: &ChargeSet<'_>, moment: Moment) -> StoreReply {
        let now = self.store_time(moment);
        let decisions = self.local.peek(batch, now);
        let mut answer = StoreReply { now, decisions, remembered: true, ..StoreReply::default() };
        if let Some(denials) = &self.denials {
            for (charge, decision) in batch.charges.iter().zip(&mut answer.decisions) {
                *decision = denials.recall(charge, now).unwrap_or(*decision);
            }
        }
        self.stats.denials_remembered.add(1);
        answer
    }

    async fn decide_in_one(&self, job: Job<'_, '_>, moment: Moment) -> StoreReply {
        let batch = job.batch;
        match self.ask(job, moment).await {
            Ok(done) => StoreReply { now: done.now, decisions: done.decisions, ..StoreReply::default() },
            Err(_) => {
                let now = self.store_time(moment);
                let degraded = smallvec::smallvec![true; batch.charges.len()];
                StoreReply { now, decisions: self.local.check(batch, now), degraded, ..StoreReply::default() }
            }
        }
    }

    async fn decide_in_several<'a>(
        &self,
        batch: &ChargeSet<'a>,
        mut course: Course<'_, 'a>,
        named: Named,
        moment: Moment,
    ) -> StoreReply {
        let open = course.open();
        let mut now = self.store_time(moment);
        let mut until: SmallVec<[(Place, Time); CHARGES_USUAL]> = SmallVec::new();
        for place in named.order(&open) {
            let picks = named.at(place, &open);
            let part = course.part(&picks);
            let job = Job { place, batch: &part, names: named.pick(&picks), not_after: None };
            match self.ask(job, moment).await {
                Ok(done) => {
                    now = done.now;
                    until.push((place, done.give_back_until));
                    course.settle(&picks, &done.decisions, done.how);
                }
                Err(_) => {
                    let decisions = self.local.check(&part, self.store_time(moment));
                    course.settle(&picks, &decisions, How::Degraded);
                }
            }
        }
        let due = course.to_give_back();
        for (place, until) in until {
            let picks = named.at(place, &due);
            self.give_back(batch, &mut course, (place, until, picks, &named), moment).await;
        }
        let (decisions, degraded) = course.finish();
        StoreReply { now, decisions, degraded, ..StoreReply::default() }
    }

    /// Gives back what was taken at a place although the request is denied.
    async fn give_back(
        &self,
        batch: &ChargeSet<'_>,
        course: &mut Course<'_, '_>,
        (place, until, picks, named): (Place, Time, Picks, &Named),
        moment: Moment,
    ) {
        let taken = picks.iter().filter_map(|pick| batch.charges.get(*pick));
        let refunds = taken.map(|charge| Charge { operation: Operation::Refund, ..*charge });
        let refund = ChargeSet { charges: refunds.collect(), ..ChargeSet::default() };
        if refund.charges.is_empty() {
            return;
        }
        self.stats.given_back.add(u64::try_from(picks.len()).unwrap_or(0));
        let job = Job { place, batch: &refund, names: named.pick(&picks), not_after: Some(until) };
        // What cannot be given back stays taken: fewer pass, never more.
        let Ok(done) = self.ask(job, moment).await else { return };
        for (pick, decision) in picks.iter().zip(&done.decisions) {
            course.gave_back(*pick, *decision);
        }
    }

    /// Has the store decide charges that are all in one place.
    async fn ask(&self, job: Job<'_, '_>, moment: Moment) -> Result<Done, Trouble> {
        if let Some(denials) = &self.denials {
            let refunds = job.batch.charges.iter().filter(|charge| charge.operation == Operation::Refund);
            refunds.for_each(|charge| denials.forget(&charge.key));
        }
        let done = match job.place.keeper {
            Keeper::Script => self.ask_script(&job, moment).await?,
            Keeper::Envoy => Box::pin(self.ask_envoy(&job, moment)).await?,
        };
        if let Some(denials) = &self.denials {
            for (charge, decision) in job.batch.charges.iter().zip(&done.decisions) {
                denials.remember(charge, decision, done.now, moment.age);
            }
        }
        Ok(done)
    }

    async fn ask_script(&self, job: &Job<'_, '_>, moment: Moment) -> Result<Done, Trouble> {
        let seen = self.run_script(job, moment).await?;
        match codec::decide(job.batch, &seen, &job.names) {
            Ok(outcome) => self.settle(job, moment, seen.now, outcome),
            Err(unreadable) => Box::pin(self.mend_and_ask(job, moment, unreadable)).await,
        }
    }

    async fn mend_and_ask(
        &self,
        job: &Job<'_, '_>,
        moment: Moment,
        unreadable: Vec<usize>,
    ) -> Result<Done, Trouble> {
        let names: Vec<_> = unreadable.iter().filter_map(|charge| job.names.get(*charge)).collect();
        mend::delete(self.backend(job.place), &names, moment.deadline, &self.stats).await?;
        let seen = self.run_script(job, moment).await?;
        let outcome = codec::decide(job.batch, &seen, &job.names).map_err(|_| Trouble::BadState)?;
        self.settle(job, moment, seen.now, outcome)
    }

    async fn run_script(&self, job: &Job<'_, '_>, moment: Moment) -> Result<Seen, Trouble> {
        let now = (self.clock == ClockOf::Caller).then_some(moment.now);
        let question = Question::new(job.batch, job.names.clone(), job.not_after);
        self.backend(job.place).ask(question, now, moment.deadline).await
    }

    /// Learns what a script did.
    fn settle(
        &self,
        job: &Job<'_, '_>,
        moment: Moment,
        now: Time,
        mut outcome: Outcome,
    ) -> Result<Done, Trouble> {
        if job.not_after.is_some_and(|until| now > until) {
            return Err(Trouble::Other);
        }
        self.local.learn_clock(moment.now, now);
        let mut give_back_until = Time::MAX;
        for (index, charge) in job.batch.charges.iter().enumerate() {
            let Some(state) = outcome.take_state(index) else { continue };
            if let Some(state) = &state {
                give_back_until = give_back_until.min(state.deadline()).min(window_end(&charge.key, now));
            }
            self.learn(charge, state, now);
        }
        let give_back_until = give_back_until.before(Micros::new(1));
        Ok(Done { now, decisions: outcome.decisions, how: How::Taken, give_back_until })
    }

    async fn ask_envoy(&self, job: &Job<'_, '_>, moment: Moment) -> Result<Done, Trouble> {
        let jitter_max_s = if let Layout::Envoy { jitter_max_s } = self.layout { jitter_max_s } else { 0 };
        let (charges, backend) = (&job.batch.charges, self.backend(job.place));
        let name = job.names.first().map(String::as_str).unwrap_or_default();
        let commands = envoy::commands(charges, &job.names, jitter_max_s);
        let answers = backend.commands(name, &commands, moment.deadline).await?;
        if let Some(commands) = envoy::overdrawn(charges, &job.names, &answers) {
            backend.commands(name, &commands, moment.deadline).await?;
        }
        let decided = envoy::decisions(charges, answers, moment.now).ok_or(Trouble::Other)?;
        let mut decisions = Decisions::new();
        for (charge, (decision, state)) in charges.iter().zip(decided) {
            decisions.push(decision);
            self.learn(charge, state, moment.now);
        }
        Ok(Done { now: moment.now, decisions, how: How::Kept, give_back_until: Time::EPOCH })
    }

    /// Remembers what the store now has under a charge's key.
    fn learn(&self, charge: &Charge<'_>, state: Option<State>, now: Time) {
        if charge.limit().on_store_error() == OnStoreError::Local || self.denials.is_some() {
            self.local.learn(charge, state, now);
        }
    }
}

impl Store for RedisStore {
    async fn check(&self, batch: &ChargeSet<'_>, now: Time) -> StoreReply {
        if batch.charges.is_empty() {
            return StoreReply { now, ..StoreReply::default() };
        }
        self.stats.requests.add(1);
        let answer = self.decide(batch, self.moment(now)).await;
        self.stats.degraded.add(u64::from(!answer.degraded.is_empty()));
        answer
    }

    async fn reset(&self, key: &Key<'_>, now: Time) -> bool {
        let moment = self.moment(now);
        let (name, place) = self.locate(key, moment.now);
        let mut delete = redis::Pipeline::new();
        delete.cmd("DEL").arg(&name);
        let deleted = self.backend(place).commands(&name, &delete, moment.deadline).await;
        if let Some(denials) = &self.denials {
            denials.forget(key);
        }
        let was_here = self.local.forget(key);
        match deleted.as_deref() {
            Ok([redis::Value::Int(count)]) => *count > 0,
            Ok(_) | Err(_) => was_here,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_on_its_way_is_small() {
        let config = RedisConfig::new("redis://127.0.0.1:1".parse().expect("an address"));
        let store = RedisStore::new(config).expect("it needs no certificates");
        let batch = ChargeSet::default();
        let bytes = size_of_val(&store.check(&batch, Time::EPOCH));
        println!("check {bytes}");
        assert!(bytes <= 1_024, "{bytes} bytes are moved for each request");
    }
}
