//! How long a connection stays: one policy for all listeners.
//!
//! `accept` makes a [`Lifetime`] for each connection and hands it to the
//! listener's adapter. Where a future serves the connection, hyper's or that of gRPC, the adapter calls
//! [`Lifetime::supervise`] or [`Lifetime::supervise_with`]; RESP and HTTP's short way read for themselves, with
//! [`Lifetime::read`] and [`Lifetime::check`].
//!
//! A connection is closed if it does not open in time, if a request arrives too
//! slowly, if its responses are not read, if it is idle for too long, if it is
//! silent while others need the room, if it is too old, and when the server stops.
//! [`CloseReason`] has them all.
//!
//! Invariants: a connection that is asked to close finishes the requests it has
//! begun. A [`Lifetime`] holds the connection's permit, its worker's slot and a
//! receiver of the stop signal until the connection has ended; the drain at the
//! end of the server waits for those receivers.
//!
//! Deliberately not here: the timeouts of heads and bodies that hyper reads
//! (`http::serve`, `body`).

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::poll_immediate;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::Sleep;

use super::connection_limit::ConnectionPermit;
use super::stream::{ByteCount, ByteTraffic, Io};
use super::worker_pool::WorkerSlot;
use crate::bounds::{BODY_WAIT_MAX, DRAIN_MAX, DRAIN_SILENCE_MAX, LOOK_EVERY, OPENING_MAX, READ_LEAST};
use crate::shutdown::stopped;
use tollgate_gateway::wake_note::WakeNote;

/// How long the connections of a listener may stay.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LifetimePolicy {
    /// A connection that has sent fewer bytes than this is not open.
    pub(crate) opening_bytes: u64,
    /// A connection that is silent for so long is closed.
    pub(crate) idle: Option<Duration>,
    /// A connection of this age is asked to close, give or take 10 %.
    pub(crate) age: Option<Duration>,
    /// How long after its age it is cut off, if ever.
    pub(crate) grace: Option<Duration>,
    /// Somebody else makes the answers, so that a silent connection may still wait for one when
    /// the server stops.
    pub(crate) answers_late: bool,
}

/// How far an adapter that reads for itself has got with its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestProgress {
    /// Requests answered so far.
    pub(crate) answered: u64,
    /// The beginning of a request has arrived, and not its end.
    pub(crate) is_partial: bool,
    /// The caller has yet to send the password.
    pub(crate) needs_password: bool,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// It did not say enough, or not the password, within [`OPENING_MAX`].
    NotOpened,
    /// A request did not arrive whole within [`BODY_WAIT_MAX`].
    SlowRequest,
    /// It read less than [`READ_LEAST`] bytes of what waits for it, time and again.
    SlowReader,
    /// It was silent for longer than its listener allows.
    Idle,
    /// It was silent, and there are too many connections.
    Crowded,
    /// It reached its listener's age.
    Age,
    /// It was asked to close, and did not do so in time.
    Overdue,
}

