//! A monotonic clock that costs less than asking the system: the processor's own counter.
//!
//! [`crate::SystemClock`] reads it for every request. The counter is trusted for a millisecond at a
//! time, by each thread for itself; then the system's monotonic clock is looked at again. So whatever
//! becomes of the counter, a virtual machine that moves to another host, a processor that slept, this
//! clock is right again a millisecond later.
//!
//! Invariants: on one thread it never goes back, and it is a few microseconds behind the system's clock at
//! most, never before it. Between two looks it runs a thousandth too slow: a system does not slow its
//! clock by as much, nor is the counter's rate known less well, unless the first measurement of it was
//! disturbed; then it could step back by some microseconds at a look, which decisions bear. Where there is
//! no counter to trust, every read asks the system.
//!
//! Deliberately not here: the calendar.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is trusted after a look at the system's clock.
const TRUST_NS: u128 = 1_000_000;
/// How long the two reads of a look may take together. If the thread was put off between them, the counter
/// is not trusted until the next look.
const LOOK_NS_MAX: u128 = 1_000;
/// The share by which this clock runs slow meanwhile.
const SLOW_SHARE: u64 = 1_024;
/// Binary places of a microsecond.
const PLACES: u32 = 32;

thread_local! {
    static LAST_LOOK: Cell<Look> = const { Cell::new(Look { ticks: 0, micros: 0, fraction: 0 }) };
}

/// What the counter and the system's clock showed at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    ticks: u64,
    /// Since this process first looked.
    micros: u64,
    /// Of a microsecond, in [`PLACES`] places.
    fraction: u64,
}

/// The processor's counter, and what a tick of it is worth.
#[derive(Debug)]
pub(crate) struct Ticks {
    counter: quanta::Clock,
    /// Microseconds of a tick, in [`PLACES`] places.
    tick: u64,
    /// How many ticks the counter is trusted for.
    trusted: u64,
    /// How many ticks a look may take.
    look: u64,
}

impl Ticks {
    pub(crate) fn new() -> Self {
        let counter = quanta::Clock::new();
        const SAMPLE: u64 = 1 << 30;
        let sample_ns = u128::from(counter.delta_as_nanos(0, SAMPLE)).max(1);
        let number = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        let tick = number((sample_ns << PLACES) / (u128::from(SAMPLE) * 1_000));
        let ticks_of = |ns: u128| number(u128::from(SAMPLE) * ns / sample_ns);
        let (trusted, look) = (ticks_of(TRUST_NS), ticks_of(LOOK_NS_MAX));
        Self { counter, tick: tick - tick / SLOW_SHARE, trusted, look }
    }

    /// Microseconds since this process first looked.
    #[inline]
    pub(crate) fn micros(&self) -> u64 {
        let now = self.counter.raw();
        let look = LAST_LOOK.get();
        let ticks = now.wrapping_sub(look.ticks);
        if ticks < self.trusted {
            return look.micros + ((look.fraction + ticks * self.tick) >> PLACES);
        }
        self.look()
    }

    /// Looks at the system's clock. The counter is read after it: what lies between the two reads makes
    /// this clock late and never early.
    #[cold]
    fn look(&self) -> u64 {
        let before = self.counter.raw();
        let elapsed = since_first_look();
        let ticks = self.counter.raw();
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX / 2);
        if ticks.wrapping_sub(before) <= self.look {
            let fraction = (u64::from(elapsed.subsec_nanos() % 1_000) << PLACES) / 1_000;
            LAST_LOOK.set(Look { ticks, micros, fraction });
        }
        micros
    }
}

#[expect(clippy::disallowed_methods, reason = "with `clock`, the one place that reads the machine's clocks")]
fn since_first_look() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    now.saturating_duration_since(*FIRST.get_or_init(|| now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that the two clocks may differ by: a thousandth of what the counter is trusted for, what
    /// rounding takes, and as much as a measurement of the rate that was disturbed makes of it.
    const APART_MAX_US: u64 = 10;

    fn system() -> u64 {
        u64::try_from(since_first_look().as_micros()).unwrap()
    }

    #[test]
    fn it_keeps_to_the_systems_clock() {
        let ticks = Ticks::new();
        let end = system() + 50_000;
        let (mut last, mut looks) = (0, 0);
        while last < end {
            let before = system();
            let now = ticks.micros();
            let after = system();
            assert!(now + APART_MAX_US >= last, "{now} after {last}");
            assert!(now + APART_MAX_US >= before, "{now}, and the system's clock was at {before}");
            assert!(now <= after + APART_MAX_US, "{now}, and the system's clock was at {after}");
            looks += u64::from(LAST_LOOK.get().micros == now);
            last = now;
        }
        assert!(looks >= 10, "it looked at the system's clock {looks} times");
    }

    #[test]
    fn a_counter_that_jumps_is_noticed_at_once_if_it_jumps_far() {
        let ticks = Ticks::new();
        for jump in [ticks.trusted * 2, u64::MAX / 2] {
            let before = ticks.micros();
            let look = LAST_LOOK.get();
            LAST_LOOK.set(Look { ticks: look.ticks.wrapping_sub(jump), ..look });
            assert!(ticks.micros() >= before);
            assert!(ticks.micros() <= system() + APART_MAX_US);
        }
    }

    #[test]
    fn threads_agree() {
        let ticks = Ticks::new();
        for _ in 0..100 {
            let here = ticks.micros();
            let there = std::thread::scope(|scope| scope.spawn(|| ticks.micros()).join().unwrap());
            assert!(here <= there + APART_MAX_US, "{here} here, and later {there} there");
            assert!(there <= ticks.micros() + APART_MAX_US);
        }
    }
}
