//! How long a connection stays.
//!
//! A connection must say something sensible soon, may be asked to go when it
//! is old, when it is silent and others need the room, or when the server
//! ends, and is cut off if it does not go in time.
//!
//! Invariant: a connection that is asked to go finishes the calls it has begun.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::GracefulConnection;
use tokio::sync::watch;

use super::gate::Pass;
use super::pool::Seat;
use super::seen::Seen;
use crate::bounds::{DRAIN_SILENCE_MAX, LOOK_EVERY, OPENING_MAX};

/// How long connections of a listener stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    /// A connection that has sent fewer bytes than this has not opened.
    pub(crate) opening_bytes: u64,
    /// Then it is asked to go, give or take 10 %.
    pub(crate) age: Option<Duration>,
    /// And then it is cut off.
    pub(crate) grace: Option<Duration>,
}

/// What a connection needs to know about its life.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) stay: Stay,
    pub(crate) seen: Arc<Seen>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) pass: Pass,
    /// Given back when the connection ends.
    pub(crate) _seat: Option<Seat>,
}

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Look again after this.
    Look(Duration),
    /// Ask it to go, and cut it off after this if it does not.
    AskToGo(Option<Duration>),
    /// Cut it off.
    Cut,
}

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    /// Asked to go.
    Leaving,
    /// Asked to go because the server is to end.
    Stopping,
}

/// What has been seen of a connection so far.
#[derive(Debug)]
struct Record {
    stay: Stay,
    phase: Phase,
    elapsed: Duration,
    bytes: u64,
}

impl Record {
    fn new(stay: Stay, random: u64) -> Self {
        let stay = Stay { age: stay.age.map(|age| jittered(age, random)), ..stay };
        Self { stay, phase: Phase::Opening, elapsed: Duration::ZERO, bytes: 0 }
    }

    /// When to look for the first time.
    fn first_look(&mut self) -> Duration {
        self.elapsed = self.stay.age.map_or(OPENING_MAX, |age| age.min(OPENING_MAX));
        self.elapsed
    }

    /// What to do when the time of the last step is over.
    fn step(&mut self, bytes: u64, is_crowded: bool) -> Step {
        match self.phase {
            Phase::Leaving => return Step::Cut,
            Phase::Stopping if bytes == self.bytes => return Step::Cut,
            Phase::Stopping => return self.stop(bytes),
            Phase::Opening if bytes < self.stay.opening_bytes && self.elapsed >= OPENING_MAX => {
                return Step::Cut;
            }
            Phase::Opening => self.phase = Phase::Open,
            Phase::Open if is_crowded && bytes == self.bytes => return self.leave(Some(LOOK_EVERY)),
            Phase::Open => {}
        }
        self.bytes = bytes;
        let left = self.stay.age.map(|age| age.saturating_sub(self.elapsed));
        if left == Some(Duration::ZERO) {
            return self.leave(self.stay.grace);
        }
        let next = left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY));
        self.elapsed += next;
        Step::Look(next)
    }

    /// What to do when the server is to end, and as long as it goes on saying something.
    fn stop(&mut self, bytes: u64) -> Step {
        self.phase = Phase::Stopping;
        self.bytes = bytes;
        Step::Look(DRAIN_SILENCE_MAX)
    }

    fn leave(&mut self, grace: Option<Duration>) -> Step {
        self.phase = Phase::Leaving;
        Step::AskToGo(grace)
    }
}

/// `age` give or take 10 %, so that callers that came together do not all come
/// back together.
fn jittered(age: Duration, random: u64) -> Duration {
    let thousandths = u32::try_from(900 + random % 201).unwrap_or(1_000);
    age.checked_mul(thousandths).map_or(age, |long| long / 1_000)
}

