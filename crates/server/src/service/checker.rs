//! The service as forward-auth and the gateway ask it.

use std::borrow::Cow;

use tollgate_core::{Micros, Operation, Request, Time};
use tollgate_http::{Checker, PathTemplates, ResponseSettings};
use tollgate_limiter::{Clock as _, Reply, Store as _};

use super::{Service, ServiceError};

impl Checker for Service {
    type Error = ServiceError;

    fn now(&self) -> Time {
        self.now()
    }

    fn calendar(&self) -> Time {
        self.limiter.clock().calendar()
    }

    fn responses(&self) -> &ResponseSettings {
        &self.answers().responses
    }

    fn route<'a>(&'a self, path: &'a [u8], mapped: Option<&'a PathTemplates>) -> Option<Cow<'a, str>> {
        Some(self.history()?.counter().route_of(path, mapped))
    }

    fn passed(&self, route: &str, now: Time) {
        if let Some(history) = self.history() {
            history.counter().passed(route, now);
        }
    }

    fn take_request<'a>(
        &'a self,
        asked: impl FnOnce() -> (&'a [u8], Option<&'a PathTemplates>),
    ) -> Result<(), Micros> {
        self.take_request(|| {
            let (path, mapped) = asked();
            self.route(path, mapped)
        })
    }

    fn give_back_request(&self) {
        self.give_back_request();
    }

    async fn check(&self, request: &Request<'_>, now: Time, patience: Micros) -> Result<Reply, ServiceError> {
        self.check_within(request, now, patience).await
    }

    fn is_immediate(&self) -> bool {
        self.limiter.store().memory().is_some()
    }

    fn check_at_once<T>(
        &self,
        request: &Request<'_>,
        now: Time,
        patience: Micros,
        then: impl FnOnce(&Reply) -> T,
    ) -> Option<Result<T, ServiceError>> {
        if !self.is_immediate() {
            return None;
        }
        if let Err(error) = self.decidable(request) {
            return Some(Err(error));
        }
        let checked = self.limiter.check_within_at_once(request, now, patience, |reply| {
            self.unknown_names.note(request, reply);
            then(reply)
        });
        checked.map(Ok)
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
        patience: Micros,
    ) -> Result<Reply, ServiceError> {
        self.ask(request, operation, now, patience).await
    }

    fn count(&self, request: &Request<'_>, reply: &Reply) {
        self.count(request, reply);
    }

    fn defers(&self, domain: &str) -> bool {
        self.limiter.rules().defers(domain)
    }

    fn has_lines(&self) -> bool {
        self.deferring().is_some_and(|deferring| !deferring.index().is_empty())
    }

    fn has_line(&self, line: &str) -> bool {
        self.deferring().is_some_and(|deferring| deferring.index().has(line))
    }

    async fn settle(&self, request: &Request<'_>, now: Time) {
        self.limiter.settle(request, now).await;
    }
}
