//! A limiter as whoever lets requests in asks it, without a server around it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use tollgate_core::{Micros, Request, Time};
use tollgate_limiter::{Clock, EventSink, Limiter, Reply, Store};

use super::Checker;
use crate::request::PathTemplates;
use crate::response::ResponseSettings;

/// A limiter, and what callers are told about it.
#[derive(Debug)]
pub struct LimiterChecker<S, C, E> {
    /// Who decides.
    pub limiter: Arc<Limiter<S, C, E>>,
    /// What callers are told.
    pub responses: ResponseSettings,
}

impl<S, C, E> Checker for LimiterChecker<S, C, E>
where
    S: Store + Send + Sync + 'static,
    C: Clock + 'static,
    E: EventSink + Send + Sync + 'static,
{
    type Error = Infallible;

    fn now(&self) -> Time {
        self.limiter.clock().now()
    }

    fn calendar(&self) -> Time {
        self.limiter.clock().calendar()
    }

    fn responses(&self) -> &ResponseSettings {
        &self.responses
    }

    fn route<'a>(&'a self, _: &'a [u8], _: Option<&'a PathTemplates>) -> Option<Cow<'a, str>> {
        None
    }

    fn passed(&self, _: &str, _: Time) {}

    async fn check(&self, request: &Request<'_>, now: Time, patience: Micros) -> Result<Reply, Infallible> {
        Ok(self.limiter.check_within(request, now, patience).await)
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
    ) -> Option<Result<T, Infallible>> {
        self.limiter.check_within_at_once(request, now, patience, then).map(Ok)
    }

    async fn settle(&self, request: &Request<'_>, now: Time) {
        self.limiter.settle(request, now).await;
    }
}
