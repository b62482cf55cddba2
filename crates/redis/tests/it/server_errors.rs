//! Every error that a real server may reply.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tollgate_core::{Entry, Limit, Shape};
use tollgate_redis::{RedisStore, StoreFailure};
use tollgate_testkit::RedisServer;

use crate::support::{check, eventually, every_algorithm, hasty, limit, now, store};
use tollgate_limiter::Store;

const BACK_MAX: Duration = Duration::from_secs(3);

fn hourly() -> Limit {
    limit(1000, 3600, Shape::SlidingLog)
}

async fn is_counted(store: &RedisStore) -> bool {
    !check(store, "a", &hourly()).await.1
}

/// After `break_it` requests are decided without the store, for that reason;
/// after `mend_it` by the store again.
async fn degrades_and_comes_back(
    store: &RedisStore,
    failure: StoreFailure,
    break_it: impl FnOnce(),
    mend_it: impl FnOnce(),
) {
    eventually("the store is counted on", BACK_MAX, async || is_counted(store).await).await;
    break_it();
    eventually("it is not any more", BACK_MAX, async || !is_counted(store).await).await;
    assert!(store.stats().failures(failure) > 0, "{failure:?} {:?}", store.stats());
    for _ in 0..20 {
        assert!(!is_counted(store).await, "and stays away");
    }
    mend_it();
    eventually("counting in Redis is back", BACK_MAX, async || is_counted(store).await).await;
    assert!(!store.stats().is_degraded());
}

#[tokio::test]
async fn a_server_that_became_a_replica() {
    let (server, master) = (RedisServer::start(), RedisServer::start());
    let store = store(&server.url());
    let port = master.port().to_string();
    degrades_and_comes_back(
        &store,
        StoreFailure::ReadOnly,
        || drop(server.cli(&["replicaof", "127.0.0.1", &port])),
        || drop(server.cli(&["replicaof", "no", "one"])),
    )
    .await;
}

#[tokio::test]
async fn a_server_without_memory() {
    let server = RedisServer::start();
    let store = store(&server.url());
    degrades_and_comes_back(
        &store,
        StoreFailure::OutOfMemory,
        || drop(server.cli(&["config", "set", "maxmemory", "1"])),
        || drop(server.cli(&["config", "set", "maxmemory", "0"])),
    )
    .await;
}

#[tokio::test]
async fn a_server_that_wants_replicas_it_does_not_have() {
    let server = RedisServer::start();
    let store = store(&server.url());
    degrades_and_comes_back(
        &store,
        StoreFailure::Unwritable,
        || drop(server.cli(&["config", "set", "min-replicas-to-write", "1"])),
        || drop(server.cli(&["config", "set", "min-replicas-to-write", "0"])),
    )
    .await;
}

#[tokio::test]
async fn a_server_that_forbids_it() {
    let server = RedisServer::start();
    let store = store(&server.url());
    degrades_and_comes_back(
        &store,
        StoreFailure::Forbidden,
        || drop(server.cli(&["acl", "setuser", "default", "-evalsha", "-set"])),
        || drop(server.cli(&["acl", "setuser", "default", "+@all"])),
    )
    .await;
}

#[tokio::test]
async fn what_may_not_be_read_is_not_discarded() {
    let server = RedisServer::start();
    let store = store(&server.url());
    eventually("the store is counted on", BACK_MAX, async || is_counted(&store).await).await;
    let keys = server.cli(&["keys", "t1:{*"]);
    server.cli(&["acl", "setuser", "default", "-get"]);
    eventually("it is not any more", BACK_MAX, async || !is_counted(&store).await).await;
    assert!(store.stats().failures(StoreFailure::Forbidden) > 0, "{:?}", store.stats());
    assert_eq!(store.stats().discarded.get(), 0);
    assert!(keys.lines().all(|key| server.cli(&["exists", key]) == "1"), "{keys}");
}

