//! The shared store: a charge set in, decisions out, always in time.
//!
//! What is known to be denied is denied at once (`DenialMemory`). Each other
//! charge has a `Placement`. Most requests have one placement for all charges and
//! take one call. Others ask their placements in order (`MultiSlotCheck`), and
//! give back what they took if a later one denies. Where a server cannot be
//! asked, `LocalFallback` decides.
//!
//! Invariant: every request ends by one deadline, which all its calls share.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{Charge, Key, Micros, OnStoreError, Operation, State, Time};
use tollgate_limiter::charge_set::{CHARGES_USUAL, ChargeSet, Decisions, counts_anyway};
use tollgate_limiter::store::{Store, StoreReply};
use tollgate_limiter::{Load, Usage};

use crate::calls;
use crate::calls::endpoint_client::EndpointClient;
use crate::calls::heartbeat::Heartbeat;
use crate::calls::script_reply::Replay;
use crate::calls::shared_load::DomainLoads;
use crate::config::{Layout, RedisConfig};
use crate::error::{Error, StoreFailure};
use crate::overrides::SharedOverrides;
use crate::placement::denial_memory::DenialMemory;
use crate::placement::keys::RedisKeys;
use crate::placement::local_fallback::LocalFallback;
use crate::placement::multi_slot::{ChargeIndexes, DecidedBy, MultiSlotCheck};
use crate::placement::{
    ChargePlacements, CounterFormat, PlacedCharges, Placement, envoy_layout, keys, window_end,
};
use crate::stats::Stats;

/// State in Redis, shared with other nodes.
///
/// It needs a Tokio runtime; every thread that uses it gets connections of its
/// own.
#[derive(Debug)]
pub struct RedisStore {
    main: Arc<EndpointClient>,
    per_second: Option<EndpointClient>,
    prefix: String,
    layout: Layout,
    fallback: LocalFallback,
    denials: Option<DenialMemory>,
    clock: ClockSource,
    heartbeat: Arc<Heartbeat>,
    stats: Arc<Stats>,
}

/// Whose clock decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockSource {
    Server,
    Caller,
}

/// What all calls for one request share.
#[derive(Debug, Clone, Copy)]
struct CheckContext {
    /// When it came, on this process's clock.
    now: Time,
    deadline: Instant,
    denials_version: u64,
}

/// How a request will be decided.
enum CheckPlan<'b, 'a> {
    /// It is known to be denied.
    Remembered(Box<StoreReply>),
    /// In one call.
    OneCall(PlacedCharges<'b, 'a>),
    /// In several.
    MultiSlot(Box<(MultiSlotCheck<'b, 'a>, ChargePlacements)>),
}

