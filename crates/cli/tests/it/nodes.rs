//! Real nodes on a real Redis, one of which is killed: penalties, lists and overrides hold on the
//! others, and from a terminal.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::redis::wait_until;
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::serve::{ANY, Serving, get_until, post};

const RULES: &str = "
domain: shop
descriptors:
  - key: login
    rate_limit:
      name: login
      algorithm: sliding_log
      requests_per_unit: 4
      unit: day
      penalty: { after: 3, within: 1h, block: 24h }
  - key: listed
    rate_limit: { name: listed, requests_per_unit: 1, unit: year, allow: [10.0.0.0/8], deny: [evil] }
  - key: user
    rate_limit: { name: user, algorithm: sliding_log, requests_per_unit: 2, unit: day }
";

/// Far more than the second that is promised, for a machine that builds something else meanwhile.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(20);

struct SharingNode {
    serving: Serving,
    http: SocketAddr,
    admin: SocketAddr,
}

impl SharingNode {
    fn start(folder: &Path, store: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("serve").args(ANY).args(["--rules", "rules.yaml", "--store", store]);
        // The usual timeout is short for a machine that builds something else meanwhile.
        command.env_clear().env("REDIS_TIMEOUT", "2s");
        let mut serving = Serving::run(&mut command, folder);
        let http = serving.address("/v1) listens on ");
        let admin = serving.address("http://");
        get_until(http, "/healthcheck", "200 OK");
        Self { serving, http, admin }
    }

