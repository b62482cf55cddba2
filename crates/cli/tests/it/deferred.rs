//! Requests that are sent later, by real processes that are killed: what was answered with 202 arrives,
//! and nothing arrives twice but what was on its way.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tollgate_testkit::redis::wait_until;
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::serve::{ANY, Serving, get, post};
use upstream::RecordingUpstream;

/// Far more than anything here takes, even on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(60);
const KILLS: u32 = 50;
/// What the worker has on its way at a time, of one key.
const IN_FLIGHT_MAX: usize = 8;

fn rules(limit: &str) -> String {
    format!(
        "domain: gateway\ndescriptors:\n  - key: path\n    value: /orders\n    descriptors:\n      \
         - {{ key: remote_address, rate_limit: {{ name: orders, {limit}, over_limit: defer }} }}\n"
    )
}

/// Forty a second, one at a time.
const STEADY: &str = "algorithm: token_bucket, requests_per_unit: 40, unit: second, burst: 1";
/// One, and then no more.
const ONE: &str = "requests_per_unit: 1, unit: year";

struct DeferringNode {
    serving: Serving,
    gateway: SocketAddr,
    http: SocketAddr,
    admin: SocketAddr,
}

impl DeferringNode {
    fn start(folder: &Path, upstream: &RecordingUpstream, store: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("serve").args(ANY).args(["--gateway", "127.0.0.1:0", "--upstream", &upstream.url()]);
        command.args(["--rules", "rules.yaml", "--data", "data", "--store", store]);
        // The usual timeout is short for a machine that builds something else meanwhile.
        command.env_clear().env("REDIS_TIMEOUT", "2s");
        let mut serving = Serving::run(&mut command, folder);
        let http = serving.address("/v1) listens on ");
        let admin = serving.address("http://");
        let words = serving.until("the gateway (HTTP/1.1, HTTP/2) listens on ");
        let gateway = words.split(' ').next().unwrap().parse().unwrap();
        serving.until("deferred requests are kept");
        wait_until("rules are loaded", DEADLINE, || get(http, "/healthcheck").starts_with("HTTP/1.1 200"));
        Self { serving, gateway, http, admin }
    }

    /// Sends an order: the status, and the answer.
    fn order(&self, body: &str) -> (u16, Value) {
        read(&post(self.gateway, "/orders", body))
    }

    fn status(&self, id: &str) -> Value {
        read(&get(self.gateway, &format!("/v1/deferred/{id}"))).1
    }
}

fn read(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn id(told: &Value) -> String {
    told["id"].as_str().unwrap().to_owned()
}

/// Kills a server again and again, right after it took some requests or while it sends one.
fn kill_again_and_again(store: &str, sending_rounds: u32) {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), RecordingUpstream::start());
    fs::write(folder.path().join("rules.yaml"), rules(STEADY)).unwrap();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for kill in 0..KILLS {
        upstream.begin_life(kill);
        let node = DeferringNode::start(folder.path(), &upstream, store);
        for order in 0..=kill % 4 {
            let (status, told) = node.order(&format!("{kill}/{order}"));
            assert!(status == 200 || status == 202, "{status} {told}");
            if status == 202 {
                taken.insert(id(&told));
            }
        }
        let is_waiting = upstream.deferred().len() < taken.len();
        if is_waiting && kill % (KILLS / sending_rounds) == 0 {
            let before = upstream.deferred_count();
            wait_until("one is on its way", DEADLINE, || upstream.deferred_count() > before);
        }
        // It is killed at once.
        drop(node);
    }
    upstream.begin_life(KILLS);
    let node = DeferringNode::start(folder.path(), &upstream, store);
    wait_until("all arrive", DEADLINE, || taken.iter().all(|id| upstream.deferred().contains_key(id)));
    wait_until("all are done", DEADLINE, || taken.iter().all(|id| node.status(id)["status"] == "done"));
    assert!(taken.len() > 40, "only {} were deferred", taken.len());
    check_repeats(&upstream.deferred());
}

/// In one life of the process each arrives once, and of what arrived in a life no more arrive again than
/// were on their way when it ended.
fn check_repeats(deferred: &BTreeMap<String, Vec<u32>>) {
    let mut repeated: BTreeMap<u32, usize> = BTreeMap::new();
    for (id, lives) in deferred {
        for pair in lives.windows(2) {
            assert!(pair[0] < pair[1], "{id} came twice in one life: {lives:?}");
            *repeated.entry(pair[0]).or_default() += 1;
        }
    }
    assert!(repeated.values().all(|count| *count <= IN_FLIGHT_MAX), "{repeated:?}");
}

#[test]
fn fifty_kills_lose_nothing_that_was_taken() {
    kill_again_and_again("memory", 25);
}

#[test]
fn fifty_kills_lose_nothing_that_was_taken_on_redis() {
    let redis = RedisServer::start();
    kill_again_and_again(&redis.url(), 5);
}

