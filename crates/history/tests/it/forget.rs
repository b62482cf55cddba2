//! A key that is forgotten is in no answer and in no byte, and files are their owner's alone.

use std::fs;
use std::path::Path;

use tollgate_core::Time;
use tollgate_history::query::{KeyName, RuleFilter, TimeRange, TopQuery};
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{
    Bounds, Flush, FlushId, History, InstanceId, Label, LocalHistory, Outcome, SeriesKind, SharedHistory,
    TrafficCounts,
};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisTables;
use tollgate_testkit::RedisServer;

const START_MIN: u32 = 20_000 * 1_440;
const ALWAYS: TimeRange = TimeRange { from_s: 0, to_s: 1 << 40 };
const SECRET: &str = "token=s3cr3t";

fn key(rule: &str, name: &str) -> Label {
    Label::Key { domain: "shop".into(), rule: rule.into(), name: name.into() }
}

/// Decisions of two rules about two keys, in `minute`.
fn flush(seq: u64, minute: u32) -> Flush {
    let mut counts = TrafficCounts::default();
    for label in [key("a", SECRET), key("b", SECRET), key("a", "user=1")] {
        counts.add(minute, Label::Decisions, Outcome::Allowed, 2);
        counts.add(minute, label, Outcome::Allowed, 2);
    }
    Flush { id: FlushId { instance: InstanceId([7; 16]), seq }, counts }
}

fn keys(history: &mut impl History) -> (Vec<String>, u64) {
    let query = TopQuery::new(SeriesKind::Key, ALWAYS, 9);
    let top = history.read(|reader| reader.top(&query)).unwrap();
    let row = |row: tollgate_history::query::TopRow| format!("{} {}", row.rule.unwrap(), row.name);
    (top.rows.into_iter().map(row).collect(), top.other.total)
}

/// Some in blocks, some in the log.
fn fill(history: &mut impl History) {
    history.append(&flush(1, START_MIN)).unwrap();
    history.maintain(Time::from_secs(u64::from(START_MIN + 61) * 60)).unwrap();
    history.append(&flush(2, START_MIN + 70)).unwrap();
}

/// Forgets it under one rule, and then under all.
fn forget(history: &mut impl History, contains_secret: impl Fn() -> bool) {
    let filter = RuleFilter { rule: Some("b".into()), ..RuleFilter::default() };
    assert_eq!(history.forget(&|label| filter.takes_key(label, &KeyName::new(SECRET, ""))).unwrap(), 1);
    assert_eq!(keys(history), (vec![format!("a {SECRET}"), "a user=1".into()], 4));
    assert!(contains_secret());
    let all = RuleFilter::default();
    assert_eq!(history.forget(&|label| all.takes_key(label, &KeyName::new(SECRET, ""))).unwrap(), 1);
    assert_eq!(history.forget(&|label| all.takes_key(label, &KeyName::new(SECRET, ""))).unwrap(), 0);
    assert_eq!(keys(history), (vec!["a user=1".into()], 8), "its counts are among the others");
    assert!(!contains_secret());
    history.append(&flush(3, START_MIN + 80)).unwrap();
    assert_eq!(keys(history).0.len(), 3, "what comes later is counted as ever");
}

fn contains(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

fn folder_contains(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| contains(&fs::read(entry.unwrap().path()).unwrap()))
}

#[test]
fn a_key_is_forgotten_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let open = |access| {
        LocalHistory::open(RedbTables::open(folder.path(), access).unwrap(), Bounds::default()).unwrap()
    };
    let mut history = open(Access::Write);
    fill(&mut history);
    forget(&mut history, || folder_contains(folder.path()));
    drop(history);
    assert_eq!(keys(&mut open(Access::Read)).0.len(), 3);
}

#[test]
fn a_key_is_forgotten_on_redis() {
    let server = RedisServer::start();
    let url = server.url();
    let contains_secret = || {
        let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        keys.iter().any(|key| {
            let dump: Option<Vec<u8>> = redis::cmd("GET").arg(key).query(&mut connection).unwrap_or_default();
            let fields: Vec<Vec<u8>> =
                redis::cmd("HGETALL").arg(key).query(&mut connection).unwrap_or_default();
            dump.into_iter().chain(fields).any(|bytes| contains(&bytes))
        })
    };
    let tables = RedisTables::new(&RedisConfig::new(url.parse().unwrap())).unwrap();
    let mut history = SharedHistory::open(tables, Bounds::default()).unwrap();
    fill(&mut history);
    forget(&mut history, contains_secret);
}

#[cfg(unix)]
#[test]
fn files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("data");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let open = || drop(RedbTables::open(&folder, Access::Write).unwrap());
    open();
    let files = ["history.redb", "history.lock"].map(|name| folder.join(name));
    assert_eq!((mode(&folder), files.each_ref().map(|file| mode(file))), (0o700, [0o600; 2]));
    // As older versions made them.
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    open();
    assert_eq!(files.each_ref().map(|file| mode(file)), [0o600; 2]);
}