#[tokio::test]
async fn a_server_that_reads_its_data_from_disk() {
    // One key takes 10 ms, and clients are answered every few keys.
    let slow = ["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start_with(&slow);
    let store = store(&server.url());
    eventually("the store is counted on", BACK_MAX, async || is_counted(&store).await).await;
    let fill = "for i = 1, 3000 do redis.call('SET', 'filler' .. i, string.rep(tostring(i), 100)) end";
    server.cli(&["eval", fill, "0"]);
    server.cli(&["save"]);
    server.restart_unready();
    eventually("it says that it loads", Duration::from_secs(10), async || {
        server.cli(&["ping"]).contains("LOADING")
    })
    .await;
    eventually("which is no answer", BACK_MAX, async || {
        !is_counted(&store).await && store.stats().failures(StoreFailure::Loading) > 0
    })
    .await;
    std::fs::remove_file(server.folder().join("dump.rdb")).unwrap();
    server.restart();
    eventually("counting in Redis is back", BACK_MAX, async || is_counted(&store).await).await;
}

#[tokio::test]
async fn what_is_not_ours_under_our_key_is_discarded() {
    let server = RedisServer::start();
    let store = store(&server.url());
    for (number, limit) in every_algorithm(10).into_iter().enumerate() {
        let user = format!("u{number}");
        let entries = [Entry { key: "user", value: &user }];
        let key = crate::support::charge(&entries, &limit).key;
        let name = tollgate_redis::keys::name("", &key);
        for garbage in [
            &["lpush", &name, "x"][..],
            &["hset", &name, "f", "x"],
            &["set", &name, "garbage"],
            &["set", &name, ""],
            &["set", &name, "99999999999999999999 5"],
            &["set", &name, "99999999999999999999 5 7"],
            &["set", &name, "1 99999999999999999 1 9:x"],
            &["set", &name, "99999999999999999999 99999999999999999999 1 1:"],
        ] {
            server.cli(&["del", &name]);
            server.cli(garbage);
            let (decision, degraded) = check(&store, &user, &limit).await;
            assert!(!degraded, "{garbage:?} {:?}", store.stats());
            assert_eq!(decision.remaining, 9, "begins again: {limit:?} {garbage:?}");
            assert_eq!(check(&store, &user, &limit).await.0.remaining, 8, "and is counted from then on");
        }
        assert!(store.reset(&key, now()).await);
        assert!(!store.reset(&key, now()).await, "there is nothing any more");
    }
    assert!(store.stats().discarded.get() > 0);
}

#[tokio::test]
async fn connections_that_are_cut_are_made_again() {
    let server = RedisServer::start();
    let store = hasty(&server.url());
    eventually("the store is counted on", BACK_MAX, async || is_counted(&store).await).await;
    let before = store.stats().connections.get();
    for _ in 0..5 {
        server.cli(&["client", "kill", "type", "normal", "skipme", "yes"]);
        eventually("counted on again", BACK_MAX, async || is_counted(&store).await).await;
    }
    assert!(store.stats().connections.get() > before);
    assert_eq!(store.stats().opened.get(), 0, "a cut connection is no reason to give the server up");
}

#[tokio::test]
async fn a_password_that_is_wrong_degrades_and_is_never_told() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    let wrong = store(&server.url().replace("://", "://:s3cret@"));
    assert!(!is_counted(&wrong).await);
    assert!(!format!("{wrong:?}").contains("s3cret"));
    let right = store(&server.url().replace("://", "://:right@"));
    assert!(is_counted(&right).await);
    let in_three = store(&(server.url().replace("://", "://:right@") + "/3"));
    assert!(is_counted(&in_three).await);
    assert!(server.cli(&["-a", "right", "-n", "3", "keys", "*"]).contains("t1:"));
    let mut least = vec!["-a", "right"];
    least.extend(access_list().split(' '));
    assert_eq!(server.cli(&least), "OK");
    let user = store(&server.url().replace("://", "://tollgate:password@"));
    assert!(is_counted(&user).await);
}

/// The access list that the guide asks for.
fn access_list() -> &'static str {
    let guide = include_str!("../../../../docs/guide/redis.md");
    guide.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap()
}

/// The commands that scripts and the history use, in capital letters.
fn commands_in_use() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["lua", "lua/history", "src/history"].map(|name| folder.join(name));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut commands = BTreeSet::new();
    for file in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(file).unwrap();
        for (at, quote) in text.match_indices(['"', '\'']) {
            let behind = &text[at + quote.len()..];
            let word = behind.split(|c: char| !c.is_ascii_uppercase()).next().unwrap_or_default();
            if word.len() > 2 && behind[word.len()..].starts_with(quote) {
                commands.insert(word.to_owned());
            }
        }
    }
    commands
}

#[test]
fn the_access_list_of_the_guide_has_every_command_in_use() {
    // An error, and options of commands.
    let others = ["WRONGTYPE", "COUNT", "KEEPTTL"];
    let words = access_list().split([' ', '|']).filter_map(|word| word.strip_prefix('+'));
    let allowed: Vec<_> = words.map(str::to_uppercase).collect();
    let in_use = commands_in_use();
    let missing: Vec<_> = in_use
        .iter()
        .filter(|command| !allowed.contains(command) && !others.contains(&command.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(in_use.contains("HSCAN") && in_use.contains("TIME"), "they are found: {in_use:?}");
}