/// What to do about a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifetimeStep {
    /// Nothing; check again after this.
    Wait(Duration),
    /// Ask it to close, and check again after this.
    Close(CloseReason, Duration),
    /// Cut it off.
    Cut(CloseReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifetimePhase {
    Serving,
    /// Asked to close, with so much time left until it is cut off.
    Closing(Option<Duration>),
    /// Asked to close because the server stops.
    Draining,
}

/// The policy as a state machine, without clock or sockets.
#[derive(Debug)]
struct LifetimeState {
    policy: LifetimePolicy,
    phase: LifetimePhase,
    /// The time between the last check and the next one.
    wait: Duration,
    elapsed: Duration,
    traffic: ByteTraffic,
    progress: RequestProgress,
    /// For how long nothing was read or written.
    silence: Duration,
    /// For how long the caller has hardly read what waits for it.
    stall: Duration,
    /// For how long the same request has been coming in.
    partial: Duration,
}

impl LifetimeState {
    fn new(policy: LifetimePolicy, random: u64) -> Self {
        let policy = LifetimePolicy { age: policy.age.map(|age| jittered(age, random)), ..policy };
        Self {
            policy,
            phase: LifetimePhase::Serving,
            wait: policy.age.map_or(LOOK_EVERY, |age| age.min(LOOK_EVERY)),
            elapsed: Duration::ZERO,
            traffic: ByteTraffic::default(),
            progress: RequestProgress::default(),
            silence: Duration::ZERO,
            stall: Duration::ZERO,
            partial: Duration::ZERO,
        }
    }

    /// What to do when the time of the last step is over.
    fn check(&mut self, traffic: ByteTraffic, progress: RequestProgress, is_crowded: bool) -> LifetimeStep {
        let before = std::mem::replace(&mut self.traffic, traffic);
        let last = std::mem::replace(&mut self.progress, progress);
        let is_silent = (before.read, before.written) == (traffic.read, traffic.written);
        let is_stalled = before.is_waiting
            && traffic.is_waiting
            && traffic.written.saturating_sub(before.written) < READ_LEAST;
        self.stall = if is_stalled { self.stall + self.wait } else { Duration::ZERO };
        if self.stall >= BODY_WAIT_MAX {
            return LifetimeStep::Cut(CloseReason::SlowReader);
        }
        match self.phase {
            LifetimePhase::Closing(left) => return self.closing(left),
            LifetimePhase::Draining if is_silent => return LifetimeStep::Cut(CloseReason::Overdue),
            LifetimePhase::Draining => return self.wait_for(DRAIN_SILENCE_MAX),
            LifetimePhase::Serving => {}
        }
        let wait = self.wait;
        let lasting = |span: Duration, goes_on: bool| if goes_on { span + wait } else { Duration::ZERO };
        let is_same_request = last.is_partial && progress.is_partial && last.answered == progress.answered;
        self.elapsed += wait;
        self.silence = lasting(self.silence, is_silent);
        self.partial = lasting(self.partial, is_same_request);
        let is_open = traffic.read >= self.policy.opening_bytes && !progress.needs_password;
        let left = self.policy.age.map(|age| age.saturating_sub(self.elapsed));
        if !is_open && self.elapsed >= OPENING_MAX {
            LifetimeStep::Cut(CloseReason::NotOpened)
        } else if self.partial >= BODY_WAIT_MAX {
            self.close(CloseReason::SlowRequest, Some(LOOK_EVERY))
        } else if is_open && self.policy.idle.is_some_and(|idle| self.silence >= idle) {
            self.close(CloseReason::Idle, Some(LOOK_EVERY))
        } else if is_open && is_silent && is_crowded {
            self.close(CloseReason::Crowded, Some(LOOK_EVERY))
        } else if left == Some(Duration::ZERO) {
            self.close(CloseReason::Age, self.policy.grace)
        } else {
            self.wait_for(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)))
        }
    }

    fn wait_for(&mut self, wait: Duration) -> LifetimeStep {
        self.wait = wait;
        LifetimeStep::Wait(wait)
    }

    fn close(&mut self, reason: CloseReason, grace: Option<Duration>) -> LifetimeStep {
        self.phase = LifetimePhase::Closing(grace);
        self.wait = grace.map_or(LOOK_EVERY, |grace| grace.min(LOOK_EVERY));
        LifetimeStep::Close(reason, self.wait)
    }

    /// What to do about a connection that was asked to close.
    fn closing(&mut self, left: Option<Duration>) -> LifetimeStep {
        let left = left.map(|left| left.saturating_sub(self.wait));
        if left == Some(Duration::ZERO) {
            return LifetimeStep::Cut(CloseReason::Overdue);
        }
        self.phase = LifetimePhase::Closing(left);
        self.wait_for(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)))
    }

    /// The server stops; how long until the next check.
    fn drain(&mut self, traffic: ByteTraffic) -> Duration {
        let wait = if self.policy.answers_late { DRAIN_MAX } else { DRAIN_SILENCE_MAX };
        (self.phase, self.traffic, self.wait) = (LifetimePhase::Draining, traffic, wait);
        wait
    }
}

/// `age` give or take 10 %, so that callers that connected together do not all
/// come back together.
fn jittered(age: Duration, random: u64) -> Duration {
    let thousandths = u32::try_from(900 + random % 201).unwrap_or(1_000);
    age.checked_mul(thousandths).map_or(age, |long| long / 1_000)
}

/// A connection from accept to close.
pub(crate) struct Lifetime {
    state: LifetimeState,
    bytes: Arc<ByteCount>,
    permit: ConnectionPermit,
    _worker: Option<WorkerSlot>,
    timer: Pin<Box<Sleep>>,
    /// Resolves when the server stops. Kept for the whole connection, since
    /// making it takes locks that all workers share.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_stopped: bool,
    /// Whether timer and stop signal have anything to say.
    note: WakeNote,
    /// What the drain waits for.
    _drained: watch::Receiver<bool>,
}

/// Why an adapter is woken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// It is time for [`Lifetime::check`].
    Check,
    /// The server stops.
    Stop,
}

/// What happened while an adapter waited for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEvent {
    /// So many bytes came; none if the caller is done.
    Bytes(usize),
    Due(Due),
}

