//! One suite over all tables: in memory, in a folder, on Redis, on a cluster.

use std::ops::ControlFlow;

use tollgate_core::{Micros, Time};
use tollgate_history::tables::{Access, MemoryTables, RedbTables, SharedTables, TableId, Tables, WriteBatch};
use tollgate_history::{AppendResult, Error, FlushId, InstanceId};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisTables;
use tollgate_testkit::{RedisCluster, RedisServer};

/// What all tables promise.
const PROMISES: [fn(&mut dyn Tables); 5] = [
    what_was_put_is_there_until_it_is_removed,
    scans_go_in_the_order_of_bytes_and_stop_when_told,
    many_are_got_by_their_places,
    an_error_of_a_visitor_ends_the_call,
    a_large_batch_is_written_whole,
];

/// What shared tables promise besides.
const SHARED_PROMISES: [fn([RedisTables; 2]); 5] = [
    all_have_the_clock_of_the_server,
    a_flush_is_appended_once,
    nobody_commits_upon_an_old_generation,
    what_one_commits_another_reads,
    one_leads_at_a_time,
];

/// Tables behind a prefix that nobody else has.
fn redis(url: &str, prefix: &str) -> RedisTables {
    let mut config = RedisConfig::new(url.parse().unwrap());
    config.key_prefix = prefix.into();
    let mut tables = RedisTables::new(&config).unwrap();
    tables.refresh().unwrap();
    tables
}

fn hold_to_all(url: &str) {
    for (n, promise) in PROMISES.into_iter().enumerate() {
        promise(&mut redis(url, &format!("one-{n}:")));
    }
    for (n, promise) in SHARED_PROMISES.into_iter().enumerate() {
        promise([(); 2].map(|()| redis(url, &format!("two-{n}:"))));
    }
}

#[test]
fn memory_keeps_the_promises() {
    PROMISES.into_iter().for_each(|promise| promise(&mut MemoryTables::default()));
}

#[test]
fn a_folder_keeps_the_promises() {
    for promise in PROMISES {
        let folder = tempfile::tempdir().unwrap();
        promise(&mut RedbTables::open(folder.path(), Access::Write).unwrap());
    }
}

#[test]
fn redis_keeps_the_promises() {
    hold_to_all(&RedisServer::start().url());
}

#[test]
fn a_cluster_keeps_the_promises() {
    hold_to_all(&RedisCluster::start().url());
}

fn put(tables: &mut dyn Tables, table: TableId, pairs: &[(&[u8], &[u8])]) {
    let mut batch = WriteBatch::default();
    for (key, value) in pairs {
        batch.put(table, key.to_vec(), value.to_vec());
    }
    tables.commit(&batch).unwrap();
}

fn keys(tables: &dyn Tables, from: &[u8], to: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let visit = &mut |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    };
    tables.scan(TableId::Blocks, from..to, visit).unwrap();
    keys
}