    fn ask(&self, path: &str, key: &str, value: &str) -> Value {
        let body = format!(r#"{{"domain":"shop","descriptors":[{{"{key}":"{value}"}}]}}"#);
        let answer = post(self.http, path, &body);
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// The verdict and the reason.
    fn check(&self, key: &str, value: &str) -> (String, Option<String>) {
        let reply = self.ask("/v1/check", key, value);
        (reply["verdict"].as_str().unwrap().to_owned(), reply["reason"].as_str().map(str::to_owned))
    }

    fn user_limit(&self) -> u64 {
        self.ask("/v1/peek", "user", "42")["decisions"][0]["limit"].as_u64().unwrap()
    }

    /// Runs `tollgate override` against this node: what it prints.
    fn terminal(&self, args: &[&str]) -> String {
        let server = format!("http://{}", self.admin);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let output = command.arg("override").args(args).args(["--server", &server]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn kill(mut self) {
        self.serving.signal("KILL");
        assert_eq!(self.serving.exit_code(), None);
    }
}

fn denied(reason: &str) -> (String, Option<String>) {
    ("deny".to_owned(), Some(reason.to_owned()))
}

fn allowed() -> (String, Option<String>) {
    ("allow".to_owned(), None)
}

fn three(store: &str) -> (tempfile::TempDir, [SharingNode; 3]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let nodes = [(); 3].map(|()| SharingNode::start(folder.path(), store));
    (folder, nodes)
}

/// Denials are counted across nodes; the block outlives the node that began it.
fn a_block_is_everybodys(store: &str) {
    let (_folder, [first, second, third]) = three(store);
    for node in [&first, &second, &third, &first] {
        assert_eq!(node.check("login", "eve"), allowed());
    }
    for node in [&second, &third] {
        assert_eq!(node.check("login", "eve"), ("deny".to_owned(), None), "used up, and not blocked yet");
    }
    first.check("login", "eve");
    first.kill();
    for node in [&second, &third, &second] {
        assert_eq!(node.check("login", "eve"), denied("penalty"));
        assert_eq!(node.check("login", "bob"), allowed(), "nobody else is meant");
    }
    let blocked = third.ask("/v1/peek", "login", "eve")["retry_after_ms"].as_u64().unwrap();
    assert!((80_000_000..=86_400_000).contains(&blocked), "a day: {blocked}");
    for node in [&second, &third] {
        assert_eq!(node.check("listed", "evil"), denied("deny_list"));
        for _ in 0..3 {
            assert_eq!(node.check("listed", "10.1.2.3").0, "allow");
        }
    }
    assert_eq!(second.check("listed", "bob"), allowed());
    assert_eq!(third.check("listed", "bob").0, "deny", "who is on no list is counted together");
}

#[test]
fn a_block_on_redis_holds_on_all_nodes_though_the_one_that_began_it_is_killed() {
    let redis = RedisServer::start();
    a_block_is_everybodys(&redis.url());
}

#[test]
fn a_block_on_a_cluster_holds_on_all_nodes_though_the_one_that_began_it_is_killed() {
    let cluster = RedisCluster::start();
    a_block_is_everybodys(&cluster.url());
}

#[test]
fn without_redis_a_block_and_lists_hold_and_new_blocks_begin() {
    let mut redis = RedisServer::start();
    let (_folder, [first, second, third]) = three(&redis.url());
    for _ in 0..7 {
        first.check("login", "eve");
    }
    // Each has seen the block.
    for node in [&first, &second, &third] {
        assert_eq!(node.check("login", "eve"), denied("penalty"));
    }
    redis.kill();
    for node in [&first, &second, &third] {
        let reply = node.ask("/v1/check", "login", "eve");
        assert_eq!((&reply["verdict"], &reply["reason"]), (&"deny".into(), &"penalty".into()), "{reply}");
        assert_eq!(node.check("listed", "evil"), denied("deny_list"));
        assert_eq!(node.check("listed", "10.1.2.3").0, "allow");
    }
    // A node alone counts strikes, too: of its share, one or two of four.
    let verdicts: Vec<_> = (0..8).map(|_| second.check("login", "mallory")).collect();
    assert_eq!(verdicts[0].0, "allow", "{verdicts:?}");
    assert_eq!(verdicts[7], denied("penalty"), "{verdicts:?}");
    let degraded = second.ask("/v1/check", "login", "mallory");
    assert_eq!(degraded["decisions"][0]["degraded"], true, "{degraded}");
}

#[test]
fn an_override_from_the_terminal_is_in_force_on_all_nodes_though_the_one_that_took_it_is_killed() {
    let redis = RedisServer::start();
    let (_folder, [first, second, third]) = three(&redis.url());
    let by = ["--for", "1h", "--reason", "a sale", "--who", "ada"];
    let made = first.terminal(&[&["add", "shop", "user=42", "--limit", "5"][..], &by].concat());
    assert!(made.contains("shop user=42: 5") && made.contains("ada: a sale"), "{made}");
    assert_eq!(first.user_limit(), 5, "at once where it was made");
    for node in [&second, &third] {
        wait_until("the override is in force", IN_FORCE_WITHIN, || node.user_limit() == 5);
    }
    first.terminal(&[&["add", "shop", "listed=10.1.2.3", "--deny"][..], &by].concat());
    first.terminal(&[&["add", "shop", "login=eve", "--unlimited"][..], &by].concat());
    first.kill();
    wait_until("deny is in force", IN_FORCE_WITHIN, || {
        second.check("listed", "10.1.2.3") == denied("override")
    });
    for node in [&second, &third] {
        wait_until("unlimited is in force", IN_FORCE_WITHIN, || {
            node.check("login", "eve") == ("allow".to_owned(), Some("override".to_owned()))
        });
    }
    for _ in 0..20 {
        assert_eq!(second.check("login", "eve").0, "allow", "no strike, no block");
    }
    let admitted =
        (0..10).filter(|turn| [&second, &third][turn % 2].check("user", "42").0 == "allow").count();
    assert_eq!(admitted, 5);
    let list = third.terminal(&["list"]);
    assert!(list.contains("3 overrides, kept in Redis, for all nodes"), "{list}");
    let id = made.split_whitespace().next().unwrap();
    let removed = third.terminal(&["remove", id, "--reason", "over", "--who", "bob"]);
    assert!(removed.starts_with("removed shop user=42: 5"), "{removed}");
    wait_until("the rule is back", IN_FORCE_WITHIN, || second.user_limit() == 2 && third.user_limit() == 2);
    assert_eq!(second.check("user", "42").0, "deny", "what was taken counts");
}

#[test]
fn an_override_that_cannot_be_is_refused_in_words() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let node = SharingNode::start(folder.path(), &redis.url());
    let server = format!("http://{}", node.admin);
    let refused = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let output = command.arg("override").args(args).args(["--server", &server]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let by = ["--for", "1h", "--reason", "r", "--who", "ada"];
    let (code, words) = refused(&[&["add", "shop", "nobody=1", "--limit", "5"][..], &by].concat());
    assert_eq!(code, Some(1));
    assert!(words.contains("no rule is about this descriptor"), "{words}");
    let (code, words) = refused(&["remove", "0123456789abcdef", "--reason", "r", "--who", "ada"]);
    assert_eq!(code, Some(1));
    assert!(words.contains("there is no override with this id"), "{words}");
    assert_eq!(refused(&[&["add", "shop", "user=1"][..], &by].concat()).0, Some(64), "no effect is named");
}
