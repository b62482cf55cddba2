//! One suite over every engine: in memory, in a folder, on Redis, on a cluster.

use std::ops::ControlFlow;

use tollgate_history::engine::{Access, Batch, Embedded, Engine, Memory, Shared, Table};
use tollgate_history::{Appended, Error, FlushName, Instance};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisEngine;
use tollgate_testkit::{RedisCluster, RedisServer};

/// What every engine promises.
const PROMISES: [fn(&mut dyn Engine); 4] = [
    what_was_put_is_there_until_it_is_removed,
    scans_go_in_the_order_of_bytes_and_stop_when_told,
    many_are_got_by_their_places,
    a_large_batch_is_written_whole,
];

/// What those promise beside that several processes write to.
const SHARED_PROMISES: [fn([RedisEngine; 2]); 4] = [
    a_post_is_written_once,
    nobody_commits_upon_an_old_edition,
    what_one_commits_another_reads,
    one_leads_at_a_time,
];

/// An engine behind a prefix that nobody else has.
fn redis(url: &str, prefix: &str) -> RedisEngine {
    let mut config = RedisConfig::new(url.parse().unwrap());
    config.key_prefix = prefix.into();
    let mut engine = RedisEngine::new(&config).unwrap();
    engine.renew().unwrap();
    engine
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
    PROMISES.into_iter().for_each(|promise| promise(&mut Memory::default()));
}

