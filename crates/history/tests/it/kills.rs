//! `kill -9` at any moment: what was acknowledged is there, and there once.
//!
//! Method: a child process (this test binary again) appends numbered flushes and
//! says so; it is killed at a random moment 50 times. Each time the folder is
//! opened, every flush up to the last one must count, and none after it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_core::Time;
use tollgate_history::query::{SeriesQuery, TimeRange};
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{
    Bounds, Flush, FlushId, History, InstanceId, Label, LocalHistory, Outcome, SeriesKind, TrafficCounts,
};

use crate::log::XorShift;

const KILLS: u64 = 50;
const INSTANCE: InstanceId = InstanceId([5; 16]);
/// Names the folder to the child.
const FOLDER: &str = "TOLLGATE_TEST_KILLS_FOLDER";
const START_MIN: u32 = 20_000 * 1_440;

/// Flush `seq`: twelve minutes later than the last, so that hours are compacted every
/// five flushes and days rolled up every 120.
fn flush(seq: u64) -> (Flush, Time) {
    let minute = START_MIN + 12 * u32::try_from(seq).unwrap();
    let mut counts = TrafficCounts::default();
    for (route, count) in counts_of(seq) {
        counts.add(minute, Label::Requests, Outcome::Allowed, count);
        counts.add(minute, Label::Route(format!("/{route}").into()), Outcome::Allowed, count);
    }
    (Flush { id: FlushId { instance: INSTANCE, seq }, counts }, Time::from_secs(u64::from(minute) * 60))
}

fn counts_of(seq: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..200).map(move |route| (route, 1 + (seq * 7 + route * 13) % 11))
}

fn open(folder: &Path) -> LocalHistory<RedbTables> {
    LocalHistory::open(RedbTables::open(folder, Access::Write).unwrap(), Bounds::default()).unwrap()
}

/// Does nothing unless it is called by the test below.
#[test]
fn the_child_appends_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut history = open(Path::new(&folder));
    let mut seq = history.reader().unwrap().last_flush(INSTANCE).unwrap().unwrap_or(0);
    let mut out = std::io::stdout();
    loop {
        seq += 1;
        let (flush, now) = flush(seq);
        history.append(&flush).unwrap();
        writeln!(out, "acknowledged {seq}").unwrap();
        history.maintain(now).unwrap();
    }
}

#[test]
fn no_acknowledged_flush_is_lost_or_counted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = XorShift(3);
    let mut last = 0;
    for kill in 0..KILLS {
        let acknowledged = run_and_kill(folder.path(), &mut random);
        let history = open(folder.path());
        let written = history.reader().unwrap().last_flush(INSTANCE).unwrap().unwrap_or(0);
        assert!(
            written >= acknowledged.max(last),
            "kill {kill}: {acknowledged} acknowledged, {written} there"
        );
        check(&history, written);
        let damaged = history.reader().unwrap().status().unwrap().damaged;
        assert_eq!(damaged, 0, "kill {kill}: a crash is no damage");
        last = written;
    }
    println!("{last} flushes over {KILLS} kills, every sum exact");
}

/// The number of the last flush that the child told of before it was killed.
fn run_and_kill(folder: &Path, random: &mut XorShift) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::the_child_appends_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    let wanted = 1 + random.below(40);
    let mut told = 0;
    while told < wanted {
        let line = lines.next().unwrap().unwrap();
        // The harness may put its own words before ours.
        if let Some((_, seq)) = line.split_once("acknowledged ") {
            acknowledged = seq.parse().unwrap();
            told += 1;
        }
    }
    // Somewhere within the next append or compaction: a commit takes some 5 ms.
    (0..random.below(4_000_000)).for_each(|n| {
        std::hint::black_box(n);
    });
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged
}

fn check(history: &LocalHistory<RedbTables>, written: u64) {
    let range = TimeRange { from_s: 0, to_s: 1 << 40 };
    let all: u64 = (1..=written).flat_map(counts_of).map(|(_, count)| count).sum();
    assert_eq!(history.reader().unwrap().summary(range).unwrap().total, all);
    for route in [0, 99, 199] {
        let name = Some(format!("/{route}"));
        let answer = history
            .reader()
            .unwrap()
            .series(&SeriesQuery { name, ..SeriesQuery::new(SeriesKind::Route, range) })
            .unwrap();
        let of_route = (1..=written).flat_map(counts_of).filter(|(counted, _)| *counted == route);
        assert_eq!(answer.total, of_route.map(|(_, count)| count).sum::<u64>());
    }
}
