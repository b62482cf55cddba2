//! A damaged file is named, and never answers differently without a word.
//!
//! Method: bits all over a small history are flipped, one at a time, and the file is
//! opened and asked. It must answer as before, say what is damaged, or fail with an
//! error; a panic would end the test.

use std::fs;
use std::path::Path;

use tollgate_core::Time;
use tollgate_history::query::{SeriesQuery, TimeRange, TopQuery};
use tollgate_history::tables::{Access, MemoryTables, RedbTables, TableId, Tables, WriteBatch};
use tollgate_history::{
    Bounds, Error, Flush, FlushId, History, InstanceId, Label, LocalHistory, Outcome, SeriesKind,
    TrafficCounts,
};

const START_MIN: u32 = 20_000 * 1_440;
const FILE: &str = "history.redb";
/// Bits that are flipped.
const FLIPS: usize = 1_200;

fn flush(seq: u64, start_min: u32) -> Flush {
    let mut counts = TrafficCounts::default();
    for minute in start_min..start_min + 90 {
        counts.add_request(minute, Some("/cart"), Outcome::Allowed);
        counts.add(minute, Label::Decisions, Outcome::Denied, 3);
        let key = Label::Key {
            domain: "shop".into(),
            rule: "user".into(),
            name: format!("user_id={minute}").into(),
        };
        counts.add(minute, key, Outcome::Denied, 3);
    }
    Flush { id: FlushId { instance: InstanceId([7; 16]), seq }, counts }
}

fn fill(history: &mut impl History) {
    for (seq, day) in (1..).zip([0, 9, 10]) {
        let start_min = START_MIN + day * 1_440;
        history.append(&flush(seq, start_min)).unwrap();
        history.maintain(Time::from_secs(u64::from(start_min + 91) * 60)).unwrap();
    }
}

/// Everything that can be asked, and how much of it is said to be damaged.
fn answers(history: &impl History) -> Result<(String, u64), Error> {
    let reader = history.reader()?;
    let range = TimeRange { from_s: u64::from(START_MIN) * 60, to_s: u64::from(START_MIN + 11 * 1_440) * 60 };
    let summary = reader.summary(range)?;
    let tops = SeriesKind::ALL.map(|kind| reader.top(&TopQuery::new(kind, range, 1_000)));
    let curves = SeriesKind::ALL.map(|kind| reader.series(&SeriesQuery::new(kind, range)));
    let text = format!("{summary:?}{:?}{:?}", all(tops)?, all(curves)?);
    Ok((text, reader.status()?.damaged))
}

fn all<T>(results: impl IntoIterator<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    results.into_iter().collect()
}

fn open(folder: &Path, access: Access) -> Result<LocalHistory<RedbTables>, Error> {
    LocalHistory::open(RedbTables::open(folder, access)?, Bounds::default())
}

/// Places in the file, evenly over all pages that hold anything.
fn places(bytes: &[u8]) -> Vec<usize> {
    let is_used = |page: &[u8]| page.iter().any(|byte| *byte != 0);
    let pages = bytes.chunks(4_096).enumerate().filter(|(_, page)| is_used(page));
    let used: Vec<usize> =
        pages.flat_map(|(at, page)| (0..page.len()).map(move |n| at * 4_096 + n)).collect();
    let mut places: Vec<usize> = used.iter().copied().step_by(used.len() / FLIPS).collect();
    // Every byte of the header, where the commit in force is named.
    places.extend(0..320);
    places
}

#[test]
fn no_flipped_bit_of_a_file_answers_differently_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = open(folder.path(), Access::Write).unwrap();
    fill(&mut history);
    drop(history);
    let path = folder.path().join(FILE);
    let sound = fs::read(&path).unwrap();
    let (expected, damaged) = answers(&open(folder.path(), Access::Read).unwrap()).unwrap();
    assert_eq!((damaged, fs::read(&path).unwrap() == sound), (0, true), "to read changes nothing");
    let (mut same, mut named) = (0, 0);
    for (n, place) in places(&sound).into_iter().enumerate() {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (n % 8);
        fs::write(&path, &bytes).unwrap();
        match open(folder.path(), Access::Read).and_then(|history| answers(&history)) {
            Ok((came, _)) if came == expected => same += 1,
            Ok((_, damaged)) => {
                assert!(damaged > 0, "bit {} of byte {place} changes an answer", n % 8);
                named += 1;
            }
            Err(error) => {
                assert!(!error.full().is_empty());
                named += 1;
            }
        }
        assert!(fs::read(&path).unwrap() == bytes, "to read changes nothing");
        if n.is_multiple_of(10) {
            // A server writes to it, closes it and is not ended by it.
            if let Ok(mut history) = open(folder.path(), Access::Write) {
                drop(history.append(&flush(9, START_MIN + 11 * 1_440)));
                drop(history.maintain(Time::from_secs(u64::from(START_MIN + 12 * 1_440) * 60)));
            }
        }
    }
    assert!(named > FLIPS / 4, "{named} flips were noticed, and {same} changed nothing");
}

#[test]
fn no_flipped_bit_of_a_row_answers_differently_without_a_word() {
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    fill(&mut history);
    let (expected, _) = answers(&history).unwrap();
    let tables = history.into_tables();
    for table in TableId::ALL {
        let mut rows = Vec::new();
        let visit = &mut |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(std::ops::ControlFlow::Continue(()))
        };
        tables.scan_all(table, visit).unwrap();
        for (n, (key, value)) in rows.into_iter().enumerate() {
            let mut value = value;
            let place = n * 37 % value.len();
            value[place] ^= 1 << (n % 8);
            let mut batch = WriteBatch::default();
            batch.put(table, key, value);
            let mut damaged = tables.clone();
            damaged.commit(&batch).unwrap();
            let came = LocalHistory::open(damaged, Bounds::default()).and_then(|history| answers(&history));
            if let Ok((came, damaged)) = came {
                assert!(came == expected || damaged > 0, "row {n} of {} changes an answer", table.name());
            }
        }
    }
}