fn what_was_put_is_there_until_it_is_removed(tables: &mut dyn Tables) {
    put(tables, TableId::Meta, &[(b"", b"empty key"), (b"a", b""), (b"b", b"2")]);
    assert_eq!(tables.get(TableId::Meta, b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(tables.get(TableId::Meta, b"a").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(tables.get(TableId::Log, b"a").unwrap(), None, "tables do not see each other");
    let mut batch = WriteBatch::default();
    batch.put(TableId::Meta, b"b".to_vec(), b"3".to_vec());
    batch.remove(TableId::Meta, b"b".to_vec());
    batch.remove(TableId::Meta, b"a".to_vec());
    batch.remove(TableId::Meta, b"never there".to_vec());
    tables.commit(&batch).unwrap();
    assert_eq!(tables.get(TableId::Meta, b"a").unwrap(), None);
    assert_eq!(tables.get(TableId::Meta, b"b").unwrap().as_deref(), Some(&b"3"[..]), "removes come first");
}

fn scans_go_in_the_order_of_bytes_and_stop_when_told(tables: &mut dyn Tables) {
    let pairs: Vec<(&[u8], &[u8])> =
        vec![(b"\x01\xff", b"x"), (b"\x01", b"x"), (b"\x02", b"x"), (b"\x01\x00", b"x"), (b"\xff\xff", b"x")];
    put(tables, TableId::Blocks, &pairs);
    put(tables, TableId::Log, &[(b"\x01\x01", b"x")]);
    let within = keys(tables, b"\x01", b"\x02");
    assert_eq!(within, [&b"\x01"[..], b"\x01\x00", b"\x01\xff"]);
    assert_eq!(keys(tables, b"\x02", b"\x01"), Vec::<Vec<u8>>::new());
    assert_eq!(keys(tables, b"\x01", b"\x01"), Vec::<Vec<u8>>::new());
    let mut seen = 0;
    let visit = &mut |_: &[u8], _: &[u8]| {
        seen += 1;
        Ok(ControlFlow::Break(()))
    };
    tables.scan(TableId::Blocks, &[]..b"\xff\xff\xff", visit).unwrap();
    assert_eq!(seen, 1);
}

fn many_are_got_by_their_places(tables: &mut dyn Tables) {
    put(tables, TableId::Blocks, &[(b"a", b"1"), (b"c", b"3")]);
    let mut got = Vec::new();
    let keys = [b"c".to_vec(), b"b".to_vec(), b"a".to_vec()];
    tables
        .get_many(TableId::Blocks, &keys, &mut |place, value| {
            got.push((place, value.to_vec()));
            Ok(())
        })
        .unwrap();
    got.sort();
    assert_eq!(got, [(0, b"3".to_vec()), (2, b"1".to_vec())]);
}

fn a_large_batch_is_written_whole(tables: &mut dyn Tables) {
    let mut batch = WriteBatch::default();
    for n in 0..700_u32 {
        batch.put(TableId::Blocks, [&[1, 0, 0, 0, 60][..], &n.to_be_bytes()].concat(), vec![7; 1_000]);
        batch.put(TableId::Series, n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec());
    }
    batch.put(TableId::Blocks, vec![2; 9], vec![8; 300_000]);
    tables.commit(&batch).unwrap();
    assert_eq!(keys(tables, &[], &[0xff; 10]).len(), 701);
    assert_eq!(tables.get(TableId::Blocks, &[2; 9]).unwrap().map(|value| value.len()), Some(300_000));
    assert_eq!(tables.first_key(TableId::Blocks, &[2][..]..&[3][..]).unwrap(), Some(vec![2; 9]));
    let mut rows = 0;
    let visit = &mut |key: &[u8], value: &[u8]| {
        rows += usize::from(key == value);
        Ok(ControlFlow::Continue(()))
    };
    tables.scan(TableId::Series, &[]..&[0xff; 10], visit).unwrap();
    assert_eq!(rows, 700);
    let mut batch = WriteBatch::default();
    for n in 0..700_u32 {
        batch.remove(TableId::Blocks, [&[1, 0, 0, 0, 60][..], &n.to_be_bytes()].concat());
    }
    tables.commit(&batch).unwrap();
    assert_eq!(keys(tables, &[], &[0xff; 10]), [vec![2; 9]]);
}

const ID: FlushId = FlushId { instance: InstanceId([5; 16]), seq: 0x0102 };

fn log_entries(tables: &RedisTables) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    };
    tables.log_entries(&|_| true, visit).unwrap();
    all
}

fn a_flush_is_appended_once([mut one, mut other]: [RedisTables; 2]) {
    assert_eq!(one.append(ID, b"first").unwrap(), AppendResult::Written);
    assert_eq!(other.append(ID, b"again").unwrap(), AppendResult::Repeated);
    assert_eq!(log_entries(&other), [(ID.key().to_vec(), b"first".to_vec())]);
    let mut compaction = WriteBatch::default();
    compaction.remove(TableId::Log, ID.key().to_vec());
    compaction.put(TableId::LastFlush, ID.instance.0.to_vec(), ID.seq.to_be_bytes().to_vec());
    one.commit(&compaction).unwrap();
    for (seq, expected) in [
        (0x0102, AppendResult::Repeated),
        (0x00ff, AppendResult::Repeated),
        (0x0103, AppendResult::Written),
        (0x0200, AppendResult::Written),
        (u64::MAX, AppendResult::Written),
    ] {
        assert_eq!(other.append(FlushId { seq, ..ID }, b"late").unwrap(), expected, "{seq}");
    }
    assert_eq!(log_entries(&one).len(), 3);
    one.log_entries(&|_| false, &mut |_, _| panic!("none was wanted")).unwrap();
}

fn an_error_of_a_visitor_ends_the_call(tables: &mut dyn Tables) {
    put(tables, TableId::Blocks, &[(b"a", b"1"), (b"b", b"2")]);
    let mut visits = 0;
    let scanned = tables.scan_all(TableId::Blocks, &mut |_, _| {
        visits += 1;
        Err(Error::Stale)
    });
    assert!(matches!((scanned, visits), (Err(Error::Stale), 1)));
    let keys = [b"a".to_vec(), b"b".to_vec()];
    let got = tables.get_many(TableId::Blocks, &keys, &mut |_, _| {
        visits += 1;
        Err(Error::Stale)
    });
    assert!(matches!((got, visits), (Err(Error::Stale), 2)));
}

fn nobody_commits_upon_an_old_generation([mut one, mut other]: [RedisTables; 2]) {
    put(&mut one, TableId::Meta, &[(b"a", b"1")]);
    let mut batch = WriteBatch::default();
    batch.put(TableId::Meta, b"a".to_vec(), b"2".to_vec());
    assert!(matches!(other.commit(&batch), Err(Error::Stale)));
    assert!(matches!(other.get(TableId::Meta, b"a"), Err(Error::Stale)), "nor does anybody read it");
    assert!(matches!(
        other.scan(TableId::Meta, &[]..&[0xff], &mut |_, _| Ok(ControlFlow::Continue(()))),
        Err(Error::Stale)
    ));
    assert_eq!(one.get(TableId::Meta, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(other.refresh().unwrap());
    other.commit(&batch).unwrap();
    assert!(matches!(one.get(TableId::Meta, b"a"), Err(Error::Stale)));
    assert!(one.refresh().unwrap() && !one.refresh().unwrap());
    assert_eq!(one.get(TableId::Meta, b"a").unwrap().as_deref(), Some(&b"2"[..]));
}

fn all_have_the_clock_of_the_server([one, other]: [RedisTables; 2]) {
    let (first, second) = (one.clock().unwrap(), other.clock().unwrap());
    assert!(first > Time::from_secs(1_700_000_000), "{first:?}");
    assert!(second >= first && second.since(first) < Micros::from_secs(60), "{first:?} and {second:?}");
}

fn what_one_commits_another_reads([mut one, mut other]: [RedisTables; 2]) {
    for n in 0..5_u8 {
        put(&mut one, TableId::Blocks, &[(&[1, 0, 0, 0, n, 0, 0, 0, 9], b"block")]);
        assert!(other.refresh().unwrap());
        assert_eq!(keys(&other, &[], &[0xff; 10]).len(), usize::from(n) + 1);
        std::mem::swap(&mut one, &mut other);
    }
    assert!(one.size_bytes().unwrap().unwrap() > 5 * 9);
}

fn one_leads_at_a_time([mut one, mut other]: [RedisTables; 2]) {
    assert!(one.try_lead().unwrap());
    assert!(!other.try_lead().unwrap());
    assert!(one.try_lead().unwrap(), "until it lets go");
}

#[test]
fn a_folder_keeps_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables = RedbTables::open(folder.path(), Access::Write).unwrap();
    put(&mut tables, TableId::Meta, &[(b"a", b"1")]);
    drop(tables);
    let tables = RedbTables::open(folder.path(), Access::Read).unwrap();
    assert_eq!(tables.get(TableId::Meta, b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_folder_that_is_open_is_refused_with_the_process_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let tables = RedbTables::open(folder.path(), Access::Write).unwrap();
    for access in [Access::Write, Access::Read] {
        let error = RedbTables::open(folder.path(), access).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(
            error.to_string().ends_with(&format!("is in use by process {}", std::process::id())),
            "{error}"
        );
    }
    drop(tables);
    let readers = [Access::Read, Access::Read].map(|access| RedbTables::open(folder.path(), access).unwrap());
    let error = RedbTables::open(folder.path(), Access::Write).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(readers);
    RedbTables::open(folder.path(), Access::Write).unwrap();
}

#[test]
fn reading_makes_no_folder_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nothing here");
    assert!(matches!(RedbTables::open(&missing, Access::Read), Err(Error::Missing { .. })));
    assert!(!missing.exists());
    drop(RedbTables::open(folder.path(), Access::Write).unwrap());
    let mut tables = RedbTables::open(folder.path(), Access::Read).unwrap();
    assert!(tables.commit(&WriteBatch::default()).is_err());
}

#[test]
fn a_file_that_is_no_history_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("history.redb"), vec![b'x'; 10_000]).unwrap();
    for access in [Access::Read, Access::Write] {
        assert!(matches!(RedbTables::open(folder.path(), access), Err(Error::DamagedFile { .. })));
    }
}
