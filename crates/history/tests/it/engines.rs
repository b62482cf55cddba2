//! One suite over every engine.

use std::ops::ControlFlow;

use tollgate_history::Error;
use tollgate_history::engine::{Access, Batch, Embedded, Engine, Memory, Table};

/// Runs a test over every engine, named after it.
fn each(test: impl Fn(&mut dyn Engine)) {
    test(&mut Memory::default());
    let folder = tempfile::tempdir().unwrap();
    test(&mut Embedded::open(folder.path(), Access::Write).unwrap());
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

#[test]
fn what_was_put_is_there_until_it_is_removed() {
    each(|engine| {
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
    });
}

#[test]
fn scans_go_in_the_order_of_bytes_and_stop_when_told() {
    each(|engine| {
        let pairs: Vec<(&[u8], &[u8])> = vec![
            (b"\x01\xff", b"x"),
            (b"\x01", b"x"),
            (b"\x02", b"x"),
            (b"\x01\x00", b"x"),
            (b"\xff\xff", b"x"),
        ];
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
    });
}

#[test]
fn many_are_got_by_their_places() {
    each(|engine| {
        put(engine, Table::Blocks, &[(b"a", b"1"), (b"c", b"3")]);
        let mut got = Vec::new();
        let keys = [b"c".to_vec(), b"b".to_vec(), b"a".to_vec()];
        engine.get_many(Table::Blocks, &keys, &mut |place, value| got.push((place, value.to_vec()))).unwrap();
        got.sort();
        assert_eq!(got, [(0, b"3".to_vec()), (2, b"1".to_vec())]);
    });
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
