//! Commits that stop half-way, at every step that they have.

use tollgate_testkit::RedisServer;

use super::*;

fn engines(server: &RedisServer) -> [RedisEngine; 2] {
    let config = RedisConfig::new(server.url().parse().unwrap());
    [(); 2].map(|()| {
        let mut engine = RedisEngine::new(&config).unwrap();
        engine.renew().unwrap();
        engine
    })
}

fn batch(value: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.remove(Table::Meta, b"old".to_vec());
    batch.put(Table::Meta, b"new".to_vec(), value.to_vec());
    batch.put(Table::Blocks, vec![1; 9], vec![9; 2 * redo::PART_BYTES]);
    batch
}

fn next(batch: &Batch) -> (Root, Vec<Vec<u8>>) {
    let parts = redo::encode(batch);
    let head = Root::new_head();
    let root = Root { head, parts: parts.len().try_into().unwrap(), chunks: vec![vec![1; 5]] };
    (root, parts)
}

#[test]
fn what_is_noted_and_not_in_force_has_not_happened() {
    let server = RedisServer::start();
    let [one, mut other] = engines(&server);
    let (root, parts) = next(&batch(b"lost"));
    one.note(&root, &parts).unwrap();
    assert!(!other.renew().unwrap());
    assert_eq!(other.get(Table::Meta, b"new").unwrap(), None);
    other.commit(&batch(b"won")).unwrap();
    assert!(matches!(one.put_in_force(&root), Err(Error::Moved)));
    assert_eq!(other.get(Table::Meta, b"new").unwrap().as_deref(), Some(&b"won"[..]));
}

#[test]
fn what_is_in_force_is_made_true_by_whoever_comes() {
    let server = RedisServer::start();
    let [mut one, mut other] = engines(&server);
    let mut first = Batch::default();
    first.put(Table::Meta, b"old".to_vec(), b"1".to_vec());
    one.commit(&first).unwrap();
    other.renew().unwrap();
    let batch = batch(b"2");
    let (root, parts) = next(&batch);
    one.note(&root, &parts).unwrap();
    one.put_in_force(&root).unwrap();
    assert!(matches!(other.get(Table::Meta, b"old"), Err(Error::Moved)), "the old edition is over");
    assert!(other.renew().unwrap());
    assert_eq!(other.get(Table::Meta, b"old").unwrap(), None);
    assert_eq!(other.get(Table::Meta, b"new").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(other.first_key(Table::Blocks, &[]..&[0xff]).unwrap(), Some(vec![1; 9]));
    assert_eq!(server.cli(&["exists", &one.names.redo]), "0");
    // Whoever has slept meanwhile may do it again, and it changes nothing.
    one.make_true(&root, &batch).unwrap();
    assert!(!other.renew().unwrap());
    // But not when there is a newer edition.
    first.put(Table::Meta, b"new".to_vec(), b"3".to_vec());
    other.commit(&first).unwrap();
    assert!(matches!(one.make_true(&root, &batch), Err(Error::Moved)));
    assert_eq!(other.get(Table::Meta, b"new").unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_note_that_another_has_swept_away_in_part_is_not_put_in_force() {
    let server = RedisServer::start();
    let [one, _] = engines(&server);
    let (root, parts) = next(&batch(b"torn"));
    one.note(&root, &parts).unwrap();
    server.cli(&[
        "eval",
        "redis.call('HDEL', KEYS[1], redis.call('HKEYS', KEYS[1])[1])",
        "1",
        &one.names.redo,
    ]);
    assert!(matches!(one.put_in_force(&root), Err(Error::Moved)));
}

#[test]
fn flushes_that_nobody_folds_are_bounded() {
    let server = RedisServer::start();
    let [mut one, _] = engines(&server);
    let fill = "for n = 1, 24000 do redis.call('HSET', KEYS[1], n, 'x') end";
    server.cli(&["eval", fill, "1", &one.names.table(Table::Log)]);
    let refused = one.post(FlushName { instance: Instance([1; 16]), seq: 1 }, b"one more").unwrap_err();
    assert!(matches!(refused, Error::Full { most: 24_000 }));
}
