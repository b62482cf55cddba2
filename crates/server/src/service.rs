//! The one thing that adapters call.
//!
//! An adapter hands over a [`Request`] and gets the limiter's [`Reply`]. Requests
//! that cannot be decided are told and counted here, so that adapters only decode
//! and encode.
//!
//! Deliberately not here: wire formats, and the limits themselves.

mod blocked_keys;
mod checker;
mod postpaid_hint;
mod request_level;
mod sinks;
mod unknown_names;

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_core::{Limit, Micros, Operation, Request, Time};
use tollgate_defer::DeferService;
use tollgate_limiter::{CallerCheck, Clock as _, LimitReply, Limiter, Reply, SystemClock};

use crate::health::Health;
use crate::history::HistoryService;
use crate::overrides::{
    KeepingTurn, OverrideError, OverrideRecord, OverrideRemoval, OverrideService, OverrideWatch,
};
use crate::rule_log::RuleLog;
use crate::store::AnyStore;
use crate::telemetry::Tracer;
use tollgate_metrics::{CallFailure, Metrics, TrafficLevel};
use tollgate_settings::{ReplySettings, SettingInForce, Settings};

use blocked_keys::BlockedKeys;
use postpaid_hint::PostpaidHint;
use request_level::RequestLevel;
use unknown_names::UnknownNameLog;

pub(crate) use blocked_keys::BlockedKey;
pub use sinks::Sinks;
pub use unknown_names::UnknownName;

/// The limiter as this server runs it.
pub type ServerLimiter = Limiter<AnyStore, SystemClock, Sinks>;

/// The one thing that adapters call.
#[derive(Debug)]
pub struct Service {
    limiter: ServerLimiter,
    health: Arc<Health>,
    tracer: Tracer,
    answers: ReplySettings,
    count_rejected: bool,
    postpaid_hint: PostpaidHint,
    unknown_names: UnknownNameLog,
    rule_log: RuleLog,
    overrides: OverrideService,
    requests: Option<RequestLevel>,
    /// None without a gateway, which sends them.
    deferring: Option<Arc<DeferService>>,
    settings: ArcSwap<Vec<SettingInForce>>,
}

/// Why a request is not decided at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// No domain.
    #[error("the domain is empty; send the domain of a rule file")]
    NoDomain,
    /// No descriptors.
    #[error("there are no descriptors; send at least one")]
    NoDescriptors,
    /// No rules as yet.
    #[error("no rules are loaded yet; see the log or /healthcheck?verbose for the reason")]
    NoRules,
}

impl Service {
    /// A service without rules as yet.
    pub fn new(
        settings: &Settings,
        store: AnyStore,
        sinks: impl Into<Sinks>,
        health: Arc<Health>,
        tracer: Tracer,
    ) -> Self {
        let limiter =
            Limiter::with(tollgate_core::RuleSet::default(), store, SystemClock::new(), sinks.into())
                .with_all_quota(settings.replies.quota)
                .with_all_shadow(settings.replies.shadow);
        Self {
            limiter,
            health,
            tracer,
            answers: settings.replies.clone(),
            count_rejected: !settings.rules.stop_counting_rejected,
            postpaid_hint: PostpaidHint::default(),
            unknown_names: UnknownNameLog::default(),
            rule_log: RuleLog::default(),
            overrides: OverrideService::default(),
            requests: RequestLevel::new(settings),
            deferring: settings
                .gateway
                .as_ref()
                .map(|_| Arc::new(DeferService::new(settings.defer.config.clone()))),
            settings: ArcSwap::from_pointee(settings.in_force.clone()),
        }
    }

    /// The same, with what is known of earlier rules.
    #[must_use]
    pub fn with_rule_log(self, rule_log: RuleLog) -> Self {
        Self { rule_log, ..self }
    }

    /// The same, with the exceptions of operators.
    #[must_use]
    pub fn with_overrides(self, overrides: OverrideService) -> Self {
        Self { overrides, ..self }
    }