#[test]
fn a_folder_keeps_the_promises() {
    for promise in PROMISES {
        let folder = tempfile::tempdir().unwrap();
        promise(&mut Embedded::open(folder.path(), Access::Write).unwrap());
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

fn put(engine: &mut dyn Engine, table: Table, pairs: &[(&[u8], &[u8])]) {
    let mut batch = Batch::default();
    for (key, value) in pairs {
        batch.put(table, key.to_vec(), value.to_vec());
    }
    engine.commit(&batch).unwrap();
}

fn keys(engine: &dyn Engine, from: &[u8], to: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let visit = &mut |key: &[u8], _: &[u8]| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    };
    engine.scan(Table::Blocks, from..to, visit).unwrap();
    keys
}

fn what_was_put_is_there_until_it_is_removed(engine: &mut dyn Engine) {
    put(engine, Table::Meta, &[(b"", b"empty key"), (b"a", b""), (b"b", b"2")]);
    assert_eq!(engine.get(Table::Meta, b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(engine.get(Table::Meta, b"a").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(engine.get(Table::Log, b"a").unwrap(), None, "tables do not see each other");
    let mut batch = Batch::default();
    batch.put(Table::Meta, b"b".to_vec(), b"3".to_vec());
    batch.remove(Table::Meta, b"b".to_vec());
    batch.remove(Table::Meta, b"a".to_vec());
    batch.remove(Table::Meta, b"never there".to_vec());
    engine.commit(&batch).unwrap();
    assert_eq!(engine.get(Table::Meta, b"a").unwrap(), None);
    assert_eq!(engine.get(Table::Meta, b"b").unwrap().as_deref(), Some(&b"3"[..]), "removes come first");
}

fn scans_go_in_the_order_of_bytes_and_stop_when_told(engine: &mut dyn Engine) {
    let pairs: Vec<(&[u8], &[u8])> =
        vec![(b"\x01\xff", b"x"), (b"\x01", b"x"), (b"\x02", b"x"), (b"\x01\x00", b"x"), (b"\xff\xff", b"x")];
    put(engine, Table::Blocks, &pairs);
    put(engine, Table::Log, &[(b"\x01\x01", b"x")]);
    let within = keys(engine, b"\x01", b"\x02");
    assert_eq!(within, [&b"\x01"[..], b"\x01\x00", b"\x01\xff"]);
    assert_eq!(keys(engine, b"\x02", b"\x01"), Vec::<Vec<u8>>::new());
    assert_eq!(keys(engine, b"\x01", b"\x01"), Vec::<Vec<u8>>::new());
    let mut seen = 0;
    let visit = &mut |_: &[u8], _: &[u8]| {
        seen += 1;
        ControlFlow::Break(())
    };
    engine.scan(Table::Blocks, &[]..b"\xff\xff\xff", visit).unwrap();
    assert_eq!(seen, 1);
}

fn many_are_got_by_their_places(engine: &mut dyn Engine) {
    put(engine, Table::Blocks, &[(b"a", b"1"), (b"c", b"3")]);
    let mut got = Vec::new();
    let keys = [b"c".to_vec(), b"b".to_vec(), b"a".to_vec()];
    engine.get_many(Table::Blocks, &keys, &mut |place, value| got.push((place, value.to_vec()))).unwrap();
    got.sort();
    assert_eq!(got, [(0, b"3".to_vec()), (2, b"1".to_vec())]);
}

fn a_large_batch_is_written_whole(engine: &mut dyn Engine) {
    let mut batch = Batch::default();
    for n in 0..700_u32 {
        batch.put(Table::Blocks, [&[1, 0, 0, 0, 60][..], &n.to_be_bytes()].concat(), vec![7; 1_000]);
        batch.put(Table::Series, n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec());
    }
    batch.put(Table::Blocks, vec![2; 9], vec![8; 300_000]);
    engine.commit(&batch).unwrap();
    assert_eq!(keys(engine, &[], &[0xff; 10]).len(), 701);
    assert_eq!(engine.get(Table::Blocks, &[2; 9]).unwrap().map(|value| value.len()), Some(300_000));
    assert_eq!(engine.first_key(Table::Blocks, &[2][..]..&[3][..]).unwrap(), Some(vec![2; 9]));
    let mut rows = 0;
    let visit = &mut |key: &[u8], value: &[u8]| {
        rows += usize::from(key == value);
        ControlFlow::Continue(())
    };
    engine.scan(Table::Series, &[]..&[0xff; 10], visit).unwrap();
    assert_eq!(rows, 700);
    let mut batch = Batch::default();
    for n in 0..700_u32 {
        batch.remove(Table::Blocks, [&[1, 0, 0, 0, 60][..], &n.to_be_bytes()].concat());
    }
    engine.commit(&batch).unwrap();
    assert_eq!(keys(engine, &[], &[0xff; 10]), [vec![2; 9]]);
}

const NAME: FlushName = FlushName { instance: Instance([5; 16]), seq: 0x0102 };

fn posts(engine: &RedisEngine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    engine.posts(&|_| true, visit).unwrap();
    all
}

fn a_post_is_written_once([mut one, mut other]: [RedisEngine; 2]) {
    assert_eq!(one.post(NAME, b"first").unwrap(), Appended::Written);
    assert_eq!(other.post(NAME, b"again").unwrap(), Appended::Repeated);
    assert_eq!(posts(&other), [(NAME.key().to_vec(), b"first".to_vec())]);
    let mut fold = Batch::default();
    fold.remove(Table::Log, NAME.key().to_vec());
    fold.put(Table::Seen, NAME.instance.0.to_vec(), NAME.seq.to_be_bytes().to_vec());
    one.commit(&fold).unwrap();
    for (seq, expected) in [
        (0x0102, Appended::Repeated),
        (0x00ff, Appended::Repeated),
        (0x0103, Appended::Written),
        (0x0200, Appended::Written),
        (u64::MAX, Appended::Written),
    ] {
        assert_eq!(other.post(FlushName { seq, ..NAME }, b"late").unwrap(), expected, "{seq}");
    }
    assert_eq!(posts(&one).len(), 3);
    one.posts(&|_| false, &mut |_, _| panic!("none was wanted")).unwrap();
}

fn nobody_commits_upon_an_old_edition([mut one, mut other]: [RedisEngine; 2]) {
    put(&mut one, Table::Meta, &[(b"a", b"1")]);
    let mut batch = Batch::default();
    batch.put(Table::Meta, b"a".to_vec(), b"2".to_vec());
    assert!(matches!(other.commit(&batch), Err(Error::Moved)));
    assert!(matches!(other.get(Table::Meta, b"a"), Err(Error::Moved)), "nor does anybody read it");
    assert!(matches!(
        other.scan(Table::Meta, &[]..&[0xff], &mut |_, _| ControlFlow::Continue(())),
        Err(Error::Moved)
    ));
    assert_eq!(one.get(Table::Meta, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(other.renew().unwrap());
    other.commit(&batch).unwrap();
    assert!(matches!(one.get(Table::Meta, b"a"), Err(Error::Moved)));
    assert!(one.renew().unwrap() && !one.renew().unwrap());
    assert_eq!(one.get(Table::Meta, b"a").unwrap().as_deref(), Some(&b"2"[..]));
}

fn what_one_commits_another_reads([mut one, mut other]: [RedisEngine; 2]) {
    for n in 0..5_u8 {
        put(&mut one, Table::Blocks, &[(&[1, 0, 0, 0, n, 0, 0, 0, 9], b"block")]);
        assert!(other.renew().unwrap());
        assert_eq!(keys(&other, &[], &[0xff; 10]).len(), usize::from(n) + 1);
        std::mem::swap(&mut one, &mut other);
    }
    assert!(one.disk_bytes().unwrap().unwrap() > 5 * 9);
}

fn one_leads_at_a_time([mut one, mut other]: [RedisEngine; 2]) {
    assert!(one.lead().unwrap());
    assert!(!other.lead().unwrap());
    assert!(one.lead().unwrap(), "until it lets go");
}

#[test]
fn a_folder_keeps_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Embedded::open(folder.path(), Access::Write).unwrap();
    put(&mut engine, Table::Meta, &[(b"a", b"1")]);
    drop(engine);
    let engine = Embedded::open(folder.path(), Access::Read).unwrap();
    assert_eq!(engine.get(Table::Meta, b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_folder_that_is_open_is_refused_with_the_process_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(folder.path(), Access::Write).unwrap();
    for access in [Access::Write, Access::Read] {
        let error = Embedded::open(folder.path(), access).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(
            error.to_string().ends_with(&format!("is in use by process {}", std::process::id())),
            "{error}"
        );
    }
    drop(engine);
    let readers = [Access::Read, Access::Read].map(|access| Embedded::open(folder.path(), access).unwrap());
    let error = Embedded::open(folder.path(), Access::Write).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(readers);
    Embedded::open(folder.path(), Access::Write).unwrap();
}

#[test]
fn reading_makes_no_folder_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nothing here");
    assert!(matches!(Embedded::open(&missing, Access::Read), Err(Error::Missing { .. })));
    assert!(!missing.exists());
    drop(Embedded::open(folder.path(), Access::Write).unwrap());
    let mut engine = Embedded::open(folder.path(), Access::Read).unwrap();
    assert!(engine.commit(&Batch::default()).is_err());
}

#[test]
fn a_file_that_is_no_history_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("history.redb"), vec![b'x'; 10_000]).unwrap();
    for access in [Access::Read, Access::Write] {
        assert!(matches!(Embedded::open(folder.path(), access), Err(Error::Engine { .. })));
    }
}
