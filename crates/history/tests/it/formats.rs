//! Files of every released format still open, and today's is what the fixture says.
//!
//! Method: a version has three fixtures in `spec/history`: every row of every table in
//! hexadecimal (`v2.txt`), a file of a folder (`v2.redb.gz`), and every key of a Redis
//! (`v2-redis.txt`). Each is opened and asked; and the rows made anew must come out the
//! same, so that no format changes without a new version and new fixtures.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use tollgate_core::Time;
use tollgate_history::query::{SeriesQuery, TimeRange, TopQuery};
use tollgate_history::tables::{Access, MemoryTables, RedbTables, TableId, Tables, WriteBatch};
use tollgate_history::{
    Bounds, Flush, FlushId, History, InstanceId, Label, LocalHistory, Outcome, SeriesKind, SharedHistory,
    TrafficCounts,
};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisTables;
use tollgate_testkit::RedisServer;

/// Every version that was ever released.
const VERSIONS: [&str; 1] = ["v2"];
/// Names the folder for the fixtures of a new version.
const MAKE: &str = "TOLLGATE_HISTORY_FIXTURES";

const DAY_MIN: u32 = 1_440;
/// The first day of a chunk of 32 days.
const START_MIN: u32 = 32 * 625 * DAY_MIN;
/// A rule that has no number yet when it is flushed.
const NEW: &str = "new";
/// The days on which something came.
const DAYS: [u32; 6] = [0, 40, 65, 78, 79, 80];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/history").join(name)
}

fn rule(name: &str) -> Label {
    Label::Rule { domain: "shop".into(), name: name.into() }
}

fn flush(seq: u32, start_min: u32) -> Flush {
    let mut counts = TrafficCounts::default();
    for n in 0..90 {
        let minute = start_min + n;
        let count = u64::from(n * n % 50 + 900);
        counts.add(minute, Label::Requests, Outcome::Allowed, count + 1);
        counts.add(minute, Label::Route("/dense".into()), Outcome::Allowed, count);
        if n.is_multiple_of(23) {
            counts.add(minute, Label::Route("/sparse".into()), Outcome::Denied, u64::from(n) + 1);
            counts.add(minute, Label::Decisions, Outcome::Denied, 2);
            counts.add(minute, rule("user"), Outcome::Denied, 2);
            let key = Label::Key { domain: "shop".into(), rule: "user".into(), name: "user_id=ü".into() };
            counts.add(minute, key, Outcome::Denied, 2);
        }
    }
    Flush { id: FlushId { instance: InstanceId([0xab; 16]), seq: u64::from(seq) }, counts }
}

/// Rolls up on the word of one flush, so that a small history has every tier.
const AT_ONCE: Bounds = Bounds { series: 50_000, hours_since: 0 };

/// A history with something in every tier and in the log.
fn fill<H: History>(mut history: H) -> H {
    for (seq, day) in (1_u32..).zip(DAYS) {
        let start_min = START_MIN + day * DAY_MIN;
        // Two hours, of which the first is compacted.
        history.append(&flush(seq, start_min + 600)).unwrap();
        history.maintain(Time::from_secs(u64::from(start_min + 661) * 60)).unwrap();
    }
    history
}

/// A history in memory with something in every tier and in the log.
fn sample() -> MemoryTables {
    fill(LocalHistory::open(MemoryTables::default(), AT_ONCE).unwrap()).into_tables()
}

/// Checks the sums of so many flushes.
fn check(history: &impl History, flushes: u64) {
    let reader = history.reader().unwrap();
    let range = TimeRange { from_s: 0, to_s: 1 << 40 };
    let dense: u64 = (0..90).map(|n| n * n % 50 + 900).sum();
    let summary = reader.summary(range).unwrap();
    assert_eq!((summary.total, summary.peak_minute), (flushes * (dense + 90), 950));
    let name = Some("user_id=ü".to_owned());
    let keys = reader.series(&SeriesQuery { name, ..SeriesQuery::new(SeriesKind::Key, range) }).unwrap();
    assert_eq!(keys.total, flushes * 4 * 2);
    let top = reader.top(&TopQuery::new(SeriesKind::Route, range, 9)).unwrap();
    let totals: Vec<u64> = top.rows.iter().map(|row| row.total).collect();
    assert_eq!(totals, [flushes * dense, flushes * (1 + 24 + 47 + 70)]);
    // The first day is kept as one point, whatever step is asked for.
    let first = TimeRange { from_s: u64::from(START_MIN) * 60, to_s: u64::from(START_MIN + DAY_MIN) * 60 };
    let name = Some("/dense".to_owned());
    let query = SeriesQuery { name, step_s: Some(60), ..SeriesQuery::new(SeriesKind::Route, first) };
    let curve = reader.series(&query).unwrap();
    assert_eq!((curve.step_s, curve.total), (86_400, dense));
}

