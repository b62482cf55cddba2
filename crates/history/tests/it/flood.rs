//! Ten made-up paths for each real one, and room for 1,000 names.
//!
//! Method: the log is played through a recorder with a flush every 15 seconds, and
//! an attacker asks for ten other paths at every request, from before the first.

use std::collections::{HashMap, HashSet};

use tollgate_core::Time;
use tollgate_history::query::{TimeRange, TopQuery};
use tollgate_history::route::normalise;
use tollgate_history::tables::MemoryTables;
use tollgate_history::{
    Bounds, Caps, FLUSH_EVERY_S, History, InstanceId, LocalHistory, Outcome, Recorder, RequestCount,
    SeriesKind,
};

use crate::log::{XorShift, requests};

const CAP: usize = 1_000;
const ATTACKS: u64 = 10;

struct PlayedLog {
    history: LocalHistory<MemoryTables>,
    truth: HashMap<String, u64>,
    sent: u64,
}

/// Plays the log while somebody asks for each made-up path so many times.
fn play(times: u64) -> PlayedLog {
    let caps = Caps { routes: CAP, all: CAP, ..Caps::default() };
    let recorder = Recorder::new(InstanceId([3; 16]), caps);
    let mut history =
        LocalHistory::open(MemoryTables::default(), Bounds { series: CAP, ..Bounds::default() }).unwrap();
    let mut random = XorShift(11);
    let mut truth: HashMap<String, u64> = HashMap::new();
    let (mut sent, mut next_flush) = (0, 0);
    let ask = |route: &str, now| {
        recorder.request(&RequestCount { route: Some(route), outcome: Outcome::Allowed, count: 1 }, now);
    };
    for (second, target) in requests() {
        let now = Time::from_secs(second);
        if second >= next_flush {
            next_flush = second + FLUSH_EVERY_S;
            history.append(&recorder.flush(now)).unwrap();
            history.maintain(now).unwrap();
            assert!(recorder.tracked() <= CAP && history.reader().unwrap().status().unwrap().series <= CAP);
        }
        for _ in 0..ATTACKS {
            ask(&format!("/made-up/{}", random.below(400_000 / times)), now);
        }
        let route = normalise(&target);
        ask(&route, now);
        *truth.entry(route.into_owned()).or_default() += 1;
        sent += ATTACKS + 1;
    }
    history.append(&recorder.flush(Time::from_secs(next_flush))).unwrap();
    PlayedLog { history, truth, sent }
}

fn real_ones_survive(times: u64) {
    let PlayedLog { history, truth, sent } = play(times);
    let range = TimeRange { from_s: 0, to_s: 1 << 40 };
    assert_eq!(history.reader().unwrap().summary(range).unwrap().total, sent, "totals are exact");
    let top = history.reader().unwrap().top(&TopQuery::new(SeriesKind::Route, range, 10_000)).unwrap();
    assert!(top.rows.len() <= CAP);
    let shown: u64 = top.rows.iter().map(|row| row.total).sum();
    assert_eq!(shown + top.other.total, sent);
    let mut real: Vec<(&String, &u64)> = truth.iter().collect();
    real.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let names: HashSet<&str> = top.rows.iter().map(|row| row.name.as_str()).collect();
    let kept = real.iter().take(100).filter(|(name, _)| names.contains(name.as_str())).count();
    println!("{kept} of the 100 most frequent paths kept their series");
    assert!(kept >= 95, "{kept} of 100");
    for row in &top.rows {
        if let Some(true_count) = truth.get(&row.name) {
            assert!(row.total <= *true_count, "{} is counted too often", row.name);
        }
    }
}

#[test]
fn paths_that_come_once_or_twice_take_no_place() {
    real_ones_survive(1);
}

#[test]
fn paths_that_come_five_times_take_no_place() {
    real_ones_survive(5);
}
