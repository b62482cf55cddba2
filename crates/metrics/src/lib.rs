//! What an operator sees: counters for Prometheus, `StatsD` and `/stats`.
//!
//! The limiter offers every decision to [`Metrics`], which only adds to
//! counters; adapters report calls, and the rule source reports loads. Pages
//! and exporters read sums.
//!
//! | module | what it holds |
//! |---|---|
//! | `hits` | what a decision adds to the reference's counters |
//! | `counters` | striped counters, which threads add to without contention |
//! | `table` | the counters of every rule in force |
//! | `paths` | paths with callers' values, and their bound |
//! | `latency` | how long calls take |
//! | `levels` | what the levels around the rules decide |
//! | `stats` | what the store and the history say about themselves |
//! | `snapshot` | the sums under the reference's dotted names |
//! | [`mapper`], `render`, `exposition`, `process` | the page for Prometheus |
//! | [`statsd`] | lines for `StatsD` and `DogStatsD` |
//!
//! Invariants: [`Metrics::offer`] never waits, and allocates nothing for a rule
//! whose path is the one written; memory is bounded whatever callers send.
//!
//! Deliberately not here: history, and listeners that serve the page.

mod config;
mod counters;
mod exposition;
mod hits;
mod latency;
mod levels;
pub mod mapper;
mod paths;
mod process;
mod render;
mod snapshot;
mod stats;
pub mod statsd;
mod table;
mod template;

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_core::ruleset::{Free, override_metric_path};
use tollgate_core::{Entry, Micros, Outcome, RuleId, RuleSet, Time};
use tollgate_limiter::{Event, EventSink, LimitEvent, RuleDecision};

use counters::{StripedCounters, ThreadStripe, own_stripes_for};
use hits::{Hit, HitCounts};
use latency::Latency;
use levels::LevelCounters;
use paths::{PathCounters, VALUE_MAX, cut, sanitised, shown_entries};
use table::RuleTable;

pub use config::{MetricsConfig, Mogrifier, PATHS_MAX, StatsdConfig, StatsdDialect, StatsdProtocol};
pub use exposition::CONTENT_TYPE;
pub use levels::TrafficLevel;
pub use mapper::Mapper;
pub use stats::{DeferStats, HistoryStats, NodeStats, RemoteStats, StoreStats, UpstreamStats};

/// So many domains without rules are counted by name, which makes a name in the
/// reference's series; more callers than this with a wrong domain are an attack.
const UNKNOWN_DOMAINS_MAX: usize = 100;
/// So many rules can be counted that are met before their table is there;
/// a larger set loses counts for the moment of a reload.
const STRAYS_MAX: usize = 10_000;

/// A page that somebody is still reading is handed to further readers for this
/// long: many slow readers then hold a page a second, and not one each.
const PAGE_SHARED: Micros = Micros::SECOND;

/// A kind of call, as durations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `ShouldRateLimit` over gRPC.
    ShouldRateLimit,
    /// A health check over gRPC.
    HealthCheck,
    /// A check over HTTP.
    Http,
    /// A command over RESP.
    Resp,
}

/// Why a call got an error and no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// The request made no sense, or there are no rules yet.
    Service,
    /// The store did not decide; the reference calls it `redis_error`.
    Store,
}

/// Asks for the load of each domain.
type LoadLook = Box<dyn Fn() -> Vec<(String, f64)> + Send + Sync>;

