//! How loaded the upstreams of a group are, by how long they take to answer.
//!
//! `forward` notes every answer and every failure; once a second the server asks for the load and
//! reports it to the gauge that elastic limits go by. Page: `spec/load.md`.
//!
//! Invariants: only requests that were forwarded anyway are measured, none is sent to find out. What
//! is not known counts as full. Memory is bounded, and a group without requests takes none.
//!
//! Deliberately not here: how a load rises, falls and is shared, which is `tollgate_limiter::load`.
#![expect(clippy::float_arithmetic, reason = "a load is a measurement")]

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_limiter::Load;

/// The baseline is the tenth percentile of so many of these.
const SLOT: Duration = Duration::from_secs(60);
const SLOTS: u64 = 10;
/// Answers in that time below which there is no baseline.
const SAMPLES_MIN: u64 = 50;
/// Up to so much above the baseline the load is 0, and at twice as much it is full.
const TOLERANCE: f64 = 0.25;
/// "Now" is at most so many answers, none of them older than this.
const NOW_MAX: usize = 250;
const NOW_AGE: Duration = Duration::from_secs(3);
/// If more of them than one in so many are failures, the upstream is full.
const FAILURES_IN: usize = 10;
/// Steps of the histogram in which a latency doubles: they are 4 % wide.
const STEPS: u32 = 16;

/// How long the upstreams of a group took to answer.
#[derive(Debug, Default)]
pub(super) struct UpstreamLoad {
    state: Mutex<LatencyState>,
}

#[derive(Debug, Default)]
struct LatencyState {
    start: Option<Instant>,
    /// The oldest first.
    slots: VecDeque<LatencySlot>,
    now: VecDeque<NowSample>,
    last_answer: Option<Instant>,
}

/// The latencies of a minute.
#[derive(Debug)]
struct LatencySlot {
    number: u64,
    /// By step.
    counts: Vec<u64>,
}

/// What became of one request; no latency if it failed.
#[derive(Debug, Clone, Copy)]
struct NowSample {
    at: Instant,
    latency: Option<Duration>,
}

impl UpstreamLoad {
    /// An answer came after `latency`; none if there was a failure instead.
    pub(super) fn note(&self, latency: Option<Duration>, at: Instant) {
        let mut state = self.state.lock();
        let start = *state.start.get_or_insert(at);
        state.last_answer = Some(at);
        if state.now.len() == NOW_MAX {
            state.now.pop_front();
        }
        state.now.push_back(NowSample { at, latency });
        let Some(latency) = latency else { return };
        let number = slot_number(start, at);
        if state.slots.back().is_none_or(|slot| slot.number < number) {
            state.slots.push_back(LatencySlot { number, counts: Vec::new() });
            state.forget_slots(number);
        }
        if let Some(slot) = state.slots.back_mut() {
            slot.add(step(latency));
        }
    }

    /// The load now; `is_busy` if there are requests that wait for an answer.
    pub(super) fn load(&self, now: Instant, is_busy: bool) -> Load {
        let mut state = self.state.lock();
        if let Some(start) = state.start {
            state.forget_slots(slot_number(start, now));
        }
        while state.now.front().is_some_and(|sample| now.duration_since(sample.at) > NOW_AGE) {
            state.now.pop_front();
        }
        let Some(baseline) = state.baseline() else { return Load::FULL };
        let failures = state.now.iter().filter(|sample| sample.latency.is_none()).count();
        if failures * FAILURES_IN > state.now.len() || is_busy && state.is_stuck(now, baseline) {
            return Load::FULL;
        }
        let Some(median) = state.median() else { return Load::IDLE };
        let above = median.as_secs_f64() / baseline.as_secs_f64() - 1.0;
        Load::clamped((above - TOLERANCE) / TOLERANCE)
    }
}

impl LatencyState {
    fn forget_slots(&mut self, newest: u64) {
        while self.slots.front().is_some_and(|slot| slot.number + SLOTS <= newest) {
            self.slots.pop_front();
        }
    }

    /// The tenth percentile of the last ten minutes, if there are enough answers.
    fn baseline(&self) -> Option<Duration> {
        let all: u64 = self.slots.iter().flat_map(|slot| &slot.counts).sum();
        if all < SAMPLES_MIN {
            return None;
        }
        let steps = self.slots.iter().map(|slot| slot.counts.len()).max().unwrap_or(0);
        let mut below = 0;
        let at = |index: usize| self.slots.iter().filter_map(move |slot| slot.counts.get(index)).sum::<u64>();
        let found = (0..steps).find(|index| {
            below += at(*index);
            below * 10 >= all
        });
        found.map(latency_of)
    }

    fn median(&self) -> Option<Duration> {
        let mut latencies: Vec<Duration> = self.now.iter().filter_map(|sample| sample.latency).collect();
        let middle = latencies.len() / 2;
        (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(middle).1)
    }

