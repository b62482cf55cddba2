//! One turn of a deferred request: asks the limiter, sends, and notes what became of it.
//!
//! Invariants: the limiter is only looked at until it has room, so that waiting changes no counter.
//! A request is on its way only after the queue has said that it is this node's; what became of it is
//! in the queue before the next of its line hears of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tollgate_core::{Micros, Operation, Time, Verdict};
use tollgate_defer::config::{BACKOFF_MAX, backoff};
use tollgate_defer::{
    DeferService, DeferredEnd, DeferredId, DeferredTurn, QueueChange, QueueReply, SendProgress,
};
use tollgate_gateway::{DeferredAttempt, Gateway};
use tollgate_http::Checker as _;

use crate::service::Service;

/// The limiter is asked again after this time at the latest: rules, overrides and load may have changed.
const ASK_AGAIN: Micros = Micros::from_secs(5);
/// The same while nothing can be decided, or the queue cannot be asked.
const TROUBLE_PAUSE: Micros = Micros::SECOND;
/// How often the queue is told what became of a request, while it cannot be asked.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// What became of a turn.
pub(super) enum TurnEvent {
    /// There is no room before that.
    Pause(DeferredTurn, Time),
    /// It is on its way.
    Started(DeferredTurn),
    /// It is done with, or somebody else's, and never was on its way.
    Dropped(DeferredTurn),
    /// It was on its way and is done with, or somebody else's.
    Ended(DeferredTurn),
    /// The attempt failed.
    Retry(DeferredTurn, SendProgress),
}

/// What an attempt needs.
#[derive(Clone)]
pub(super) struct SendAttempt {
    pub(super) gateway: Arc<Gateway<Service>>,
    pub(super) service: Arc<Service>,
    pub(super) deferring: Arc<DeferService>,
}

/// What the limiter says.
enum Room {
    /// Send it after this time.
    After(Micros),
    /// Not before that time.
    None(Micros),
}

impl SendAttempt {
    /// Takes a turn, and tells what becomes of it.
    pub(super) async fn run(self, turn: DeferredTurn, events: UnboundedSender<TurnEvent>) {
        // The worker is gone only when the server stops.
        let tell = |event| drop(events.send(event));
        let now = self.service.calendar();
        if turn.request.expires <= now {
            self.change(QueueChange::Finish(
                turn.request.id,
                turn.progress.attempts,
                DeferredEnd::Expired.into(),
            ))
            .await;
            return tell(TurnEvent::Dropped(turn));
        }
        let wait = match self.room(&turn).await {
            Room::After(wait) => wait,
            Room::None(wait) => return tell(TurnEvent::Pause(turn, now + wait.min(ASK_AGAIN))),
        };
        match self.start(turn.request.id).await {
            Some(QueueReply::Done) => {}
            reply => {
                self.give_back(&turn).await;
                return tell(match reply {
                    Some(_) => TurnEvent::Dropped(turn),
                    None => TurnEvent::Pause(turn, now + TROUBLE_PAUSE),
                });
            }
        }
        tell(TurnEvent::Started(turn.clone()));
        tokio::time::sleep(wait.into()).await;
        let sent = self.gateway.send_deferred(&turn.request, self.deferring.config()).await;
        tell(self.conclude(turn, sent).await);
    }

    /// Whether the limiter has room for it; if so, it is taken.
    async fn room(&self, turn: &DeferredTurn) -> Room {
        let (check, service) = (&turn.request.check, &self.service);
        let entries = check.entries();
        let descriptors = check.borrowed(&entries);
        let request = check.request(&descriptors);
        for operation in [Operation::Peek, Operation::Check] {
            let reply = service.ask(&request, operation, service.now(), Micros::MAX).await;
            match (reply.map(|reply| reply.verdict), operation) {
                (Err(_), _) => return Room::None(TROUBLE_PAUSE),
                (Ok(Verdict::Deny { retry_after }), _) => {
                    return Room::None(retry_after.unwrap_or(ASK_AGAIN));
                }
                (Ok(Verdict::Delay { wait }), Operation::Check) => return Room::After(wait),
                (Ok(Verdict::Allow | Verdict::Delay { .. }), _) => {}
            }
        }
        Room::After(Micros::ZERO)
    }

    async fn give_back(&self, turn: &DeferredTurn) {
        let check = &turn.request.check;
        let entries = check.entries();
        let descriptors = check.borrowed(&entries);
        let now = self.service.now();
        drop(self.service.limiter().operate(&check.request(&descriptors), Operation::Refund, now).await);
    }

    /// Asks the queue whether it may be sent; none if the queue cannot be asked.
    async fn start(&self, id: DeferredId) -> Option<QueueReply> {
        let handle = self.deferring.handle()?;
        handle.change(QueueChange::Start(id), self.service.calendar()).await.ok()
    }

    /// Notes what became of it.
    async fn conclude(&self, turn: DeferredTurn, sent: DeferredAttempt) -> TurnEvent {
        let (id, config) = (turn.request.id, self.deferring.config());
        let attempts = turn.progress.attempts.saturating_add(1);
        let end = match sent {
            DeferredAttempt::Answered(response) => {
                QueueChange::Finish(id, turn.progress.attempts, DeferredEnd::Done(response).into())
            }
            DeferredAttempt::Failed { reason, response, .. } if attempts >= config.max_attempts => {
                tracing::debug!(%reason, attempts, "a deferred request is given up");
                QueueChange::Finish(id, attempts, DeferredEnd::Failed { reason, response }.into())
            }
            DeferredAttempt::Failed { reason, retry_after, .. } => {
                let pause = retry_after.unwrap_or(Micros::ZERO).max(backoff(attempts)).min(BACKOFF_MAX);
                let progress = SendProgress { attempts, not_before: self.service.calendar() + pause };
                tracing::debug!(%reason, attempts, "a deferred request is sent again later");
                return match self.change(QueueChange::Retry(id, progress)).await {
                    QueueReply::Done => TurnEvent::Retry(turn, progress),
                    QueueReply::Full | QueueReply::NotOurs => TurnEvent::Ended(turn),
                };
            }
        };
        self.change(end).await;
        TurnEvent::Ended(turn)
    }

    /// Tells the queue until it has heard: what was sent must not be sent again.
    async fn change(&self, change: QueueChange) -> QueueReply {
        let Some(handle) = self.deferring.handle() else { return QueueReply::NotOurs };
        loop {
            let now: Time = self.service.calendar();
            match handle.change(change.clone(), now).await {
                Ok(reply) => return reply,
                Err(_) => tokio::time::sleep(TELL_AGAIN).await,
            }
        }
    }
}
