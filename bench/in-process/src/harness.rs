//! Times contestants in turns: each runs for a while, then the next, and so on for several turns, so that
//! what the machine does meanwhile meets all of them.
//!
//! A sample is the mean of one turn, in tenths of a nanosecond of processor time for a check: what others do
//! on the machine is not in it. With two threads it is the processor time of both for a check of each, so that
//! waiting for a lock by sleeping is not in it either.

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::contestant::{Allowance, Contestant};

/// Turns of each contestant.
const TURNS: usize = 5;
/// About how long a turn takes.
const TURN: Duration = Duration::from_millis(60);
/// Keys in the cases with many: 2^20, "a million".
pub const MANY: usize = 1 << 20;
/// Keys of a batch.
const BATCH: usize = 64;
/// The same as a count of checks.
const BATCH_CHECKS: u64 = 64;
/// Odd, and near the golden ratio of [`MANY`]: an order that no cache foresees.
const STRIDE: usize = 648_055;

/// Hands over a sample: case, name, value.
pub type Sink<'a> = dyn FnMut(&str, &str, u64) + 'a;

/// The name of a case, and what makes a contestant of it.
pub type TimedCase = (&'static str, fn() -> Timed);

/// Something that is timed.
pub struct Timed {
    name: String,
    /// Runs so many checks, and says how long they took.
    run: Box<dyn FnMut(u64) -> Duration>,
}

impl Timed {
    /// A check as a closure.
    pub fn new(name: impl Into<String>, mut check: impl FnMut() + 'static) -> Self {
        let run = move |times| elapsed(|| (0..times).for_each(|_| check()));
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Times all in turns.
pub fn run(case: &str, mut timed: Vec<Timed>, sink: &mut Sink<'_>) {
    let times: Vec<u64> = timed.iter_mut().map(|timed| times_for(&mut timed.run)).collect();
    for _ in 0..TURNS {
        for (timed, times) in timed.iter_mut().zip(&times) {
            let took = (timed.run)(*times);
            sink(
                case,
                &timed.name,
                u64::try_from(took.as_nanos() * 10 / u128::from(*times)).unwrap_or(u64::MAX),
            );
        }
    }
}

/// How many checks take about as long as a turn.
fn times_for(run: &mut dyn FnMut(u64) -> Duration) -> u64 {
    let mut times = 16 * BATCH_CHECKS;
    loop {
        let took = run(times);
        if took * 10 >= TURN {
            let more = TURN.as_nanos() * u128::from(times) / took.as_nanos().max(1);
            return u64::try_from(more).unwrap_or(times).next_multiple_of(BATCH_CHECKS);
        }
        times *= 4;
    }
}

/// The processor time that this thread takes for some work.
fn elapsed(work: impl FnOnce()) -> Duration {
    let start = processor_time(ClockId::ThreadCPUTime);
    work();
    processor_time(ClockId::ThreadCPUTime).saturating_sub(start)
}

fn processor_time(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

/// Keys as users have them, one behind the other in memory: a key that is checked has just come off a socket,
/// and what fetching it from memory costs is no library's doing.
pub fn keys(count: usize) -> Arc<[String]> {
    (0..count).map(|n| format!("user:{n:011}")).collect()
}

/// The cases in which libraries are compared.
pub fn cases<C: Contestant>() -> [TimedCase; 5] {
    [
        ("1 key, allowed", || single::<C>(Allowance::OneKey, 1)),
        ("1 key, denied", || single::<C>(Allowance::Nothing, 1)),
        ("1 million keys", || single::<C>(Allowance::ManyKeys, MANY)),
        ("1 million keys, 64 at a time", batches::<C>),
        ("1 key, denied, 2 threads", two_threads::<C>),
    ]
}

fn single<C: Contestant>(allowance: Allowance, count: usize) -> Timed {
    let (contestant, keys) = filled::<C>(allowance, count);
    let mut at = 0;
    let run = move |times: u64| {
        let mut check = contestant.caller();
        elapsed(|| {
            for _ in 0..times {
                at = (at + 1) & (keys.len() - 1);
                if let Some(key) = keys.get(at) {
                    black_box(check(key));
                }
            }
        })
    };
    Timed { name: C::NAME.to_owned(), run: Box::new(run) }
}

fn batches<C: Contestant>() -> Timed {
    let (contestant, keys) = filled::<C>(Allowance::ManyKeys, MANY);
    let mut at = 0;
    let run = move |times: u64| {
        let mut check_batch = contestant.batch_caller();
        elapsed(|| {
            for _ in 0..times / BATCH_CHECKS {
                let batch: [&String; BATCH] = std::array::from_fn(|_| {
                    at = (at + 1) & (keys.len() - 1);
                    keys.get(at).expect("a place within the keys")
                });
                black_box(check_batch(&batch));
            }
        })
    };
    Timed { name: C::NAME.to_owned(), run: Box::new(run) }
}

/// Each of two threads makes all the checks.
fn two_threads<C: Contestant>() -> Timed {
    let (contestant, keys) = filled::<C>(Allowance::Nothing, 1);
    let run = move |times: u64| {
        let Some(key) = keys.first() else { return Duration::ZERO };
        let all = || {
            let mut check = contestant.caller();
            for _ in 0..times {
                black_box(check(key));
            }
        };
        let start = processor_time(ClockId::ProcessCPUTime);
        thread::scope(|scope| {
            scope.spawn(all);
            scope.spawn(all);
        });
        processor_time(ClockId::ProcessCPUTime).saturating_sub(start) / 2
    };
    Timed { name: C::NAME.to_owned(), run: Box::new(run) }
}

/// A contestant that has seen all keys, and denies them if it is to. It meets them in another order than later,
/// so that what it keeps of neighbours lies far apart.
fn filled<C: Contestant>(allowance: Allowance, count: usize) -> (C, Arc<[String]>) {
    let (contestant, keys) = (C::new(allowance), keys(count));
    let asks = if allowance.allows() { 1 } else { 3 };
    let mut check = contestant.caller();
    for _ in 0..asks {
        for at in 0..keys.len() {
            let key = keys.get((at * STRIDE) & (keys.len() - 1)).expect("a place within the keys");
            black_box(check(key));
        }
    }
    drop(check);
    for key in keys.iter().take(100) {
        assert_eq!(contestant.check(key), allowance.allows(), "{} limits", C::NAME);
    }
    (contestant, keys)
}
