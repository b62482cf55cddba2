//! No line of a log counts twice: not in a second import, nor after the log has
//! grown, nor when the first import was stopped.

use std::io::{BufReader, Read};

use tollgate_core::Time;
use tollgate_history::import::{ImportReport, Importer};
use tollgate_history::query::{TimeRange, TopQuery};
use tollgate_history::tables::MemoryTables;
use tollgate_history::{Bounds, Error, History, LocalHistory, SeriesKind};
use tollgate_testkit::nasa_log;

use crate::log::common_lines;

const NOW: Time = Time::from_secs(1_800_000_000);
const ALWAYS: TimeRange = TimeRange { from_s: 0, to_s: 1 << 40 };

fn import(history: &mut LocalHistory<MemoryTables>, log: &str) -> ImportReport {
    Importer::new(history, NOW).import(|| Ok(log.as_bytes()), &mut common_lines()).unwrap()
}

fn total(history: &LocalHistory<MemoryTables>) -> u64 {
    history.reader().unwrap().summary(ALWAYS).unwrap().total
}

#[test]
fn a_log_is_imported_once_whatever_its_name_and_length() {
    let log = nasa_log();
    let lines = u64::try_from(log.lines().count()).unwrap();
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let half = log.match_indices('\n').nth(log.lines().count() / 2).unwrap().0 + 1;
    let first = import(&mut history, &log[..half]);
    assert_eq!((first.known_bytes, first.read), (0, first.imported + first.not_understood));
    let rest = import(&mut history, &log);
    assert_eq!(rest.known_bytes, u64::try_from(half).unwrap());
    assert_eq!(first.read + rest.read, lines);
    let before = total(&history);
    assert_eq!(before, first.imported + rest.imported);
    for known in [&log[..half], &log] {
        let again = import(&mut history, known);
        assert_eq!((again.read, total(&history)), (0, before));
    }
    let other = import(&mut history, &log[half..]);
    assert_eq!(other.known_bytes, 0, "another beginning is another log");
}

#[test]
fn the_real_counts_are_told() {
    let log = nasa_log();
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    import(&mut history, &log);
    let top = history.reader().unwrap().top(&TopQuery::new(SeriesKind::Route, ALWAYS, 5)).unwrap();
    for row in top.rows {
        let asked = format!(" {} ", row.name);
        let with_query = format!(" {}?", row.name);
        let lines = log.lines().filter(|line| line.contains(&asked) || line.contains(&with_query));
        assert_eq!(row.total, u64::try_from(lines.count()).unwrap(), "{}", row.name);
    }
}

/// Reads so many bytes and then fails.
struct Stops<R>(R, usize);

impl<R: Read> Read for Stops<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.1 == 0 {
            return Err(std::io::Error::other("the disk is gone"));
        }
        let most = buffer.len().min(self.1);
        let read = self.0.read(&mut buffer[..most])?;
        self.1 -= read;
        Ok(read)
    }
}

#[test]
fn an_import_that_was_stopped_goes_on() {
    let line = |n: u64| {
        format!("h - - [01/Aug/1995:00:{:02}:00 -0400] \"GET /{} HTTP/1.0\" 200 1\n", n / 2_000, n % 7)
    };
    let log: String = (0..120_000).map(line).collect();
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let stops = || Ok(BufReader::new(Stops(log.as_bytes(), log.len() * 3 / 4)));
    let stopped = Importer::new(&mut history, NOW).import(stops, &mut common_lines());
    assert!(matches!(stopped, Err(Error::File { .. })));
    assert_eq!(total(&history), 50_000, "whole pieces are written");
    let rest = import(&mut history, &log);
    assert_eq!((rest.imported, total(&history)), (70_000, 120_000));
}

#[test]
fn any_bytes_are_read_without_harm() {
    let mut bytes = b"h - - [01/Aug/1995:00:00:00 -0400] \"GET /\xff\xfe HTTP/1.0\" 200 1\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 300_000));
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let open = || Ok(bytes.as_slice());
    let imported = Importer::new(&mut history, NOW).import(open, &mut common_lines()).unwrap();
    assert_eq!((imported.imported, imported.not_understood), (1, 5));
}

#[test]
fn lines_from_the_future_are_left_out_unless_they_are_allowed() {
    let line = |year: u32| format!("h - - [01/Aug/{year}:00:00:01 +0000] \"GET /a HTTP/1.0\" 200 1\n");
    let log = line(2024) + &line(2099);
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let report = import(&mut history, &log);
    assert_eq!((report.imported, report.future, total(&history)), (1, 1, 1));
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let mut importer = Importer::new(&mut history, NOW).allow_future();
    let report = importer.import(|| Ok(log.as_bytes()), &mut common_lines()).unwrap();
    assert_eq!((report.imported, report.future, total(&history)), (2, 0, 2));
}
