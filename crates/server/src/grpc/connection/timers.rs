//! What has taken too long on a connection: an answer to a ping, or the rest of a message.
//!
//! Invariant: timers are asked only when one of them has something to say, so that calls do not pay for
//! them.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tollgate_gateway::wake_note::WakeNote;

use super::GrpcConnection;
use super::calls::CallState;
use crate::body::BodyError;
use crate::bounds::{BODY_WAIT_MAX, PING_EVERY, PING_WAIT_MAX};

/// How precise [`BODY_WAIT_MAX`] is: bodies are looked at no more often.
const BODY_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long an answer may be late, so that what has arrived is read once more.
const LAST_READ: Duration = Duration::from_millis(1);

/// The timers of a connection.
pub(super) struct ConnectionTimers {
    note: WakeNote,
    ping: Pin<Box<Sleep>>,
    is_pinged: bool,
    /// The answer to the ping is late. It may wait in the socket, if this process was put off.
    is_overdue: bool,
    /// When the last whole frame came.
    frame_at: Instant,
    /// While messages may be incomplete.
    bodies: Option<Pin<Box<Sleep>>>,
}

impl ConnectionTimers {
    pub(super) fn new() -> Self {
        Self {
            note: WakeNote::default(),
            ping: Box::pin(sleep(PING_EVERY)),
            is_pinged: false,
            is_overdue: false,
            frame_at: Instant::now(),
            bodies: None,
        }
    }

    /// A whole frame came, so that the caller is there.
    pub(super) const fn frame_came(&mut self, now: Instant) {
        self.frame_at = now;
        (self.is_pinged, self.is_overdue) = (false, false);
    }

    /// Messages may have come in part.
    pub(super) fn watch_bodies(&mut self, now: Instant) {
        if self.bodies.is_none() {
            self.bodies = Some(Box::pin(sleep_until(now + BODY_WAIT_MAX)));
            self.note.forget();
        }
    }
}

impl GrpcConnection {
    /// Does what is due; an error if the caller is gone.
    pub(super) fn poll_timers(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        if self.timers.note.is_quiet(cx) {
            return Ok(());
        }
        let waker = self.timers.note.waker(cx);
        let mut cx = Context::from_waker(&waker);
        while self.timers.ping.as_mut().poll(&mut cx).is_ready() {
            let now = Instant::now();
            let next = self.timers.frame_at + PING_EVERY;
            if next > now {
                self.timers.ping.as_mut().reset(next);
            } else if self.timers.is_overdue {
                return Err(Error::new(ErrorKind::TimedOut, "a ping was not answered"));
            } else if self.timers.is_pinged {
                self.timers.is_overdue = true;
                self.timers.ping.as_mut().reset(now + LAST_READ);
            } else {
                self.http2.ping();
                self.timers.is_pinged = true;
                self.timers.ping.as_mut().reset(now + PING_WAIT_MAX);
            }
        }
        while let Some(bodies) = &mut self.timers.bodies {
            match bodies.as_mut().poll(&mut cx) {
                Poll::Pending => break,
                Poll::Ready(()) => self.check_bodies(Instant::now()),
            }
        }
        Ok(())
    }

    /// Ends calls whose message has not come in time.
    fn check_bodies(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        let mut late = Vec::new();
        for (stream, call) in self.http2.calls_mut() {
            let CallState::Receiving(call) = call else { continue };
            let end = call.read_at + BODY_WAIT_MAX;
            if end <= now {
                late.push(stream);
            } else {
                next = Some(next.map_or(end, |next| next.min(end)));
            }
        }
        for stream in late {
            self.fail(stream, BodyError::TooSlow.into());
        }
        let again = next.map(|next| Box::pin(sleep_until(next.max(now + BODY_LOOK_EVERY))));
        self.timers.bodies = again;
    }
}
