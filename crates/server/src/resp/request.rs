//! Commands that ask for a decision, and their replies.
//!
//! Such commands that follow each other on a connection make up a [`Pipeline`], and are decided together,
//! in order: with counters in memory so that these are fetched side by side, and with a remote store so that
//! a pipeline waits for one round trip and not for many.

use std::future::poll_fn;
use std::mem::discriminant;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::maybe_done;
use smallvec::SmallVec;
use tollgate_core::Time;
use tollgate_limiter::{LimitReply, Reply};

use super::check::{self, PipelineEntries, RespCheckRequest};
use super::throttle::{self, Dialect, PipelineLimits, ThrottleRequest};
use super::to_wire::RespWriter;
use crate::bounds::RESP_PIPELINE;
use crate::service::{Service, ServiceError};
use crate::turn::Turn;

/// A command that asks for a decision.
#[derive(Debug)]
pub(super) enum RespRequest<'a> {
    Throttle(ThrottleRequest<'a>),
    Check(RespCheckRequest<'a>),
}

/// What was decided.
#[expect(
    clippy::large_enum_variant,
    reason = "it is written where it is made; a box would be an allocation each time"
)]
enum RespReply {
    Throttle(Dialect, LimitReply),
    Check(Result<Reply, ServiceError>),
}

impl<'a> RespRequest<'a> {
    async fn decide(&self, parts: &PipelineParts<'_>, service: &Service, now: Time) -> RespReply {
        let mut span = service.tracer().call(self.name(), |_| None);
        match self {
            Self::Throttle(request) => {
                let reply = request.decide(&parts.limits, service, now).await;
                span.decided(None, reply.outcome);
                RespReply::Throttle(request.dialect(), reply)
            }
            Self::Check(request) => {
                let decided = request.decide(&parts.entries, service, now).await;
                match &decided {
                    Ok(reply) => span.decided(Some(request.domain()), reply.outcome()),
                    Err(error) => span.failed(&error.to_string()),
                }
                RespReply::Check(decided)
            }
        }
    }

    /// Decides it and writes the reply, where its counters are in memory.
    fn answer_at_once(
        &self,
        parts: &PipelineParts<'_>,
        service: &Service,
        now: Time,
        writer: &mut RespWriter<'_>,
    ) {
        let mut span = service.tracer().call(self.name(), |_| None);
        let answered = match self {
            Self::Throttle(request) => request.decide_at_once(&parts.limits, service, now).map(|reply| {
                span.decided(None, reply.outcome);
                request.dialect().reply(&reply, writer);
            }),
            Self::Check(request) => request.decide_at_once(&parts.entries, service, now, |decided| {
                match &decided {
                    Ok(reply) => span.decided(Some(request.domain()), reply.outcome()),
                    Err(error) => span.failed(&error.to_string()),
                }
                check::write(decided, writer);
            }),
        };
        debug_assert!(answered.is_some(), "counters are in memory");
    }

    const fn throttle(&self) -> Option<&ThrottleRequest<'a>> {
        if let Self::Throttle(request) = self { Some(request) } else { None }
    }

    const fn check(&self) -> Option<&RespCheckRequest<'a>> {
        if let Self::Check(request) = self { Some(request) } else { None }
    }

    /// The command, which its span is called by.
    const fn name(&self) -> &'static str {
        match self {
            Self::Throttle(request) => match request.dialect() {
                Dialect::Cell => "CL.THROTTLE",
                Dialect::Crab => "THROTTLE",
            },
            Self::Check(_) => "TOLLGATE.CHECK",
        }
    }
}

impl RespReply {
    fn write(&self, writer: &mut RespWriter<'_>) {
        match self {
            Self::Throttle(dialect, reply) => dialect.reply(reply, writer),
            Self::Check(decided) => check::write(decided.as_ref().map_err(|error| *error), writer),
        }
    }
}

/// What the requests of a pipeline refer to.
#[derive(Debug, Default)]
pub(super) struct PipelineParts<'a> {
    pub(super) entries: PipelineEntries<'a>,
    pub(super) limits: PipelineLimits,
}

/// Requests that are not decided yet.
#[derive(Debug, Default)]
pub(super) struct Pipeline<'a> {
    open: SmallVec<[RespRequest<'a>; 1]>,
    parts: PipelineParts<'a>,
    turn: Turn,
}

impl<'a> Pipeline<'a> {
    /// Where a request puts what it refers to.
    pub(super) const fn parts(&mut self) -> &mut PipelineParts<'a> {
        &mut self.parts
    }

    /// Takes a request that is decided with those that follow it; whether it is time to decide them.
    pub(super) fn push(&mut self, request: RespRequest<'a>) -> bool {
        if self.open.len() == 1 {
            // Where there are two there are many.
            self.open.reserve(RESP_PIPELINE);
            self.parts.entries.reserve(RESP_PIPELINE);
        }
        self.open.push(request);
        self.open.len() >= RESP_PIPELINE
    }

    /// Decides all that are left, and replies.
    pub(super) async fn flush(&mut self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        if self.open.is_empty() {
            return;
        }
        let is_remote = service.limiter().store().is_remote();
        if is_remote {
            self.flush_remotely(service, now, writer).await;
        } else {
            self.flush_at_once(service, now, writer);
        }
        let decided = self.open.len();
        self.open.clear();
        self.parts.entries.clear();
        self.parts.limits.clear();
        // Who waits for a store gives way anyhow.
        if !is_remote {
            self.turn.decided(decided).await;
        }
    }

    fn flush_at_once(&self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        let parts = &self.parts;
        // A request that has a span is decided within it.
        if self.open.len() == 1 || service.tracer().is_on() {
            return self.open.iter().for_each(|request| request.answer_at_once(parts, service, now, writer));
        }
        // Commands of one kind that follow each other are decided together.
        for alike in self.open.chunk_by(|a, b| discriminant(a) == discriminant(b)) {
            match alike.first() {
                Some(RespRequest::Throttle(_)) => {
                    let requests = alike.iter().filter_map(RespRequest::throttle);
                    throttle::answer_at_once(requests, &parts.limits, service, now, writer);
                }
                Some(RespRequest::Check(_)) => {
                    let requests = alike.iter().filter_map(RespRequest::check);
                    check::answer_at_once(requests, &parts.entries, service, now, writer);
                }
                None => {}
            }
        }
    }

    /// Sends all to the store, and waits until all are decided.
    async fn flush_remotely(&self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        let parts = &self.parts;
        let mut deciding: Vec<_> = self
            .open
            .iter()
            .map(|request| Box::pin(maybe_done(request.decide(parts, service, now))))
            .collect();
        // All are polled in order each time, so that each is sent before the
        // next one, also where they had to wait for a connection.
        poll_fn(|context| {
            let open =
                deciding.iter_mut().filter_map(|one| one.poll_unpin(context).is_pending().then_some(()));
            if open.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        for mut one in deciding {
            if let Some(reply) = one.as_mut().take_output() {
                reply.write(writer);
            }
        }
    }
}
