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

use super::check::{self, RespCheckRequest};
use super::throttle::{self, Dialect, ThrottleRequest};
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
    async fn decide(&self, service: &Service, now: Time) -> RespReply {
        let mut span = service.tracer().call(self.name(), |_| None);
        match self {
            Self::Throttle(request) => {
                let reply = request.decide(service, now).await;
                span.decided(None, reply.outcome);
                RespReply::Throttle(request.dialect(), reply)
            }
            Self::Check(request) => {
                let decided = request.decide(service, now).await;
                match &decided {
                    Ok(reply) => span.decided(Some(request.domain()), reply.outcome()),
                    Err(error) => span.failed(&error.to_string()),
                }
                RespReply::Check(decided)
            }
        }
    }

    /// Decides it and writes the reply, where its counters are in memory.
    fn answer_at_once(&self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        let mut span = service.tracer().call(self.name(), |_| None);
        let answered = match self {
            Self::Throttle(request) => request.decide_at_once(service, now).map(|reply| {
                span.decided(None, reply.outcome);
                request.dialect().reply(&reply, writer);
            }),
            Self::Check(request) => request.decide_at_once(service, now, |decided| {
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

/// Requests that are not decided yet.
#[derive(Debug, Default)]
pub(super) struct Pipeline<'a> {
    open: SmallVec<[RespRequest<'a>; 1]>,
    turn: Turn,
}

impl<'a> Pipeline<'a> {
    /// Takes a request that is decided with those that follow it.
    pub(super) async fn push(
        &mut self,
        request: RespRequest<'a>,
        service: &Service,
        now: Time,
        writer: &mut RespWriter<'_>,
    ) {
        self.open.push(request);
        if self.open.len() >= RESP_PIPELINE {
            self.flush(service, now, writer).await;
        }
    }

    /// Decides all that are left, and replies.
    pub(super) async fn flush(&mut self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        if self.open.is_empty() {
            return;
        }
        if service.limiter().store().is_remote() {
            self.flush_remotely(service, now, writer).await;
            return self.open.clear();
        }
        match self.open.as_slice() {
            [_, _, ..] if !service.tracer().is_on() => self.flush_at_once(service, now, writer),
            // A request that has a span is decided within it.
            open => open.iter().for_each(|request| request.answer_at_once(service, now, writer)),
        }
        let decided = self.open.len();
        self.open.clear();
        self.turn.decided(decided).await;
    }

    /// Decides commands of one kind that follow each other together.
    fn flush_at_once(&self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        for alike in self.open.chunk_by(|a, b| discriminant(a) == discriminant(b)) {
            let throttles: SmallVec<[&ThrottleRequest<'_>; RESP_PIPELINE]> =
                alike.iter().filter_map(RespRequest::throttle).collect();
            let checks: SmallVec<[&RespCheckRequest<'_>; RESP_PIPELINE]> =
                alike.iter().filter_map(RespRequest::check).collect();
            throttle::answer_at_once(&throttles, service, now, writer);
            check::answer_at_once(&checks, service, now, writer);
        }
    }

    /// Sends all to the store, and waits until all are decided.
    async fn flush_remotely(&self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        let mut deciding: Vec<_> =
            self.open.iter().map(|request| Box::pin(maybe_done(request.decide(service, now)))).collect();
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