impl Lifetime {
    pub(crate) fn new(
        policy: LifetimePolicy,
        permit: ConnectionPermit,
        worker: Option<WorkerSlot>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let state = LifetimeState::new(policy, fastrand::u64(..));
        let mut signal = stop.clone();
        Self {
            bytes: Arc::new(ByteCount::default()),
            permit,
            _worker: worker,
            timer: Box::pin(tokio::time::sleep(state.wait)),
            state,
            stop: Box::pin(async move { stopped(&mut signal).await }),
            has_stopped: false,
            note: WakeNote::default(),
            _drained: stop,
        }
    }

    /// What a [`super::stream::FilteredStream`] counts in.
    pub(crate) fn byte_count(&self) -> Arc<ByteCount> {
        Arc::clone(&self.bytes)
    }

    /// Resolves when there is something to do about the connection. Nothing is
    /// lost if it is dropped before.
    async fn due(&mut self) -> Due {
        std::future::poll_fn(|cx| {
            if self.note.is_quiet(cx) {
                return Poll::Pending;
            }
            let waker = self.note.waker(cx);
            let due = ready!(self.poll_due(&mut Context::from_waker(&waker)));
            self.note.forget();
            Poll::Ready(due)
        })
        .await
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        self.has_stopped = self.has_stopped || self.stop.as_mut().poll(cx).is_ready();
        if self.has_stopped && self.state.phase != LifetimePhase::Draining {
            return Poll::Ready(Due::Stop);
        }
        self.timer.as_mut().poll(cx).map(|()| Due::Check)
    }

    /// Waits for bytes, for the next check or for the server to stop. Bytes come first.
    pub(crate) async fn read(&mut self, io: &mut Io, into: &mut Vec<u8>) -> io::Result<ReadEvent> {
        tokio::select! {
            biased;
            read = io.read_buf(into) => {
                let read = read?;
                self.bytes.add_read(read);
                Ok(ReadEvent::Bytes(read))
            }
            due = self.due() => Ok(ReadEvent::Due(due)),
        }
    }

    /// Whether a connection that was read with [`Lifetime::read`] is to be closed.
    pub(crate) fn check(&mut self, progress: RequestProgress) -> Option<CloseReason> {
        match self.step(progress) {
            LifetimeStep::Wait(_) => None,
            LifetimeStep::Close(reason, _) | LifetimeStep::Cut(reason) => Some(reason),
        }
    }

    fn step(&mut self, progress: RequestProgress) -> LifetimeStep {
        let step = self.state.check(self.bytes.traffic(), progress, self.permit.is_crowded());
        match step {
            LifetimeStep::Wait(wait) | LifetimeStep::Close(_, wait) => self.wait(wait),
            LifetimeStep::Cut(_) => {}
        }
        step
    }

    fn wait(&mut self, wait: Duration) {
        self.timer.set(tokio::time::sleep(wait));
        self.note.forget();
    }

    /// Lets hyper serve a connection until it ends or must end.
    pub(crate) async fn supervise<C>(self, connection: C)
    where
        C: GracefulConnection,
        C::Error: std::fmt::Display,
    {
        self.supervise_with(connection, GracefulConnection::graceful_shutdown).await;
    }

    /// The same for whatever serves a connection, and is asked to close by `close`.
    pub(crate) async fn supervise_with<C, E>(mut self, connection: C, close: impl Fn(Pin<&mut C>))
    where
        C: Future<Output = Result<(), E>>,
        E: std::fmt::Display,
    {
        let mut connection = pin!(connection);
        loop {
            let due = tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended with an error");
                    }
                    return;
                }
                due = self.due() => due,
            };
            match due {
                Due::Stop => {
                    close(connection.as_mut());
                    let wait = self.state.drain(self.bytes.traffic());
                    self.wait(wait);
                }
                Due::Check => match self.step(RequestProgress::default()) {
                    LifetimeStep::Wait(_) => {}
                    LifetimeStep::Close(reason, _) => {
                        tracing::debug!(?reason, "a connection is asked to close");
                        close(connection.as_mut());
                    }
                    LifetimeStep::Cut(reason) => {
                        tracing::debug!(?reason, "a connection is cut off");
                        return;
                    }
                },
            }
        }
    }
}

/// Writes all of `bytes`, or fails if the caller does not take them within [`BODY_WAIT_MAX`].
pub(crate) async fn write_in_time(io: &mut Io, bytes: &[u8]) -> io::Result<()> {
    let mut writing = pin!(async {
        io.write_all(bytes).await?;
        io.flush().await
    });
    match poll_immediate(writing.as_mut()).await {
        Some(written) => written,
        // A timer costs something, so that only those who wait have one.
        None => tokio::time::timeout(BODY_WAIT_MAX, writing).await?,
    }
}

#[cfg(test)]
mod tests;
