//! What happened, told to whoever keeps count.
//!
//! After each request [`crate::Limiter`] offers one [`Event`] for every ruling
//! to an [`EventSink`]. Metrics and history are sinks.
//!
//! Invariant: a sink never waits: it counts or queues within a bound, and what
//! does not fit it drops and counts as dropped.

use tollgate_core::Request;

use crate::reply::{Reply, Ruling};

/// One decision, with the request it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What was asked.
    pub request: &'a Request<'a>,
    /// What was answered to the request as a whole.
    pub reply: &'a Reply,
    /// The decision; none where no rule applied to the request at all.
    pub ruling: Option<&'a Ruling>,
}

/// Whoever keeps count.
pub trait EventSink: Send + Sync {
    /// Takes note of an event, without waiting for anything.
    fn offer(&self, event: Event<'_>);
}

/// Keeps no count.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSink;

impl EventSink for NoSink {
    fn offer(&self, _: Event<'_>) {}
}

impl<S: EventSink + ?Sized> EventSink for std::sync::Arc<S> {
    fn offer(&self, event: Event<'_>) {
        (**self).offer(event);
    }
}
