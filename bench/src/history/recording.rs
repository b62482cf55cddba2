//! What recording costs: a decision on the request path, and a flush every 15 seconds.
//!
//! The mix is that of a busy server: 50 routes, 10 rules, and keys by Zipf's law.

use std::hint::black_box;

use anyhow::Result;
use fastrand::Rng;
use tollgate_core::Time;
use tollgate_history::{Caps, DecisionCount, InstanceId, Outcome, Recorder, RequestCount};

use super::table::BoundsTable;
use super::traffic::processor_ns;
use crate::figures::ratio;

const ROUTES: u64 = 50;
const RULES: u64 = 10;
const KEYS: u64 = 10_000;
/// Decisions that are made beforehand and recorded again and again.
const MADE_UP: usize = 1 << 15;
const TIMES: u64 = 4;
/// The least of so many repeats counts.
const REPEATS: usize = 40;

/// What one decision is about.
struct RecordedDecision {
    route: String,
    rule: String,
    key: String,
    outcome: Outcome,
}

/// Measures both.
///
/// # Errors
/// If the system does not tell how long it took.
pub fn run(table: &mut BoundsTable) -> Result<()> {
    let decisions = decisions();
    let recorder = Recorder::new(InstanceId::random(), Caps::default());
    let now = Time::from_secs(1_800_000_000);
    let record = |RecordedDecision { route, rule, key, outcome }: &RecordedDecision| {
        let asked = RequestCount { route: Some(route), outcome: *outcome, count: 1 };
        let ruled = DecisionCount { domain: "shop", rule, key: Some(key), outcome: *outcome, count: 1 };
        recorder.record(Some(&asked), Some(&ruled), now);
    };
    // A server has these texts in its cache; fetching them is not to be measured.
    let read = |RecordedDecision { route, rule, key, .. }: &RecordedDecision| {
        black_box([route, rule, key].map(|text| text.bytes().last()));
    };
    decisions.iter().for_each(record);
    let (mut recorded, mut fetched) = (u64::MAX, u64::MAX);
    for _ in 0..REPEATS {
        fetched = fetched.min(per_decision(&decisions, read)?);
        recorded = recorded.min(per_decision(&decisions, record)?);
    }
    let seen = recorded.saturating_sub(fetched);
    table.at_most("a decision, towards its route, its rule and its key", 5_000, seen, "ns");
    let begin = processor_ns()?;
    let flush = recorder.flush(now);
    let spent = processor_ns()? - begin;
    table.note(
        "a name, when a process first flushes",
        ratio(spent, u64::try_from(flush.counts.rows())?),
        "ns",
    );
    Ok(())
}

/// Nanoseconds of processor time for each, in hundredths.
fn per_decision(decisions: &[RecordedDecision], act: impl Fn(&RecordedDecision)) -> Result<u64> {
    let begin = processor_ns()?;
    for _ in 0..TIMES {
        decisions.iter().for_each(&act);
    }
    let spent = processor_ns()? - begin;
    Ok(ratio(spent, TIMES * u64::try_from(decisions.len())?))
}

fn decisions() -> Vec<RecordedDecision> {
    let mut random = Rng::with_seed(7);
    let mut decided = |_| {
        // Each number as often as the reciprocal of its size: as many below 16 as above 600.
        let mut zipf = |end: u64| {
            let bits = random.u32(..14);
            random.u64(..1 << bits) % end
        };
        let user = zipf(KEYS);
        RecordedDecision {
            route: format!("/api/v1/resource-{:02}", zipf(ROUTES)),
            rule: format!("rule-{}", user % RULES),
            key: format!("user_id={user:06}"),
            outcome: if user.is_multiple_of(10) { Outcome::Denied } else { Outcome::Allowed },
        }
    };
    (0..MADE_UP).map(&mut decided).collect()
}
