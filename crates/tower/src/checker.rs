//! A limiter as whoever lets requests in asks it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use tollgate_core::{Micros, Operation, Request, Time};
use tollgate_http::{Checker, PathTemplates, ResponseSettings};
use tollgate_limiter::{Clock, EventSink, Limiter, Reply, Store};

/// A limiter, and what callers are told about it.
#[derive(Debug)]
pub(crate) struct LayerChecker<S, C, E> {
    pub(crate) limiter: Arc<Limiter<S, C, E>>,
    pub(crate) responses: ResponseSettings,
}

impl<S, C, E> Checker for LayerChecker<S, C, E>
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

    async fn operate(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
    ) -> Result<Reply, Infallible> {
        Ok(self.limiter.operate(request, operation, now).await)
    }
}