    /// Check, peek, report or refund, at an instant of the limiter's clock. It
    /// may have to wait for the store, never longer than the store's timeout.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub async fn operate(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
    ) -> Result<Reply, ServiceError> {
        self.decidable(request)?;
        let reply = self.limiter.operate(request, operation, now).await;
        self.postpaid_hint.note(&reply);
        self.unknown_names.note(request, &reply);
        Ok(reply)
    }

    /// The same where counters are in this process: shows the reply to `then`, where it is. None with a
    /// remote store, and then nothing was done.
    pub fn operate_at_once<T>(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
        then: impl FnOnce(Result<&Reply, ServiceError>) -> T,
    ) -> Option<T> {
        if self.limiter.store().is_remote() {
            return None;
        }
        if let Err(error) = self.decidable(request) {
            return Some(then(Err(error)));
        }
        self.limiter.operate_at_once(request, operation, now, |reply| {
            self.postpaid_hint.note(reply);
            self.unknown_names.note(request, reply);
            then(Ok(reply))
        })
    }

    /// Checks several requests one after the other where counters are in this process, and shows each reply
    /// to `then` with its number. False with a remote store, and then nothing was done.
    pub fn check_batch_at_once(
        &self,
        requests: &[Request<'_>],
        now: Time,
        mut then: impl FnMut(usize, Result<&Reply, ServiceError>),
    ) -> bool {
        let is_decidable = |request: &&Request<'_>| self.refusal(request).is_none();
        if requests.iter().take_while(is_decidable).count() == requests.len() {
            return self.limiter.check_batch_at_once(requests, now, |at, reply| {
                self.postpaid_hint.note(reply);
                if let Some(request) = requests.get(at) {
                    self.unknown_names.note(request, reply);
                }
                then(at, Ok(reply));
            });
        }
        requests.iter().enumerate().all(|(at, request)| {
            self.operate_at_once(request, Operation::Check, now, |decided| then(at, decided)).is_some()
        })
    }

    /// Checks for a caller who holds what is delayed for no longer than
    /// `patience`; what would have to wait longer is denied and takes nothing.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub async fn check_within(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
    ) -> Result<Reply, ServiceError> {
        self.decidable(request)?;
        let reply = self.limiter.check_within(request, now, patience).await;
        self.unknown_names.note(request, &reply);
        Ok(reply)
    }

    /// Checks or peeks, counted by nobody until [`Service::count`] is called.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub async fn ask(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
        patience: Micros,
    ) -> Result<Reply, ServiceError> {
        self.decidable(request)?;
        let reply = match operation {
            Operation::Peek => self.limiter.operate(request, operation, now).await,
            Operation::Check | Operation::Report | Operation::Refund => {
                self.limiter.check_uncounted(request, now, patience).await
            }
        };
        self.unknown_names.note(request, &reply);
        Ok(reply)
    }

    /// Counts a reply of [`Service::ask`].
    pub fn count(&self, request: &Request<'_>, reply: &Reply) {
        self.limiter.count(request, reply);
    }

    /// Requests that are sent later; none without a gateway, which sends them.
    pub const fn deferring(&self) -> Option<&Arc<DeferService>> {
        self.deferring.as_ref()
    }

    /// Takes `cost` from the counter `name` of a limit that the caller brings along.
    pub async fn check_limit(&self, name: &str, limit: &Limit, cost: u64, now: Time) -> LimitReply {
        self.limiter.check_limit(name, limit, cost, now).await
    }

    /// Several, one after the other, where counters are in this process; each reply is shown to `then` with
    /// its number. False with a remote store, and then nothing was done.
    pub fn check_limits_at_once(
        &self,
        checks: &[CallerCheck<'_>],
        now: Time,
        then: impl FnMut(usize, &LimitReply),
    ) -> bool {
        self.limiter.check_limits_at_once(checks, now, then)
    }

    /// One, where counters are in this process.
    pub fn check_limit_at_once(&self, name: &str, limit: &Limit, cost: u64, now: Time) -> Option<LimitReply> {
        self.limiter.check_limit_at_once(name, limit, cost, now)
    }

    /// Takes one of all requests of the gateway, at whatever path; an error says when to come again.
    ///
    /// # Errors
    /// If none is left.
    pub fn take_request<'a>(&self, route: impl FnOnce() -> Option<Cow<'a, str>>) -> Result<(), Micros> {
        let Some(requests) = &self.requests else { return Ok(()) };
        let ((outcome, retry_after), now) = (requests.take(), self.now());
        let sinks = self.limiter.sink();
        sinks.level(TrafficLevel::Requests, None, outcome, now);
        let Some(retry_after) = retry_after else { return Ok(()) };
        sinks.metrics.denied_by_level();
        if let (Some(history), Some(route)) = (&sinks.history, route()) {
            history.counter().denied(&route, now);
        }
        Err(retry_after)
    }

    /// Gives it back, since the request does not pass.
    pub fn give_back_request(&self) {
        if let Some(requests) = &self.requests {
            requests.give_back();
        }
    }

    /// Forgets what the counters of this request hold; how many held anything.
    ///
    /// # Errors
    /// If there is nothing to forget, or no rules that say where it is.
    pub async fn reset(&self, request: &Request<'_>) -> Result<usize, ServiceError> {
        self.decidable(request)?;
        Ok(self.limiter.reset(request).await)
    }

    /// Whether there is something to decide, and something to decide by.
    fn decidable(&self, request: &Request<'_>) -> Result<(), ServiceError> {
        let Some(error) = self.refusal(request) else { return Ok(()) };
        self.limiter.sink().metrics.failed(CallFailure::Service);
        Err(error)
    }

    /// Why there is not.
    fn refusal(&self, request: &Request<'_>) -> Option<ServiceError> {
        if request.domain.is_empty() {
            Some(ServiceError::NoDomain)
        } else if request.descriptors.is_empty() {
            Some(ServiceError::NoDescriptors)
        } else if !self.health.has_rules() {
            Some(ServiceError::NoRules)
        } else {
            None
        }
    }

    /// What is set, and where.
    pub(crate) fn settings_in_force(&self) -> Arc<Vec<SettingInForce>> {
        self.settings.load_full()
    }

    /// The file says this now, and what follows it is in force. All else stays as it was at the start.
    pub(crate) fn settings_reloaded(&self, read: &[SettingInForce]) {
        let follow = |old: &SettingInForce| {
            let new = read.iter().find(|new| old.is_reloaded && new.name == old.name);
            new.unwrap_or(old).clone()
        };
        let settings = self.settings_in_force().iter().map(follow).collect();
        self.settings.store(Arc::new(settings));
    }

    /// How requests are answered.
    pub const fn answers(&self) -> &ReplySettings {
        &self.answers
    }

    /// Whether a limit that the caller brings along counts what it rejects.
    pub const fn counts_rejected(&self) -> bool {
        self.count_rejected
    }

    /// The limiter.
    pub const fn limiter(&self) -> &ServerLimiter {
        &self.limiter
    }

    /// What is counted.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.limiter.sink().metrics
    }

    /// What is remembered, if anything is.
    pub const fn history(&self) -> Option<&Arc<HistoryService>> {
        self.limiter.sink().history.as_ref()
    }

    /// Whom penalties block, as far as it was met.
    pub(crate) fn blocked_keys(&self) -> &BlockedKeys {
        &self.limiter.sink().blocked
    }

    /// What makes spans of calls.
    pub const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// What changed in the rules, and when.
    pub const fn rule_log(&self) -> &RuleLog {
        &self.rule_log
    }

    /// Makes an exception, which is in force at once.
    pub(crate) async fn put_override(&self, record: OverrideRecord) -> Result<(), OverrideError> {
        self.overrides.put(record, self.keeping_turn()).await?;
        self.obey_overrides();
        Ok(())
    }

    /// Removes an exception, at once.
    pub(crate) async fn remove_override(
        &self,
        removal: OverrideRemoval,
    ) -> Result<OverrideRecord, OverrideError> {
        let removed = self.overrides.remove(removal, self.keeping_turn()).await?;
        self.obey_overrides();
        Ok(removed)
    }

    /// Obeys what other nodes have changed, and not any more what has ended.
    pub async fn follow_overrides(&self, watch: &mut OverrideWatch) {
        if self.overrides.follow(watch, self.keeping_turn()).await {
            self.obey_overrides();
        }
    }

    /// Obeys all exceptions that are known.
    pub fn obey_overrides(&self) {
        self.limiter.replace_overrides(self.overrides.table(self.now()));
    }

    fn keeping_turn(&self) -> KeepingTurn {
        let is_owner = self.history().is_some_and(|history| history.is_open());
        KeepingTurn { now: self.now(), is_owner }
    }

    /// The exceptions of operators.
    pub const fn overrides(&self) -> &OverrideService {
        &self.overrides
    }

    /// How the server is.
    pub const fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The time, by the limiter's clock.
    pub fn now(&self) -> Time {
        self.limiter.clock().now()
    }
}