fn dump(tables: &MemoryTables) -> String {
    let mut text = String::new();
    for table in TableId::ALL {
        let visit = &mut |key: &[u8], value: &[u8]| {
            writeln!(text, "{} {} {}", table.name(), hex(key), hex(value)).unwrap();
            Ok(ControlFlow::Continue(()))
        };
        tables.scan_all(table, visit).unwrap();
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn load(text: &str) -> MemoryTables {
    let mut batch = WriteBatch::default();
    for line in text.lines() {
        let [name, key, value] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let table = TableId::ALL.into_iter().find(|table| table.name() == name).unwrap();
        batch.put(table, unhex(key), unhex(value));
    }
    let mut tables = MemoryTables::default();
    tables.commit(&batch).unwrap();
    tables
}

/// Every key of the server but the lock, one field a line.
fn dump_redis(url: &str) -> String {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.retain(|key| !key.ends_with(b":lock"));
    keys.sort();
    let mut text = String::new();
    for key in keys {
        if let Ok(value) = redis::cmd("GET").arg(&key).query::<Vec<u8>>(&mut connection) {
            writeln!(text, "set {} {}", hex(&key), hex(&value)).unwrap();
            continue;
        }
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> =
            redis::cmd("HGETALL").arg(&key).query(&mut connection).unwrap();
        fields.sort();
        for (field, value) in fields {
            writeln!(text, "hset {} {} {}", hex(&key), hex(&field), hex(&value)).unwrap();
        }
    }
    text
}

fn load_redis(url: &str, text: &str) {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').unwrap();
        let mut command = redis::cmd(name);
        rest.split(' ').for_each(|argument| {
            command.arg(unhex(argument));
        });
        command.exec(&mut connection).unwrap();
    }
}

fn open_redis(url: &str) -> SharedHistory<RedisTables> {
    let tables = RedisTables::new(&RedisConfig::new(url.parse().unwrap())).unwrap();
    SharedHistory::open(tables, AT_ONCE).unwrap()
}

#[test]
fn rows_of_every_version_open_and_answer() {
    for version in VERSIONS {
        let text = std::fs::read_to_string(fixture(&format!("{version}.txt"))).unwrap();
        let tiers: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("blocks ")).map(|key| &key[..2]).collect();
        for tier in ["01", "02", "03", "04"] {
            assert!(tiers.contains(&tier), "the fixture has every tier");
        }
        assert!(text.contains("\nlog "));
        let history = LocalHistory::open(load(&text), AT_ONCE).unwrap();
        check(&history, 6);
        assert_eq!(history.reader().unwrap().last_flush(InstanceId([0xab; 16])).unwrap(), Some(6));
    }
}

#[test]
fn files_of_every_version_open_and_go_on() {
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let packed = File::open(fixture(&format!("{version}.redb.gz"))).unwrap();
        let mut file = File::create(folder.path().join("history.redb")).unwrap();
        io::copy(&mut GzDecoder::new(packed), &mut file).unwrap();
        let open =
            |access| LocalHistory::open(RedbTables::open(folder.path(), access).unwrap(), AT_ONCE).unwrap();
        check(&open(Access::Read), 6);
        let mut history = open(Access::Write);
        history.append(&flush(7, START_MIN + 81 * DAY_MIN)).unwrap();
        history.maintain(Time::from_secs(u64::from(START_MIN + 83 * DAY_MIN) * 60)).unwrap();
        check(&history, 7);
        drop(history);
        check(&open(Access::Read), 7);
    }
}

#[test]
fn a_redis_of_every_version_opens_and_goes_on() {
    for version in VERSIONS {
        let text = std::fs::read_to_string(fixture(&format!("{version}-redis.txt"))).unwrap();
        let server = RedisServer::start();
        load_redis(&server.url(), &text);
        let mut history = open_redis(&server.url());
        check(&history, 7);
        let name = Some(NEW.to_owned());
        let range = TimeRange { from_s: 0, to_s: 1 << 40 };
        let query = SeriesQuery { name, ..SeriesQuery::new(SeriesKind::Rule, range) };
        assert_eq!(history.reader().unwrap().series(&query).unwrap().total, 5);
        history.append(&flush(8, START_MIN + 81 * DAY_MIN)).unwrap();
        history.maintain(Time::from_secs(u64::from(START_MIN + 83 * DAY_MIN) * 60)).unwrap();
        history.refresh().unwrap();
        check(&history, 8);
    }
}

#[test]
fn what_is_written_today_is_the_last_version() {
    let came = dump(&sample());
    let last = VERSIONS.last().unwrap();
    let expected = std::fs::read_to_string(fixture(&format!("{last}.txt"))).unwrap();
    assert!(came == expected, "the format has changed: CONTRIBUTING.md says how to make a new version");
}

/// Does nothing unless it is told where to.
#[test]
fn the_fixtures_of_a_new_version_are_made() {
    let Some(prefix) = std::env::var_os(MAKE).map(PathBuf::from) else { return };
    let named = |end: &str| PathBuf::from(format!("{}{end}", prefix.display()));
    std::fs::write(named(".txt"), dump(&sample())).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let tables = RedbTables::open(folder.path(), Access::Write).unwrap();
    let mut tables = fill(LocalHistory::open(tables, AT_ONCE).unwrap()).into_tables();
    tables.compact().unwrap();
    drop(tables);
    let file = File::open(folder.path().join("history.redb")).unwrap();
    let mut packed = File::create(named(".redb.gz")).unwrap();
    io::copy(&mut GzEncoder::new(file, Compression::best()), &mut packed).unwrap();

    let server = RedisServer::start();
    let mut history = fill(open_redis(&server.url()));
    // Not compacted: a flush in the shared log, with a label that has no number yet.
    let mut last = flush(7, START_MIN + 80 * DAY_MIN + 720);
    last.counts.add(START_MIN + 80 * DAY_MIN + 720, rule(NEW), Outcome::Soft, 5);
    history.append(&last).unwrap();
    std::fs::write(named("-redis.txt"), dump_redis(&server.url())).unwrap();
}