/// All counters of this process.
pub struct Metrics {
    /// Tells it from others of this process.
    id: usize,
    near_ratio: f32,
    mapper: Mapper,
    table: ArcSwap<RuleTable>,
    /// Rules met while their table is being built, by path.
    strays: PathCounters,
    /// Counters whose paths hold callers' values.
    paths: PathCounters,
    /// Domains without rules.
    domains: PathCounters,
    /// Domains without rules for which there was no room.
    other_domains: StripedCounters,
    requests: StripedCounters,
    levels: LevelCounters,
    should_rate_limit: Latency,
    health_check: Latency,
    http: Latency,
    resp: Latency,
    loads: AtomicU64,
    failed_loads: AtomicU64,
    last_load_failed: AtomicBool,
    settings_failed: AtomicBool,
    loaded_at_us: AtomicU64,
    global_shadow: AtomicU64,
    service_errors: AtomicU64,
    store_errors: AtomicU64,
    store: OnceLock<Box<dyn Fn() -> StoreStats + Send + Sync>>,
    history: OnceLock<Box<dyn Fn() -> Option<HistoryStats> + Send + Sync>>,
    gateway: OnceLock<Box<dyn Fn() -> Vec<UpstreamStats> + Send + Sync>>,
    access_log: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    domain_loads: OnceLock<LoadLook>,
    deferred: OnceLock<Box<dyn Fn() -> Option<DeferStats> + Send + Sync>>,
    /// The page rendered last, if somebody still reads it, and when that was.
    last_page: Mutex<(Time, Weak<String>)>,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(config: MetricsConfig) -> Self {
        static LAST_ID: AtomicUsize = AtomicUsize::new(0);
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            near_ratio: config.near_limit_ratio,
            mapper: config.mapper,
            table: ArcSwap::default(),
            strays: PathCounters::new(STRAYS_MAX),
            paths: PathCounters::new(config.paths_max),
            domains: PathCounters::new(UNKNOWN_DOMAINS_MAX),
            other_domains: StripedCounters::single(),
            requests: StripedCounters::new(own_stripes_for(1)),
            levels: LevelCounters::new(),
            should_rate_limit: Latency::new(),
            health_check: Latency::new(),
            http: Latency::new(),
            resp: Latency::new(),
            loads: AtomicU64::new(0),
            failed_loads: AtomicU64::new(0),
            last_load_failed: AtomicBool::new(false),
            settings_failed: AtomicBool::new(false),
            loaded_at_us: AtomicU64::new(0),
            global_shadow: AtomicU64::new(0),
            service_errors: AtomicU64::new(0),
            store_errors: AtomicU64::new(0),
            store: OnceLock::new(),
            history: OnceLock::new(),
            gateway: OnceLock::new(),
            access_log: OnceLock::new(),
            domain_loads: OnceLock::new(),
            deferred: OnceLock::new(),
            last_page: Mutex::default(),
        }
    }

    /// Other rules are in force; `rules` is what the limiter now answers with,
    /// the very same set. Call it right after putting them in force, one call
    /// at a time.
    pub fn rules_loaded(&self, rules: Arc<RuleSet>, now: Time) {
        let table = RuleTable::new(rules, &self.table.load(), &self.strays);
        self.table.store(Arc::new(table));
        self.loaded_at_us.store(now.get(), Ordering::Relaxed);
        self.last_load_failed.store(false, Ordering::Relaxed);
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Rules were refused, and those before them stay.
    pub fn rules_refused(&self) {
        self.last_load_failed.store(true, Ordering::Relaxed);
        self.failed_loads.fetch_add(1, Ordering::Relaxed);
    }

    /// The file of settings was read again and is in force.
    pub fn settings_loaded(&self) {
        self.settings_failed.store(false, Ordering::Relaxed);
    }

    /// The file of settings was refused, and what was in force stays.
    pub fn settings_refused(&self) {
        self.settings_failed.store(true, Ordering::Relaxed);
    }

    /// Has `look` look at the store whenever somebody wants to know about it.
    /// Only the first one is asked.
    pub fn watch_store(&self, look: impl Fn() -> StoreStats + Send + Sync + 'static) {
        // A second store would be a mistake of the wiring, and the first is as good.
        drop(self.store.set(Box::new(look)));
    }

    /// Asks `status` how history is doing whenever somebody wants to know.
    pub fn watch_history(&self, status: impl Fn() -> Option<HistoryStats> + Send + Sync + 'static) {
        // As for the store.
        drop(self.history.set(Box::new(status)));
    }

    /// Asks `look` how the gateway's upstreams are doing whenever somebody wants to know.
    pub fn watch_gateway(&self, look: impl Fn() -> Vec<UpstreamStats> + Send + Sync + 'static) {
        // As for the store.
        drop(self.gateway.set(Box::new(look)));
    }

    /// Asks how many lines of the access log were dropped whenever somebody wants to know.
    pub fn watch_access_log(&self, dropped: impl Fn() -> u64 + Send + Sync + 'static) {
        // As for the store.
        drop(self.access_log.set(Box::new(dropped)));
    }

    /// Asks for the load of each domain, from 0 to 1, whenever somebody wants to know.
    pub fn watch_load(&self, look: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static) {
        // As for the store.
        drop(self.domain_loads.set(Box::new(look)));
    }

    /// Asks how requests that are sent later are doing whenever somebody wants to know.
    pub fn watch_deferred(&self, look: impl Fn() -> Option<DeferStats> + Send + Sync + 'static) {
        // As for the store.
        drop(self.deferred.set(Box::new(look)));
    }

    /// A call was answered, in that time.
    pub fn served(&self, call: Call, took: Micros) {
        self.served_together(call, took, 1);
    }

    /// So many calls were answered together, each in that time.
    pub fn served_together(&self, call: Call, took: Micros, calls: u64) {
        let latency = match call {
            Call::ShouldRateLimit => &self.should_rate_limit,
            Call::HealthCheck => &self.health_check,
            Call::Http => &self.http,
            Call::Resp => &self.resp,
        };
        latency.add_each(took, calls);
    }

    /// A call got an error and no answer.
    pub fn failed(&self, failure: CallFailure) {
        let counter = match failure {
            CallFailure::Service => &self.service_errors,
            CallFailure::Store => &self.store_errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A request passed only because nothing is enforced at all.
    fn global_shadow(&self) {
        self.global_shadow.fetch_add(1, Ordering::Relaxed);
    }

    /// The page for Prometheus; see [`CONTENT_TYPE`]. Takes a moment if there
    /// are many rules, so not for a thread that answers requests.
    ///
    /// Rendered once for readers who come together, and for those who come
    /// within a second while somebody is still reading it.
    pub fn page(&self, now: Time) -> Arc<String> {
        // Held while it is rendered: whoever comes meanwhile gets that page.
        let mut last = self.last_page.lock();
        if let (at, Some(page)) = (last.0, last.1.upgrade())
            && now.since(at) < PAGE_SHARED
        {
            return page;
        }
        let page = Arc::new(self.render());
        *last = (now, Arc::downgrade(&page));
        page
    }

    /// A page of its own.
    pub fn render(&self) -> String {
        render::page(self)
    }

    /// All counters and gauges under the reference's dotted names, sorted.
    pub fn dotted(&self) -> Vec<(String, u64)> {
        let snapshot = snapshot::Snapshot::of(self);
        let mut all: Vec<_> = snapshot.counters.into_iter().chain(snapshot.gauges).collect();
        all.sort();
        all
    }

    fn count_rule(&self, event: &Event<'_>, decision: &RuleDecision, id: RuleId, outcome: Option<Outcome>) {
        self.with_table(event.reply.rules(), |table| self.count_in(table, event, (decision, id), outcome));
    }

    /// The table of these rules if there is one, else the latest: the one that this thread used last, if it
    /// is that. Asking for the latest each time would cost as much as counting.
    ///
    /// A thread that counts nothing keeps the table that it used last, and the rules of that.
    fn with_table<T>(&self, rules: &RuleSet, act: impl FnOnce(&RuleTable) -> T) -> T {
        thread_local! {
            static LAST: RefCell<Option<(usize, Arc<RuleTable>)>> = const { RefCell::new(None) };
        }
        LAST.with_borrow_mut(|last| {
            let is_last = |(owner, table): &&(usize, Arc<RuleTable>)| *owner == self.id && table.is_of(rules);
            if let Some((_, table)) = last.as_ref().filter(is_last) {
                return act(table);
            }
            let (_, table) = last.insert((self.id, self.table.load_full()));
            act(table)
        })
    }

    fn count_in(
        &self,
        table: &RuleTable,
        event: &Event<'_>,
        (decision, id): (&RuleDecision, RuleId),
        outcome: Option<Outcome>,
    ) {
        let (rules, entries) = (event.reply.rules(), entries_of(event, decision));
        if let Some(row) = table.row(rules, id) {
            let stripe = row.counters.stripe();
            stripe.add_outcome(outcome);
            if decision.exception.is_some() {
                return;
            }
            let hit = Hit::of(decision, row.counts_rejected);
            return self.count_hit(row.path_of(rules, id, entries).as_deref(), stripe, hit);
        }
        // The rules have just changed, and this one is older or newer than the table.
        let Some(rule) = rules.rule(id) else { return };
        let known = table.by_path(&rule.path).map(Arc::clone);
        if let Some(counters) = known.or_else(|| self.strays.counters(&rule.path)) {
            counters.stripe().add_outcome(outcome);
            if decision.exception.is_some() {
                return;
            }
            let hit = Hit::of(decision, rule.limit.counts_rejected());
            self.count_hit(table::path_in(rules, id, entries).as_deref(), counters.stripe(), hit);
        }
    }

    fn count_override(&self, event: &Event<'_>, decision: &RuleDecision, outcome: Option<Outcome>) {
        let table = self.table.load();
        let Some(counters) = table.overrides(event.request.domain) else { return };
        let stripe = counters.stripe();
        stripe.add_outcome(outcome);
        let path = override_metric_path(event.request.domain, &shown_entries(entries_of(event, decision)));
        let brought =
            event.request.descriptors.get(decision.descriptor).and_then(|descriptor| descriptor.limit);
        let hit = Hit::of(decision, brought.is_some_and(|brought| brought.limit.counts_rejected()));
        self.count_hit(Some(&sanitised(&path)), stripe, hit);
    }

    /// Counts hits under a path with callers' values, or else in `stripe`.
    fn count_hit(&self, path: Option<&str>, stripe: ThreadStripe<'_>, hit: Hit) {
        let hits = hit.counts(self.near_ratio);
        match path.and_then(|path| self.paths.counters(path)) {
            Some(counters) => counters.stripe().add_hits(&hits),
            None => stripe.add_hits(&hits),
        }
    }

    fn count_unruled(&self, event: &Event<'_>) {
        let is_unknown = |why: &&Option<Free>| **why == Some(Free::UnknownDomain);
        let unknown = event.reply.free.iter().filter(is_unknown).count();
        if unknown > 0 {
            let hits =
                HitCounts { total_hits: u64::try_from(unknown).unwrap_or(u64::MAX), ..HitCounts::default() };
            let counters = self.domains.counters(&sanitised(cut(event.request.domain, VALUE_MAX)));
            counters.as_deref().unwrap_or(&self.other_domains).stripe().add_hits(&hits);
        }
    }
}

/// How an event is counted. Metrics and history ask the same, so that it is found out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOutcomes {
    /// The request as a whole, if it is counted with this event.
    pub request: Option<Outcome>,
    /// The decision, if there is one.
    pub decision: Option<Outcome>,
}

impl EventOutcomes {
    /// Those of an event.
    pub fn of(event: &Event<'_>) -> Self {
        Self { request: event.is_request.then(|| event.reply.outcome()), decision: event.outcome() }
    }
}

impl Metrics {
    /// Counts an event.
    pub fn count(&self, event: &Event<'_>, outcomes: EventOutcomes) {
        if let Some(outcome) = outcomes.request {
            self.requests.stripe().add_outcome(outcome);
            if event.reply.is_all_shadow_denied() {
                self.global_shadow();
            }
        }
        let Some(decision) = event.decision else { return self.count_unruled(event) };
        match decision.rule {
            Some(id) => self.count_rule(event, decision, id, outcomes.decision),
            // A list of the domain denied it; the request is counted above.
            None if decision.exception.is_some() => {}
            None => self.count_override(event, decision, outcomes.decision),
        }
    }
}

impl EventSink for Metrics {
    fn offer(&self, event: Event<'_>) {
        self.count(&event, EventOutcomes::of(&event));
    }

    fn offer_limit(&self, event: LimitEvent<'_>) {
        self.requests.stripe().add_outcome(event.reply.outcome);
        if event.reply.is_all_shadow_denied {
            self.global_shadow();
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn entries_of<'a>(event: &Event<'a>, decision: &RuleDecision) -> &'a [Entry<'a>] {
    event.request.descriptors.get(decision.descriptor).map_or(&[], |descriptor| descriptor.entries)
}

#[cfg(test)]
mod tests;
