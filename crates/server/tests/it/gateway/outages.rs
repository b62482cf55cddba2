//! What is behind the gateway is away: the store, the API, both.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate_testkit::RedisServer;

use super::api;
use super::kept::{KeptConnection, status};
use crate::support::{Setup, eventually, http};

/// One request a year, and this while the store is away.
fn rules(on_store_error: &str) -> String {
    format!(
        "domain: gateway\ndescriptors:\n  - key: remote_address\n    \
         rate_limit: {{ unit: year, requests_per_unit: 1, on_store_error: {on_store_error} }}\n"
    )
}

/// A store that is away is what each limit says, and never a 500.
#[tokio::test]
async fn without_redis_each_limit_does_what_it_says() {
    let mut redis = RedisServer::start();
    redis.kill();
    for (on_store_error, expected) in [("allow", [200, 200]), ("deny", [429, 429]), ("local", [200, 429])] {
        let server = Setup::new(&[("gateway.yaml", &rules(on_store_error))])
            .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
            .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
            .env("TOLLGATE_UPSTREAM", api().await)
            .start()
            .await;
        let gateway = server.addresses.gateway.unwrap();
        let answers = [http::get(gateway, "/").await, http::get(gateway, "/").await];
        assert_eq!(answers.each_ref().map(|answer| answer.0), expected, "{on_store_error}");
        // A limit that nobody has used says so.
        let is_told = answers[1].1.contains("denies everything while its store cannot be asked");
        assert_eq!(is_told, on_store_error == "deny", "{}", answers[1].1);
    }
}

/// With both away, what is limited is limited, and all else is told that the API is away.
#[tokio::test]
async fn without_redis_and_without_the_api_limits_go_on() {
    let mut redis = RedisServer::start();
    redis.kill();
    let server = Setup::new(&[("gateway.yaml", &rules("local"))])
        .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", "http://127.0.0.1:1")
        .start()
        .await;
    let gateway = server.addresses.gateway.unwrap();
    let (status, body) = http::get(gateway, "/").await;
    assert!(status == 502 && body.contains("the upstream cannot be reached"), "{status} {body}");
    assert_eq!(http::get(gateway, "/").await.0, 429);
}

/// Two requests a year for each path of each client, and for each beginning of a path this while the store is away.
fn rules_by_path() -> String {
    let rule = |word: &str| {
        format!(
            "  - key: path\n    value: /{word}/*\n    descriptors:\n      - key: remote_address\n        \
             rate_limit: {{ unit: year, requests_per_unit: 2, on_store_error: {word} }}\n"
        )
    };
    format!("domain: gateway\ndescriptors:\n{}", MODES.map(rule).concat())
}

const MODES: [&str; 3] = ["allow", "deny", "local"];
/// As `REDIS_TIMEOUT` takes it, in milliseconds: long enough for a machine that does something else meanwhile.
const STORE_TIMEOUT: Duration = Duration::from_millis(250);
/// What a request may take besides, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(3);

/// A client that asks all the time, for another path each time.
struct SteadyAsking {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    /// The statuses that came, and the longest that one took to come.
    clients: Vec<JoinHandle<(BTreeSet<u16>, Duration)>>,
}

impl SteadyAsking {
    fn start(gateway: SocketAddr) -> Self {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = MODES.map(|mode| {
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
            tokio::spawn(async move {
                let mut connection = KeptConnection::open(gateway).await.unwrap();
                let (mut statuses, mut longest) = (BTreeSet::new(), Duration::ZERO);
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let begun = tokio::time::Instant::now();
                    let answer = connection.get(&format!("/{mode}/{number}")).await.unwrap();
                    longest = longest.max(begun.elapsed());
                    statuses.insert(status(&answer));
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                (statuses, longest)
            })
        });
        Self { stop, asked, clients: clients.into() }
    }

    /// Waits until so many more are answered.
    async fn goes_on(&self, count: usize) {
        let until = self.asked.load(Ordering::Relaxed) + count;
        eventually("requests are answered", || async { self.asked.load(Ordering::Relaxed) >= until }).await;
    }

    /// What came of it: for `allow`, for `deny` and for `local`.
    async fn end(self) -> Vec<(BTreeSet<u16>, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ends = Vec::new();
        for client in self.clients {
            ends.push(client.await.unwrap());
        }
        ends
    }
}

/// The statuses of three requests for one path.
async fn three(gateway: SocketAddr, path: &str) -> [u16; 3] {
    let mut statuses = [0; 3];
    for own in &mut statuses {
        *own = http::get(gateway, path).await.0;
    }
    statuses
}

async fn an_outage_under_traffic(away: fn(&mut RedisServer), back: fn(&mut RedisServer)) {
    let mut redis = RedisServer::start();
    let server = Setup::new(&[("gateway.yaml", &rules_by_path())])
        .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
        .env("REDIS_TIMEOUT", format!("{}ms", STORE_TIMEOUT.as_millis()))
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api().await)
        .start()
        .await;
    let gateway = server.addresses.gateway.unwrap();
    let traffic = SteadyAsking::start(gateway);
    traffic.goes_on(30).await;
    away(&mut redis);
    traffic.goes_on(60).await;
    for (mode, expected) in [("allow", [200; 3]), ("deny", [429; 3]), ("local", [200, 200, 429])] {
        assert_eq!(three(gateway, &format!("/{mode}/away")).await, expected, "{mode}, without the store");
    }
    back(&mut redis);
    // By itself: limits are those of the store again, and it has the keys.
    let number = AtomicUsize::new(0);
    eventually("the store is asked again", || async {
        let path = format!("/allow/back-{}", number.fetch_add(1, Ordering::Relaxed));
        three(gateway, &path).await == [200, 200, 429]
    })
    .await;
    assert_ne!(redis.cli(&["DBSIZE"]).trim(), "0");
    traffic.goes_on(30).await;
    for (mode, (statuses, longest)) in MODES.into_iter().zip(traffic.end().await) {
        let expected = if mode == "deny" { BTreeSet::from([200, 429]) } else { BTreeSet::from([200]) };
        assert_eq!(statuses, expected, "{mode}");
        assert!(longest < STORE_TIMEOUT + SLACK, "{mode}: a request took {longest:?}");
    }
}

#[tokio::test]
async fn a_redis_that_is_killed_under_traffic_is_no_500_and_is_found_again() {
    an_outage_under_traffic(RedisServer::kill, RedisServer::restart).await;
}

#[tokio::test]
async fn a_redis_that_hangs_under_traffic_holds_nobody_for_longer_than_the_timeout() {
    an_outage_under_traffic(|redis| redis.freeze(), |redis| redis.thaw()).await;
}
