//! Commits that stop half-way, at every step that they have.

use tollgate_testkit::RedisServer;

use super::*;

fn tables(server: &RedisServer) -> [RedisTables; 2] {
    let config = RedisConfig::new(server.url().parse().unwrap());
    [(); 2].map(|()| {
        let mut tables = RedisTables::new(&config).unwrap();
        tables.refresh().unwrap();
        tables
    })
}

fn batch(value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    batch.remove(TableId::Meta, b"old".to_vec());
    batch.put(TableId::Meta, b"new".to_vec(), value.to_vec());
    batch.put(TableId::Blocks, vec![1; 9], vec![9; 2 * redo::PART_BYTES]);
    batch
}

fn next(batch: &WriteBatch) -> (Manifest, Vec<Vec<u8>>) {
    let parts = redo::encode(batch);
    let generation = Manifest::new_generation();
    let redo_parts = parts.len().try_into().unwrap();
    (Manifest { generation, redo_parts, chunks: vec![vec![1; 5]] }, parts)
}

#[test]
fn a_redo_log_that_is_not_in_force_has_not_happened() {
    let server = RedisServer::start();
    let [one, mut other] = tables(&server);
    let (root, parts) = next(&batch(b"lost"));
    one.write_redo(&root, &parts).unwrap();
    assert!(!other.refresh().unwrap());
    assert_eq!(other.get(TableId::Meta, b"new").unwrap(), None);
    other.commit(&batch(b"won")).unwrap();
    assert!(matches!(one.publish(&root), Err(Error::Stale)));
    assert_eq!(other.get(TableId::Meta, b"new").unwrap().as_deref(), Some(&b"won"[..]));
}

#[test]
fn what_is_in_force_is_read_and_the_next_commit_applies_it() {
    let server = RedisServer::start();
    let [mut one, mut other] = tables(&server);
    let mut first = WriteBatch::default();
    first.put(TableId::Meta, b"old".to_vec(), b"1".to_vec());
    first.put(TableId::Log, b"entry".to_vec(), b"1".to_vec());
    one.commit(&first).unwrap();
    other.refresh().unwrap();
    let mut batch = batch(b"2");
    batch.remove(TableId::Log, b"entry".to_vec());
    let (root, parts) = next(&batch);
    one.write_redo(&root, &parts).unwrap();
    one.publish(&root).unwrap();
    assert!(matches!(other.get(TableId::Meta, b"old"), Err(Error::Stale)), "the old generation is over");
    assert!(other.refresh().unwrap());
    let is_read = |other: &RedisTables| {
        assert_eq!(other.get(TableId::Meta, b"old").unwrap(), None);
        assert_eq!(other.get(TableId::Meta, b"new").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(other.first_key(TableId::Meta, &[]..&[0xff]).unwrap(), Some(b"new".to_vec()));
        assert_eq!(other.first_key(TableId::Blocks, &[]..&[0xff]).unwrap(), Some(vec![1; 9]));
        assert_eq!(other.get(TableId::Blocks, &[1; 9]).unwrap(), Some(vec![9; 2 * redo::PART_BYTES]));
        other.log_entries(&|_| true, &mut |_, _| panic!("it is in blocks")).unwrap();
    };
    is_read(&other);
    assert_eq!(server.cli(&["exists", &one.keys.redo]), "1", "reading writes nothing");
    // A process that has slept meanwhile may go on, and nothing changes for readers.
    one.apply(&root, &batch).unwrap();
    is_read(&other);
    assert!(!other.refresh().unwrap());
    is_read(&other);
    assert_eq!(server.cli(&["exists", &one.keys.redo]), "0");
    // But not when there is a newer generation.
    other.commit(&first).unwrap();
    assert!(matches!(one.apply(&root, &batch), Err(Error::Stale)));
    assert_eq!(other.get(TableId::Meta, b"new").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_commit_that_was_interrupted_is_applied_by_the_next() {
    let server = RedisServer::start();
    let [one, mut other] = tables(&server);
    let batch = batch(b"1");
    let (root, parts) = next(&batch);
    one.write_redo(&root, &parts).unwrap();
    one.publish(&root).unwrap();
    other.refresh().unwrap();
    let mut more = WriteBatch::default();
    more.put(TableId::Meta, b"more".to_vec(), b"2".to_vec());
    other.commit(&more).unwrap();
    assert_eq!(server.cli(&["hget", &one.keys.table(TableId::Meta), "new"]), "1");
    assert_eq!(server.cli(&["hget", &one.keys.table(TableId::Meta), "more"]), "2");
    assert_eq!(server.cli(&["exists", &one.keys.redo]), "0");
}

#[test]
fn a_redo_log_that_is_not_complete_is_not_put_in_force() {
    let server = RedisServer::start();
    let [one, _] = tables(&server);
    let (root, parts) = next(&batch(b"torn"));
    one.write_redo(&root, &parts).unwrap();
    server.cli(&[
        "eval",
        "redis.call('HDEL', KEYS[1], redis.call('HKEYS', KEYS[1])[1])",
        "1",
        &one.keys.redo,
    ]);
    assert!(matches!(one.publish(&root), Err(Error::Stale)));
}

#[test]
fn the_log_is_bounded() {
    let server = RedisServer::start();
    let [mut one, _] = tables(&server);
    let fill = "for n = 1, 24000 do redis.call('HSET', KEYS[1], n, 'x') end";
    server.cli(&["eval", fill, "1", &one.keys.table(TableId::Log)]);
    let refused = one.append(FlushId { instance: InstanceId([1; 16]), seq: 1 }, b"one more").unwrap_err();
    assert!(matches!(refused, Error::Full { most: 24_000 }));
}
