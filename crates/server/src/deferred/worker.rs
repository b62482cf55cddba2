//! The worker that sends what was deferred: whose turn it is, and what becomes of a turn.
//!
//! It takes requests from the queue into lines, gives each line that may be asked for to an
//! `attempt` in a task of its own, and puts the line on when the task says what happened.
//!
//! Invariants: what is given out is this node's to send; if the queue says that it is not any more,
//! all that waits is forgotten. A worker that ends gives up its place after what is on its way, so that
//! another node begins at once. At most [`ATTEMPTS_MAX`] attempts run at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tollgate_core::Time;
use tollgate_defer::{DeferService, DeferredLines};
use tollgate_gateway::Gateway;
use tollgate_http::Checker as _;

use super::attempt::{SendAttempt, TurnEvent};
use crate::service::Service;
use crate::shutdown::stopped;

/// Attempts that run at once, over all lines.
const ATTEMPTS_MAX: usize = 256;
/// How often the queue is asked for requests, also those that other nodes took in: often enough to
/// keep the lease of Redis.
const TAKE_EVERY: Duration = Duration::from_millis(500);
/// A worker that has nothing to do looks at its lines as often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The worker.
pub(super) struct SendWorker {
    attempt: SendAttempt,
    lines: DeferredLines,
    /// Attempts that run.
    running: usize,
}

impl SendWorker {
    pub(super) fn new(
        gateway: Arc<Gateway<Service>>,
        service: Arc<Service>,
        deferring: Arc<DeferService>,
    ) -> Self {
        let lines = DeferredLines::new(Arc::clone(deferring.index()));
        Self { attempt: SendAttempt { gateway, service, deferring }, lines, running: 0 }
    }

    /// Sends until the server stops.
    pub(super) async fn run(mut self, mut done: watch::Receiver<bool>) {
        let Some(handle) = self.attempt.deferring.handle().cloned() else { return };
        // Never full: each attempt sends at most two events, the second after the first was read or not.
        let (events, mut happened) = mpsc::unbounded_channel();
        let mut take = tokio::time::interval(TAKE_EVERY);
        take.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = self.now();
            let next = self.lines.next_turn().filter(|_| self.running < ATTEMPTS_MAX);
            let wait: Duration = next.map_or(LOOK_EVERY, |at| at.since(now).into());
            tokio::select! {
                () = stopped(&mut done) => break,
                _ = take.tick() => self.take().await,
                () = handle.accepted() => self.take().await,
                Some(event) = happened.recv() => self.note(event),
                () = tokio::time::sleep(wait.min(LOOK_EVERY)) => {}
            }
            while let Ok(event) = happened.try_recv() {
                self.note(event);
            }
            self.begin(&events);
        }
        // What is on its way is finished; whoever stops the server does not wait for long.
        while self.running > 0
            && let Some(event) = happened.recv().await
        {
            self.note(event);
        }
        // If this fails, the others wait for the lease to end.
        if let Err(error) = handle.give_up().await {
            tracing::debug!(%error, "other nodes send deferred requests a moment later");
        }
    }

    fn now(&self) -> Time {
        self.attempt.service.calendar()
    }

    /// Takes what the queue gives out, all of it.
    async fn take(&mut self) {
        let look = self.attempt.deferring.index().look();
        self.take_all().await;
        self.attempt.deferring.index().seen(look);
    }

    async fn take_all(&mut self) {
        let Some(handle) = self.attempt.deferring.handle() else { return };
        loop {
            // The queue's thread logs a failure, and the next try is a second away.
            let Ok(taken) = handle.take(self.attempt.service.calendar()).await else { return };
            if !taken.is_ours {
                return self.lines.forget_waiting();
            }
            if taken.requests.is_empty() {
                return;
            }
            for (request, progress) in taken.requests {
                self.lines.add(request, progress);
            }
        }
    }

    /// Begins with every line whose turn it is.
    fn begin(&mut self, events: &mpsc::UnboundedSender<TurnEvent>) {
        let now = self.now();
        while self.running < ATTEMPTS_MAX
            && let Some(turn) = self.lines.turn(now)
        {
            self.running += 1;
            tokio::spawn(self.attempt.clone().run(turn, events.clone()));
        }
    }

    fn note(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Started(turn) => return self.lines.start(&turn),
            TurnEvent::Pause(turn, until) => self.lines.pause(&turn, until),
            TurnEvent::Dropped(turn) => self.lines.remove(&turn),
            TurnEvent::Ended(turn) => self.lines.end(&turn),
            TurnEvent::Retry(turn, progress) => self.lines.retry(turn, progress),
        }
        self.running = self.running.saturating_sub(1);
    }
}