/// On a cluster, so that all keys must be in one slot.
#[test]
fn another_node_sends_what_a_dead_one_took() {
    let (cluster, upstream) = (RedisCluster::start(), RecordingUpstream::start());
    let folder = tempfile::tempdir().unwrap();
    // One at a time, because those that a window releases at once may overtake each other on their way.
    let steady = "algorithm: token_bucket, requests_per_unit: 8, unit: second, burst: 1";
    fs::write(folder.path().join("rules.yaml"), rules(steady)).unwrap();
    let first = DeferringNode::start(folder.path(), &upstream, &cluster.url());
    let second = DeferringNode::start(folder.path(), &upstream, &cluster.url());
    let orders: Vec<(u16, Value)> = (0..20).map(|order| first.order(&order.to_string())).collect();
    let taken: Vec<String> =
        orders.iter().filter(|(status, _)| *status == 202).map(|(_, told)| id(told)).collect();
    assert!(taken.len() >= 12 && orders.iter().all(|(status, _)| [200, 202].contains(status)), "{orders:?}");
    wait_until("the first one sends", DEADLINE, || upstream.deferred_count() > 0);
    drop(first);
    upstream.begin_life(1);
    wait_until("the second one sends the rest", DEADLINE, || {
        taken.iter().all(|id| second.status(id)["status"] == "done")
    });
    check_repeats(&upstream.deferred());
    let order: Vec<String> = upstream.bodies();
    let mut sorted = order.clone();
    sorted.sort_by_key(|body| body.parse::<u32>().unwrap());
    sorted.dedup();
    let mut once = order;
    let mut seen = BTreeSet::new();
    once.retain(|body| seen.insert(body.clone()));
    assert_eq!(once, sorted, "the first time that each arrives is in the order in which they came");
}

#[test]
fn a_node_that_stops_hands_over_what_waits() {
    let (redis, upstream) = (RedisServer::start(), RecordingUpstream::start());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), rules(ONE)).unwrap();
    let mut first = DeferringNode::start(folder.path(), &upstream, &redis.url());
    let lease = || redis.cli(&["GET", "d1:{deferred}:lease"]);
    wait_until("it sends", DEADLINE, || !lease().trim().is_empty());
    assert_eq!([first.order("passes").0, first.order("waits").0], [200, 202]);
    let holder = lease();
    first.serving.signal("TERM");
    assert_eq!(first.serving.exit_code(), Some(0));
    assert_eq!(lease().trim(), "", "{holder} has given it up");
}

#[test]
fn without_redis_a_request_is_denied_with_a_reason_and_never_an_error_of_ours() {
    let (mut redis, upstream) = (RedisServer::start(), RecordingUpstream::start());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), rules(ONE)).unwrap();
    let node = DeferringNode::start(folder.path(), &upstream, &redis.url());
    assert_eq!(node.order("passes").0, 200);
    let (status, told) = node.order("waits");
    assert_eq!(status, 202);
    redis.kill();
    let (status, denied) = node.order("is denied");
    let detail = denied["detail"].as_str().unwrap();
    assert_eq!(status, 429, "{denied}");
    assert!(
        detail.ends_with("it cannot be sent later: the queue cannot be written at the moment"),
        "{detail}"
    );
    let (status, unknown) = read(&get(node.gateway, &format!("/v1/deferred/{}", id(&told))));
    assert_eq!((status, &unknown["status"]), (503, &Value::from(503)));
    let check = r#""domain":"gateway","descriptors":[{"path":"/orders","remote_address":"9.9.9.9"}]"#;
    let body = format!(r#"{{{check},"request":{{"path":"/orders"}}}}"#);
    let (status, problem) = read(&post(node.http, "/v1/defer", &body));
    assert_eq!(status, 503, "{problem}");
    redis.restart();
    wait_until("it works again", DEADLINE, || node.order("waits").0 == 202);
}

#[test]
fn top_and_metrics_show_what_waits_and_what_became_of_it() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), RecordingUpstream::start());
    fs::write(folder.path().join("rules.yaml"), rules(ONE)).unwrap();
    let node = DeferringNode::start(folder.path(), &upstream, "memory");
    assert_eq!([node.order("1").0, node.order("2").0, node.order("3").0], [200, 202, 202]);
    let metrics = || get(node.admin, "/metrics");
    wait_until("two wait", DEADLINE, || metrics().contains("\ntollgate_deferred_waiting 2\n"));
    assert!(metrics().contains("\ntollgate_deferred_total{event=\"accepted\"} 2\n"));
    assert!(metrics().contains("\ntollgate_requests_total{outcome=\"delayed\"} 2\n"), "{}", metrics());
    let server = format!("http://{}", node.admin);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let top = command.args(["top", "--once", "--server", &server]).output().unwrap();
    let top = String::from_utf8(top.stdout).unwrap();
    assert!(top.contains("deferred: 2 waiting, 0 sent, 0 failed, 0 expired"), "{top}");
    drop(node.serving);
}
