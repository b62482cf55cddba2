//! Commands that ask for a decision, and their replies.
//!
//! Such commands that follow each other on a connection make up a [`Pipeline`].
//! With counters in memory each is decided as it comes. With a remote store they
//! are sent together, in order, so that a pipeline waits for one round trip and
//! not for many.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::maybe_done;
use tollgate_core::Time;
use tollgate_limiter::{LimitReply, Reply};

use super::check::{self, RespCheckRequest};
use super::throttle::{Dialect, ThrottleRequest};
use super::to_wire::RespWriter;
use crate::service::{Service, ServiceError};
use crate::turn::Turn;

/// Requests that are sent together; more would only queue at the store.
const PIPELINE_MAX: usize = 64;

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

impl RespRequest<'_> {
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
            Self::Check(request) => request.decide_at_once(service, now, |decided| match decided {
                Ok(reply) => {
                    span.decided(Some(request.domain()), reply.outcome());
                    check::reply(reply, writer);
                }
                Err(error) => {
                    span.failed(&error.to_string());
                    writer.error(&format_args!("ERR {error}"));
                }
            }),
        };
        debug_assert!(answered.is_some(), "counters are in memory");
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
            Self::Check(Ok(reply)) => check::reply(reply, writer),
            Self::Check(Err(error)) => writer.error(&format_args!("ERR {error}")),
        }
    }
}

/// Requests that are not decided yet.
#[derive(Debug, Default)]
pub(super) struct Pipeline<'a> {
    open: Vec<RespRequest<'a>>,
    turn: Turn,
}

impl<'a> Pipeline<'a> {
    /// Decides a request now if its counters are in memory, and later otherwise.
    pub(super) async fn push(
        &mut self,
        request: RespRequest<'a>,
        service: &Service,
        now: Time,
        writer: &mut RespWriter<'_>,
    ) {
        if !service.limiter().store().is_remote() {
            request.answer_at_once(service, now, writer);
            return self.turn.decided(1).await;
        }
        self.open.push(request);
        if self.open.len() >= PIPELINE_MAX {
            self.flush(service, now, writer).await;
        }
    }

    /// Decides all that are left, and replies.
    pub(super) async fn flush(&mut self, service: &Service, now: Time, writer: &mut RespWriter<'_>) {
        if self.open.is_empty() {
            return;
        }
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
        self.open.clear();
    }
}
