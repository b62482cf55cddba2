//! The largest and the smallest, beside the oracle.
//!
//! Limits at the ends of what is accepted, at instants around their windows and
//! at both ends of time, with costs around their capacity. Every pair of such
//! steps is a sequence, with two more that tell what came of it. Rounding and overflow show here: products
//! pass 2^53, fractions of a microsecond add up, sums meet the last instant.
//!
//! Deliberately not here: limits that are refused; the tests of `limit.rs` and
//! of rule files have those.

use tollgate_core::algorithm::{COST_MAX, NOW_MAX};
use tollgate_core::limit::{BUCKETS_MAX, LOG_MAX, WINDOW_MAX};
use tollgate_core::{Limit, LimitError, Micros, Operation, Refill, Shape};

use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step, compare};

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
const YEAR: u64 = 365 * DAY;

/// Windows with the ends of what is accepted, and lengths that divide badly.
const WINDOWS: &[u64] = &[1, 7, SECOND, 60 * SECOND, DAY, YEAR, WINDOW_MAX.get() - 1, WINDOW_MAX.get()];
/// Counts that share factors with no window, with all, and the ends.
const COUNTS: &[u32] = &[0, 1, 3, 1_000_003, 86_400_000, u32::MAX - 1, u32::MAX];

/// Every limit of the grid that is accepted.
///
/// # Errors
/// If one that PRODUCT promises is refused.
pub fn limits() -> Result<Vec<Limit>, LimitError> {
    let mut limits = promised()?;
    for &window in WINDOWS {
        for &count in COUNTS {
            for shape in shapes(count) {
                limits.extend(Limit::new(count, Micros::new(window), shape));
            }
        }
        let log = u32::try_from(LOG_MAX).unwrap_or(u32::MAX);
        limits.extend(Limit::new(log, Micros::new(window), Shape::SlidingLog));
    }
    // In turns, so that each combination meets several shapes and sizes.
    let vary = |(index, limit): (usize, Limit)| match index % 4 {
        0 => limit,
        1 => limit.counting_rejected(true),
        2 => limit.soft(1_000).unwrap_or(limit),
        _ => limit.soft(33).unwrap_or(limit).counting_rejected(true),
    };
    Ok(limits.into_iter().enumerate().map(vary).collect())
}

/// Limits that must be accepted.
fn promised() -> Result<Vec<Limit>, LimitError> {
    let mut limits = Vec::new();
    for (count, window) in
        [(1_000_003, DAY), (u32::MAX, SECOND), (u32::MAX, DAY), (u32::MAX, YEAR), (1, YEAR)]
    {
        for shape in shapes(count).into_iter().filter(|shape| *shape != Shape::SlidingLog) {
            limits.push(Limit::new(count, Micros::new(window), shape)?);
        }
    }
    Ok(limits)
}

fn shapes(count: u32) -> Vec<Shape> {
    let burst = count;
    vec![
        Shape::FixedWindow,
        Shape::SlidingLog,
        Shape::SlidingCounter,
        Shape::SlidingBuckets { buckets: 60 },
        Shape::SlidingBuckets { buckets: BUCKETS_MAX },
        Shape::SlidingBuckets { buckets: 1 },
        Shape::TokenBucket { burst, refill: Refill::Smooth },
        Shape::TokenBucket { burst: 2, refill: Refill::Smooth },
        Shape::TokenBucket { burst, refill: Refill::Interval },
        Shape::TokenBucket { burst: 7, refill: Refill::Interval },
        Shape::LeakyBucket { burst: burst.min(u32::MAX - 1), max_wait: None },
        Shape::LeakyBucket { burst, max_wait: Some(Micros::new(1)) },
        Shape::LeakyBucket { burst: 5, max_wait: Some(WINDOW_MAX) },
    ]
}

/// Runs every `every`th sequence of each limit in turn; the number of steps
/// that were compared. A number that is prime lets each limit meet others.
///
/// # Errors
/// The first step that engine and oracle decide differently.
pub fn run<E: Engine>(engines: &impl Fn(Limit) -> E, limits: &[Limit], every: usize) -> Result<u64, Failure> {
    let each = limits.iter().flat_map(|&limit| {
        let sequences =
            starts(limit.window().get()).into_iter().flat_map(move |start| sequences(&limit, start));
        sequences.map(move |steps| Scenario { limit, steps })
    });
    each.step_by(every).map(|scenario| compare(engines, &scenario)).sum()
}

/// The ends of time, today, and the last microsecond of a window.
fn starts(window: u64) -> [u64; 5] {
    let today = 1_800_000_000 * SECOND;
    let edge = today - today % window + (window - 1);
    let last = NOW_MAX.get();
    [0, edge, today, last.saturating_sub(window).saturating_sub(1), last]
}

/// Each first step with each second one, and a third that tells the end.
fn sequences(limit: &Limit, start: u64) -> Vec<Vec<Step>> {
    let window = limit.window().get();
    let (base, hard) = (limit.capacity(), limit.hard_capacity());
    let costs = [1, base.saturating_sub(1), base + 1, hard, u64::MAX];
    let first = costs.map(|cost| (Operation::Check, cost)).into_iter().chain([
        (Operation::Report, hard / 2 + 1),
        (Operation::Report, COST_MAX),
        (Operation::Report, u64::MAX),
    ]);
    let second = [
        (Operation::Check, 1),
        (Operation::Check, hard),
        (Operation::Report, COST_MAX),
        (Operation::Refund, base / 2 + 1),
    ];
    let gap = window / u64::from(limit.count().max(1));
    let tick = limit.tick().get();
    let ahead = [0, 1, gap, gap + 1, tick, window - 1, window, window + 1, 2 * window - 1, 2 * window];
    let mut all = Vec::new();
    for (operation, cost) in first {
        let opening = Step::new(start, operation, cost);
        let instants = ahead.iter().map(|ahead| start + ahead).chain([
            start.saturating_sub(1),
            start.saturating_sub(window),
            0,
            NOW_MAX.get(),
            u64::MAX,
        ]);
        for at in instants {
            let middle = second.map(|(operation, cost)| Step::new(at, operation, cost));
            for step in middle {
                let close = Step::new(at.saturating_add(window / 3), Operation::Check, 1);
                all.push(vec![opening, step, close, Step::new(at, Operation::Peek, 1)]);
            }
        }
    }
    all
}
