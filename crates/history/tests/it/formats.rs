//! Files of every released format still open, and today's is what the fixture says.
//!
//! Method: a fixture is every row of every table, in hexadecimal. It is loaded into
//! an engine and asked; and the same history made anew must come out the same, so
//! that no format changes without a new version and a new fixture.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tollgate_core::Time;
use tollgate_history::engine::{Batch, Engine, Memory, Table};
use tollgate_history::query::{SeriesQuestion, Span, TopQuestion};
use tollgate_history::{Bounds, By, Flush, FlushName, History, Instance, Label, Outcome, Tally};

const NAMES: [&str; 5] = ["meta", "series", "seen", "log", "blocks"];
const DAY_MIN: u32 = 1_440;
/// The first day of a chunk of 32 days.
const START_MIN: u32 = 32 * 625 * DAY_MIN;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/history/v1.txt")
}

/// A history with something in every tier and in the log.
fn sample() -> Memory {
    let mut history = History::open(Memory::default(), Bounds::default()).unwrap();
    for (seq, day) in (1_u32..).zip([0, 40, 65, 78, 79, 80]) {
        let mut tally = Tally::default();
        for n in 0..90 {
            // Two hours, of which the first is folded.
            let minute = START_MIN + day * DAY_MIN + 600 + n;
            let count = u64::from(n * n % 50 + 900);
            tally.add(minute, Label::Requests, Outcome::Allowed, count + 1);
            tally.add(minute, Label::Route("/dense".into()), Outcome::Allowed, count);
            if n.is_multiple_of(23) {
                tally.add(minute, Label::Route("/sparse".into()), Outcome::Denied, u64::from(n) + 1);
                tally.add(minute, Label::Rulings, Outcome::Denied, 2);
                tally.add(minute, Label::Rule("shop.user".into()), Outcome::Denied, 2);
                let key = Label::Key { rule: "shop.user".into(), name: "user_id=ü".into() };
                tally.add(minute, key, Outcome::Denied, 2);
            }
        }
        let name = FlushName { instance: Instance([0xab; 16]), seq: u64::from(seq) };
        history.append(&Flush { name, tally }).unwrap();
        history.maintain(Time::from_secs(u64::from(START_MIN + day * DAY_MIN + 661) * 60)).unwrap();
    }
    history.into_engine()
}

fn dump(engine: &Memory) -> String {
    let mut text = String::new();
    for (table, name) in Table::ALL.into_iter().zip(NAMES) {
        let visit = &mut |key: &[u8], value: &[u8]| {
            writeln!(text, "{name} {} {}", hex(key), hex(value)).unwrap();
            ControlFlow::Continue(())
        };
        engine.scan(table, &[]..&[0xff; 100], visit).unwrap();
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn load(text: &str) -> Memory {
    let mut batch = Batch::default();
    for line in text.lines() {
        let [name, key, value] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let table = Table::ALL[NAMES.iter().position(|known| *known == name).unwrap()];
        batch.put(table, unhex(key), unhex(value));
    }
    let mut engine = Memory::default();
    engine.commit(&batch).unwrap();
    engine
}

#[test]
fn version_1_opens_and_answers() {
    let text = std::fs::read_to_string(fixture()).unwrap();
    let tiers: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("blocks ")).map(|key| &key[..2]).collect();
    for tier in ["01", "02", "03", "04"] {
        assert!(tiers.contains(&tier), "the fixture has every tier");
    }
    assert!(text.contains("\nlog "));
    let history = History::open(load(&text), Bounds::default()).unwrap();
    let span = Span { from_s: 0, to_s: 1 << 40 };
    let dense: u64 = (0..90).map(|n| n * n % 50 + 900).sum();
    let summary = history.summary(span).unwrap();
    assert_eq!((summary.total, summary.peak_minute), (6 * (dense + 90), 950));
    let name = Some("user_id=ü".to_owned());
    let keys = history.series(&SeriesQuestion { name, ..SeriesQuestion::new(By::Key, span) }).unwrap();
    assert_eq!(keys.total, 6 * 4 * 2);
    let top = history.top(&TopQuestion { by: By::Route, span, limit: 9 }).unwrap();
    let totals: Vec<u64> = top.rows.iter().map(|row| row.total).collect();
    assert_eq!(totals, [6 * dense, 6 * (1 + 24 + 47 + 70)]);
    assert_eq!(history.last_flush(Instance([0xab; 16])).unwrap(), Some(6));
}

#[test]
fn what_is_written_today_is_version_1() {
    let came = dump(&sample());
    let expected = std::fs::read_to_string(fixture()).unwrap_or_default();
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("history-v1.txt");
    if came != expected {
        std::fs::write(&beside, &came).unwrap();
    }
    assert!(came == expected, "the format has changed: see {}", beside.display());
}