    /// Nothing has been answered for so long that something should have been.
    fn is_stuck(&self, now: Instant, baseline: Duration) -> bool {
        let silence = self.last_answer.map_or(Duration::ZERO, |last| now.duration_since(last));
        silence > NOW_AGE.max(2 * baseline)
    }
}

impl LatencySlot {
    fn add(&mut self, step: usize) {
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(step) {
            *count += 1;
        }
    }
}

fn slot_number(start: Instant, at: Instant) -> u64 {
    at.duration_since(start).as_secs() / SLOT.as_secs()
}

/// Which step of the histogram a latency belongs to: exact up to 16 µs, then 16 to a doubling.
fn step(latency: Duration) -> usize {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).clamp(1, LATENCY_MAX_US);
    let doublings = micros.ilog2().saturating_sub(STEPS.ilog2());
    let step = u64::from(doublings * STEPS) + (micros >> doublings);
    usize::try_from(step).unwrap_or(usize::MAX)
}

/// The latency at the beginning of a step.
fn latency_of(step: usize) -> Duration {
    let step = u32::try_from(step).unwrap_or(u32::MAX);
    let doublings = (step / STEPS).saturating_sub(1);
    let micros = u64::from(step - doublings * STEPS) << doublings;
    Duration::from_micros(micros.max(1))
}

/// Longer is as long: an hour.
const LATENCY_MAX_US: u64 = 3_600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// `count` answers of a latency, 10 ms apart; when the last came.
    fn answer(load: &UpstreamLoad, from: Instant, count: u32, latency: Option<Duration>) -> Instant {
        (1..=count).map(|turn| from + turn * ms(10)).inspect(|at| load.note(latency, *at)).last().unwrap()
    }

    #[test]
    fn a_step_begins_at_or_just_below_its_latencies() {
        for micros in (1..5_000).chain((5_000..3_600_000_000).step_by(7_654_321)) {
            let latency = Duration::from_micros(micros);
            let begin = latency_of(step(latency));
            assert!(begin <= latency, "{latency:?} {begin:?}");
            assert!(latency - begin <= latency / 16, "{latency:?} {begin:?}");
            assert_eq!(step(begin), step(latency));
        }
    }

    #[test]
    fn the_load_is_nothing_up_to_a_quarter_above_the_baseline_and_full_at_half() {
        // The baseline is at most a sixteenth below 100 ms.
        for (latency, load) in [(100, 0.0..=0.0), (117, 0.0..=0.01), (135, 0.3..=0.8), (150, 1.0..=1.0)] {
            let gauge = UpstreamLoad::default();
            let at = answer(&gauge, Instant::now(), 400, Some(ms(100)));
            let at = answer(&gauge, at, u32::try_from(NOW_MAX).unwrap() / 2 + 1, Some(ms(latency)));
            let seen = gauge.load(at, true).get();
            assert!(load.contains(&seen), "{latency} ms: {seen}");
        }
    }

    #[test]
    fn what_is_not_known_is_full_and_what_gets_no_requests_is_idle() {
        let (gauge, start) = (UpstreamLoad::default(), Instant::now());
        assert_eq!(gauge.load(start, false), Load::FULL, "nothing is known");
        let at = answer(&gauge, start, 49, Some(ms(20)));
        assert_eq!(gauge.load(at, true), Load::FULL, "49 answers are not enough");
        let at = answer(&gauge, at, 1, Some(ms(20)));
        assert_eq!(gauge.load(at, true), Load::IDLE);
        assert_eq!(gauge.load(at + ms(3_100), false), Load::IDLE, "it has nothing to do");
        assert_eq!(gauge.load(at + ms(3_100), true), Load::FULL, "it has, and answers nothing");
        assert_eq!(gauge.load(at + SLOT * 11, false), Load::FULL, "what was long ago is forgotten");
    }

    #[test]
    fn more_failures_than_one_in_ten_are_full() {
        let (gauge, start) = (UpstreamLoad::default(), Instant::now());
        let at = answer(&gauge, start, 90, Some(ms(20)));
        let at = answer(&gauge, at, 10, None);
        assert_eq!(gauge.load(at, true), Load::IDLE);
        let at = answer(&gauge, at, 1, None);
        assert_eq!(gauge.load(at, true), Load::FULL);
    }

    #[test]
    fn a_latency_that_has_stayed_for_ten_minutes_is_the_new_baseline() {
        let (gauge, start) = (UpstreamLoad::default(), Instant::now());
        let at = answer(&gauge, start, 300, Some(ms(20)));
        let mut at = answer(&gauge, at, 300, Some(ms(60)));
        assert_eq!(gauge.load(at, true), Load::FULL);
        for _ in 0..11 {
            at = answer(&gauge, at + SLOT, 100, Some(ms(60)));
        }
        assert_eq!(gauge.load(at, true), Load::IDLE);
        assert!(gauge.state.lock().slots.len() <= 10 && gauge.state.lock().now.len() <= NOW_MAX);
    }
}
