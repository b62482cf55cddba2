//! A command that asks for a decision, and what came of it.
//!
//! Commands that follow each other on a connection and ask for decisions make
//! up a [`Run`]. Where counters are in memory each is decided as it comes.
//! Where a store must be waited for they are asked about at once, in their
//! order, so that a pipeline waits for one round trip and not for many.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::maybe_done;
use tollgate_core::Time;
use tollgate_limiter::Reply;

use super::to_wire::Writer;
use super::{check, throttle};
use crate::service::{Service, ServiceError};

/// So many are waited for together; more would only queue at the store.
const RUN_MAX: usize = 64;

/// What a command asks.
#[derive(Debug)]
pub(super) enum Question<'a> {
    Throttle(throttle::Asked<'a>),
    Check(check::Asked<'a>),
}

/// What came of it.
#[expect(
    clippy::large_enum_variant,
    reason = "it is written and gone at once, and a box would be an allocation for each command"
)]
enum Decided {
    Throttle(throttle::Dialect, Reply),
    Check(Result<Reply, ServiceError>),
}

impl Question<'_> {
    async fn decide(&self, service: &Service, now: Time) -> Decided {
        match self {
            Self::Throttle(asked) => Decided::Throttle(asked.dialect(), asked.decide(service, now).await),
            Self::Check(asked) => Decided::Check(asked.decide(service, now).await),
        }
    }
}

impl Decided {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Throttle(dialect, reply) => dialect.reply(reply, writer),
            Self::Check(Ok(reply)) => check::reply(reply, writer),
            Self::Check(Err(error)) => writer.error(&format_args!("ERR {error}")),
        }
    }
}

/// Questions that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Run<'a>(Vec<Question<'a>>);

impl<'a> Run<'a> {
    /// Takes one more question, and answers what need not or cannot wait.
    pub(super) async fn ask(
        &mut self,
        question: Question<'a>,
        service: &Service,
        now: Time,
        writer: &mut Writer<'_>,
    ) {
        if !service.limiter().store().is_remote() {
            return question.decide(service, now).await.write(writer);
        }
        self.0.push(question);
        if self.0.len() >= RUN_MAX {
            self.settle(service, now, writer).await;
        }
    }

    /// Answers all that is not answered yet.
    pub(super) async fn settle(&mut self, service: &Service, now: Time, writer: &mut Writer<'_>) {
        if self.0.is_empty() {
            return;
        }
        let mut asking: Vec<_> =
            self.0.iter().map(|question| Box::pin(maybe_done(question.decide(service, now)))).collect();
        // Each time all are looked at in their order, so that each is sent
        // before the next one, also if they had to wait for a connection.
        poll_fn(|context| {
            let open = asking.iter_mut().filter_map(|one| one.poll_unpin(context).is_pending().then_some(()));
            if open.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        for mut one in asking {
            if let Some(decided) = one.as_mut().take_output() {
                decided.write(writer);
            }
        }
        self.0.clear();
    }
}