/// A number that nobody can foresee.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Serves a connection until it ends or must end.
pub(crate) async fn supervise<C>(connection: C, mut life: Life)
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let mut record = Record::new(life.stay, random());
    let mut connection = pin!(connection);
    let mut timer = pin!(tokio::time::sleep(record.first_look()));
    let mut is_timed = true;
    loop {
        let step = tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = stopped(&mut life.stop), if record.phase != Phase::Stopping => {
                connection.as_mut().graceful_shutdown();
                record.stop(life.seen.bytes())
            }
            () = timer.as_mut(), if is_timed => record.step(life.seen.bytes(), life.pass.is_crowded()),
        };
        let wait = match step {
            Step::Look(after) => Some(after),
            Step::AskToGo(grace) => {
                connection.as_mut().graceful_shutdown();
                grace
            }
            Step::Cut => return,
        };
        is_timed = wait.is_some();
        timer.set(tokio::time::sleep(wait.unwrap_or_default()));
    }
}

/// Resolves when the server is to end.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stop.wait_for(|is_over| *is_over).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAY: Stay =
        Stay { opening_bytes: 33, age: Some(Duration::from_secs(100)), grace: Some(Duration::from_secs(7)) };

    #[test]
    fn who_says_nothing_sensible_is_cut_off() {
        let first_step = |bytes| {
            let mut record = Record::new(STAY, 100);
            assert_eq!(record.first_look(), OPENING_MAX);
            record.step(bytes, false)
        };
        assert_eq!(first_step(32), Step::Cut);
        assert_eq!(first_step(33), Step::Look(LOOK_EVERY));
    }

    #[test]
    fn who_is_silent_goes_only_where_others_need_the_room() {
        let mut record = Record::new(STAY, 100);
        assert_eq!(record.step(50, true), Step::Look(LOOK_EVERY));
        assert_eq!(record.step(51, true), Step::Look(LOOK_EVERY));
        assert_eq!(record.step(51, false), Step::Look(LOOK_EVERY));
        assert_eq!(record.step(51, true), Step::AskToGo(Some(LOOK_EVERY)));
        assert_eq!(record.step(99, false), Step::Cut);
    }

    #[test]
    fn who_is_old_is_asked_to_go_at_that_very_time_and_then_cut_off() {
        let mut record = Record::new(STAY, 100);
        let (mut elapsed, mut bytes) = (record.first_look(), 100);
        let grace = loop {
            bytes += 1;
            match record.step(bytes, false) {
                Step::Look(after) => elapsed += after,
                Step::AskToGo(grace) => break grace,
                Step::Cut => panic!("it is not cut off before it is asked"),
            }
        };
        assert_eq!((elapsed, grace), (Duration::from_secs(100), STAY.grace));
        assert_eq!(record.step(bytes + 1, false), Step::Cut);
    }

    #[test]
    fn an_age_may_be_shorter_than_the_opening() {
        let stay = Stay { age: Some(Duration::from_secs(1)), ..STAY };
        let mut record = Record::new(stay, 100);
        assert_eq!(record.first_look(), Duration::from_secs(1));
        assert_eq!(record.step(0, false), Step::AskToGo(STAY.grace));
    }

    #[test]
    fn at_the_end_who_is_silent_is_cut_off_and_who_still_talks_is_not() {
        let mut record = Record::new(STAY, 100);
        assert_eq!(record.stop(50), Step::Look(DRAIN_SILENCE_MAX));
        assert_eq!(record.step(60, true), Step::Look(DRAIN_SILENCE_MAX));
        assert_eq!(record.step(60, true), Step::Cut);
    }

    #[test]
    fn ages_differ_by_a_tenth_at_most() {
        let age = Duration::from_secs(1_000);
        let ages: Vec<u64> = (0..201).map(|random| jittered(age, random).as_secs()).collect();
        assert_eq!(ages.iter().min(), Some(&900));
        assert_eq!(ages.iter().max(), Some(&1_100));
        assert_eq!(jittered(Duration::MAX, 7), Duration::MAX);
    }
}