/// What the store decided about charges that have one placement.
struct PlacementReply {
    now: Time,
    decisions: Decisions,
    decided_by: DecidedBy,
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
        let client = |endpoint| EndpointClient::new(endpoint, &config.key_prefix, &stats);
        let main = Arc::new(client(&config.main)?);
        let key = keys::nodes(&config.key_prefix);
        let heartbeat = Heartbeat::new(Arc::clone(&main), key, config.heartbeat, Arc::clone(&stats));
        Ok(Self {
            main,
            heartbeat,
            per_second: config.per_second.as_ref().map(client).transpose()?,
            layout: config.layout,
            fallback: LocalFallback::new(config.local),
            denials: DenialMemory::new(config.denial_bytes),
            clock: ClockSource::Server,
            prefix: config.key_prefix,
            stats,
        })
    }

    /// The same, deciding at the `now` of callers instead of the server's: for
    /// tests and simulations.
    #[must_use]
    pub const fn on_the_callers_clock(mut self) -> Self {
        self.clock = ClockSource::Caller;
        self
    }

    /// Tells the other nodes that this one is there, now and from time to time. It
    /// needs a Tokio runtime; the first request does the same.
    pub fn announce(&self) {
        self.heartbeat.keep_beating();
    }

    /// Tells the other nodes how loaded this one is, by domain; how they are, if the
    /// store answers.
    pub async fn share_load(&self, own: &[(Option<String>, Load)]) -> Option<DomainLoads> {
        let key = keys::load(&self.prefix);
        calls::shared_load::share(&self.main, &key, self.heartbeat.node(), own).await
    }

    /// What operators have bent, for all nodes on the main endpoint.
    pub fn overrides(&self) -> SharedOverrides {
        SharedOverrides::new(Arc::clone(&self.main), &self.prefix)
    }

    /// What the store counts about itself.
    pub const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// What this node remembers of the store's counters.
    pub fn local_usage(&self) -> Usage {
        self.fallback.usage()
    }

    /// Drops expired states from what this node remembers.
    pub fn sweep_local(&self, now: Time) {
        self.fallback.sweep(self.fallback.store_time(now));
    }

    /// Whether every endpoint takes a write and no circuit breaker is open. It
    /// may take longer than a request would wait; it is for health checks.
    pub async fn is_well(&self) -> bool {
        for client in std::iter::once(&*self.main).chain(&self.per_second) {
            if !client.takes_a_write(&self.prefix).await {
                return false;
            }
        }
        !self.stats.is_degraded()
    }

    fn context(&self, now: Time) -> CheckContext {
        let main = self.main.timeout;
        let timeout = self.per_second.as_ref().map_or(main, |other| other.timeout.max(main));
        let denials_version = self.denials.as_ref().map_or(0, DenialMemory::version);
        CheckContext { now, deadline: Instant::now() + timeout, denials_version }
    }

    /// The store's clock, as far as this node knows it.
    fn store_time(&self, context: CheckContext) -> Time {
        match self.clock {
            ClockSource::Server => self.fallback.store_time(context.now),
            ClockSource::Caller => context.now,
        }
    }

    fn client(&self, placement: Placement) -> &EndpointClient {
        self.per_second.as_ref().filter(|_| placement.is_per_second).unwrap_or(&self.main)
    }

    fn place(&self, key: &Key<'_>, now: Time) -> (String, Placement) {
        let is_envoy = self.layout != Layout::Tollgate && envoy_layout::fits(key);
        let (format, name) = if is_envoy {
            (CounterFormat::Envoy, envoy_layout::name(&self.prefix, key, now))
        } else {
            (CounterFormat::Script, keys::name(&self.prefix, key))
        };
        let is_per_second = self.per_second.is_some() && key.limit.window() == Micros::SECOND;
        let mut placement = Placement { format, is_per_second, slot: None };
        placement.slot = self.client(placement).slot(&name);
        (name, placement)
    }

    async fn decide(&self, charge_set: &ChargeSet<'_>, context: CheckContext) -> StoreReply {
        match self.plan(charge_set, context) {
            CheckPlan::Remembered(reply) => *reply,
            CheckPlan::OneCall(placed) => self.decide_in_one(placed, context).await,
            // Boxed, as all that is rare: a future is as large as its largest
            // part, and is allocated for each request.
            CheckPlan::MultiSlot(multi_slot) => {
                let (check, placements) = *multi_slot;
                Box::pin(self.decide_in_several(charge_set, check, placements, context)).await
            }
        }
    }

    fn plan<'b, 'a>(&self, charge_set: &'b ChargeSet<'a>, context: CheckContext) -> CheckPlan<'b, 'a> {
        let denied = self.recall(charge_set, context);
        if let Some(check) = &denied {
            let rest = check.part(&check.open());
            if !rest.charges.iter().any(counts_anyway) {
                return CheckPlan::Remembered(Box::new(self.denied_again(charge_set, context)));
            }
        }
        let places = charge_set.charges.iter().map(|charge| self.place(&charge.key, context.now));
        let (keys, placements) = places.unzip();
        let placements = ChargePlacements { keys, placements };
        match (denied, placements.single()) {
            (None, Some(placement)) => CheckPlan::OneCall(PlacedCharges {
                placement,
                charge_set,
                keys: placements.keys,
                not_after: None,
            }),
            (denied, _) => {
                let check = denied.unwrap_or_else(|| MultiSlotCheck::new(charge_set));
                CheckPlan::MultiSlot(Box::new((check, placements)))
            }
        }
    }

    /// The charges that are known to be denied, if they deny the request.
    fn recall<'b, 'a>(
        &self,
        charge_set: &'b ChargeSet<'a>,
        context: CheckContext,
    ) -> Option<MultiSlotCheck<'b, 'a>> {
        let denials = self.denials.as_ref()?;
        let now = self.store_time(context);
        let mut check = MultiSlotCheck::new(charge_set);
        for (index, charge) in charge_set.charges.iter().enumerate() {
            if let Some(decision) = denials.recall(charge, now) {
                check.settle(&[index], &[decision], DecidedBy::EnvoyOrMemory);
            }
        }
        check.is_denied().then_some(check)
    }

    /// The reply from memory alone: the denials, and what this node last saw of
    /// the other charges.
    fn denied_again(&self, charge_set: &ChargeSet<'_>, context: CheckContext) -> StoreReply {
        let now = self.store_time(context);
        let decisions = self.fallback.peek(charge_set, now);
        let mut reply = StoreReply { now, decisions, remembered: true, ..StoreReply::default() };
        if let Some(denials) = &self.denials {
            for (charge, decision) in charge_set.charges.iter().zip(&mut reply.decisions) {
                *decision = denials.recall(charge, now).unwrap_or(*decision);
            }
        }
        self.stats.denials_remembered.add(1);
        reply
    }

    async fn decide_in_one(&self, placed: PlacedCharges<'_, '_>, context: CheckContext) -> StoreReply {
        let charge_set = placed.charge_set;
        match self.ask(placed, context).await {
            Ok(reply) => StoreReply { now: reply.now, decisions: reply.decisions, ..StoreReply::default() },
            Err(_) => {
                let now = self.store_time(context);
                let degraded = smallvec::smallvec![true; charge_set.charges.len()];
                let decisions = self.fallback.check(charge_set, now, self.stats.nodes());
                StoreReply { now, decisions, degraded, ..StoreReply::default() }
            }
        }
    }

    async fn decide_in_several<'a>(
        &self,
        charge_set: &ChargeSet<'a>,
        mut check: MultiSlotCheck<'_, 'a>,
        placements: ChargePlacements,
        context: CheckContext,
    ) -> StoreReply {
        let open = check.open();
        let mut now = self.store_time(context);
        let mut until: SmallVec<[(Placement, Time); CHARGES_USUAL]> = SmallVec::new();
        for placement in placements.in_order(&open) {
            let indexes = placements.at(placement, &open);
            let part = check.part(&indexes);
            let keys = placements.keys_of(&indexes);
            let placed = PlacedCharges { placement, charge_set: &part, keys, not_after: None };
            match self.ask(placed, context).await {
                Ok(reply) => {
                    now = reply.now;
                    until.push((placement, reply.give_back_until));
                    check.settle(&indexes, &reply.decisions, reply.decided_by);
                }
                Err(_) => {
                    let decisions = self.fallback.check(&part, self.store_time(context), self.stats.nodes());
                    check.settle(&indexes, &decisions, DecidedBy::Fallback);
                }
            }
        }
        let due = check.to_give_back();
        for (placement, until) in until {
            let indexes = placements.at(placement, &due);
            let placed = (placement, placements.keys_of(&indexes), until);
            self.give_back(&mut check, &indexes, placed, context).await;
        }
        let (mut decisions, degraded) = check.finish();
        if charge_set.is_denied(&decisions) {
            for (charge, decision) in charge_set.charges.iter().zip(&mut decisions) {
                // What was counted although the request is denied may deny the next one.
                if counts_anyway(charge) && !decision.verdict.is_deny() {
                    decision.blocked_for = self.fallback.blocked_for(charge, now);
                }
            }
        }
        StoreReply { now, decisions, degraded, ..StoreReply::default() }
    }

    /// Gives back what charges of one placement took although the request is
    /// denied.
    async fn give_back(
        &self,
        check: &mut MultiSlotCheck<'_, '_>,
        indexes: &ChargeIndexes,
        (placement, keys, until): (Placement, RedisKeys, Time),
        context: CheckContext,
    ) {
        let taken = indexes.iter().filter_map(|index| check.charge(*index));
        let refunds = taken.map(|charge| Charge { operation: Operation::Refund, ..*charge });
        let refund = ChargeSet { charges: refunds.collect(), ..ChargeSet::default() };
        if refund.charges.is_empty() {
            return;
        }
        self.stats.given_back.add(u64::try_from(indexes.len()).unwrap_or(0));
        let placed = PlacedCharges { placement, charge_set: &refund, keys, not_after: Some(until) };
        // What cannot be given back stays taken: fewer pass, never more.
        let Ok(reply) = self.ask(placed, context).await else { return };
        for (index, decision) in indexes.iter().zip(&reply.decisions) {
            check.gave_back(*index, *decision);
        }
    }

    /// Has a server decide charges that have one placement.
    async fn ask(
        &self,
        placed: PlacedCharges<'_, '_>,
        context: CheckContext,
    ) -> Result<PlacementReply, StoreFailure> {
        let charges = &placed.charge_set.charges;
        if let Some(denials) = &self.denials {
            let refunds = charges.iter().filter(|charge| charge.operation == Operation::Refund);
            refunds.for_each(|charge| denials.forget(&charge.key));
        }
        let reply = match placed.placement.format {
            CounterFormat::Script => self.ask_script(&placed, context).await?,
            CounterFormat::Envoy => Box::pin(self.ask_envoy(&placed, context)).await?,
        };
        if let Some(denials) = &self.denials {
            for (charge, decision) in charges.iter().zip(&reply.decisions) {
                // Charges that share a counter are denied together, not each by itself.
                if charges.iter().filter(|other| other.key == charge.key).count() > 1 {
                    continue;
                }
                denials.remember(charge, decision, reply.now, context.denials_version);
            }
        }
        Ok(reply)
    }

    async fn ask_script(
        &self,
        placed: &PlacedCharges<'_, '_>,
        context: CheckContext,
    ) -> Result<PlacementReply, StoreFailure> {
        let now = (self.clock == ClockSource::Caller).then_some(context.now);
        let client = self.client(placed.placement);
        let replay = calls::decide(client, placed, now, context.deadline, &self.stats).await?;
        self.learn_from_script(placed, context, replay)
    }

    /// Learns what a script did.
    fn learn_from_script(
        &self,
        placed: &PlacedCharges<'_, '_>,
        context: CheckContext,
        mut replay: Replay,
    ) -> Result<PlacementReply, StoreFailure> {
        let now = replay.now;
        if placed.not_after.is_some_and(|until| now > until) {
            return Err(StoreFailure::Other);
        }
        self.fallback.learn_clock(context.now, now);
        let mut give_back_until = Time::MAX;
        for (index, charge) in placed.charge_set.charges.iter().enumerate() {
            let Some(state) = replay.take_state(index) else { continue };
            if let Some(state) = &state {
                give_back_until = give_back_until.min(state.deadline()).min(window_end(&charge.key, now));
            }
            self.learn(charge, state, now);
        }
        let give_back_until = give_back_until.before(Micros::new(1));
        let decisions = replay.decisions;
        Ok(PlacementReply { now, decisions, decided_by: DecidedBy::Script, give_back_until })
    }

    async fn ask_envoy(
        &self,
        placed: &PlacedCharges<'_, '_>,
        context: CheckContext,
    ) -> Result<PlacementReply, StoreFailure> {
        let jitter_max_s = if let Layout::Envoy { jitter_max_s } = self.layout { jitter_max_s } else { 0 };
        let (charges, client) = (&placed.charge_set.charges, self.client(placed.placement));
        let key = placed.keys.first().map(String::as_str).unwrap_or_default();
        let commands = envoy_layout::commands(charges, &placed.keys, jitter_max_s);
        let replies = client.run_commands(key, &commands, context.deadline).await?;
        if let Some(commands) = envoy_layout::undo_excess_refunds(charges, &placed.keys, &replies) {
            client.run_commands(key, &commands, context.deadline).await?;
        }
        let now = context.now;
        let decided = envoy_layout::decisions(charges, replies, now).ok_or(StoreFailure::Other)?;
        let mut decisions = Decisions::new();
        for (charge, (decision, state)) in charges.iter().zip(decided) {
            decisions.push(decision);
            self.learn(charge, state, now);
        }
        let (decided_by, give_back_until) = (DecidedBy::EnvoyOrMemory, Time::EPOCH);
        Ok(PlacementReply { now, decisions, decided_by, give_back_until })
    }

    /// Remembers what the store now has under a charge's key.
    fn learn(&self, charge: &Charge<'_>, state: Option<State>, now: Time) {
        if charge.limit().on_store_error() == OnStoreError::Local || self.denials.is_some() {
            self.fallback.learn(charge, state, now);
        }
    }
}

impl Store for RedisStore {
    async fn check(&self, charge_set: &ChargeSet<'_>, now: Time) -> StoreReply {
        if charge_set.charges.is_empty() {
            return StoreReply { now, ..StoreReply::default() };
        }
        self.stats.requests.add(1);
        self.announce();
        let reply = self.decide(charge_set, self.context(now)).await;
        self.stats.degraded.add(u64::from(!reply.degraded.is_empty()));
        reply
    }

    async fn reset(&self, key: &Key<'_>, now: Time) -> bool {
        let context = self.context(now);
        let (name, placement) = self.place(key, now);
        let mut delete = redis::Pipeline::new();
        delete.cmd("DEL").arg(&name);
        let deleted = self.client(placement).run_commands(&name, &delete, context.deadline).await;
        if let Some(denials) = &self.denials {
            denials.forget(key);
        }
        let was_here = self.fallback.reset(key);
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
        let charge_set = ChargeSet::default();
        let bytes = size_of_val(&store.check(&charge_set, Time::EPOCH));
        println!("check {bytes}");
        assert!(bytes <= 1_024, "{bytes} bytes are moved for each request");
    }
}
