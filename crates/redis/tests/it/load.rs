//! Servers that fail while they are under load.
//!
//! Fifty callers ask all the time, with a timeout that a busy machine keeps by
//! itself, so that a late reply is the server's fault. Whatever happens to the
//! server, no reply takes two timeouts, each limit does what its rule says, and
//! counting in Redis is back within three seconds of the server's return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_core::{Entry, Limit, OnStoreError, Shape};
use tollgate_redis::RedisStore;
use tollgate_testkit::{RedisCluster, RedisSentinel, RedisServer};

use crate::proxy::{Mood, Proxy};
use crate::support::{charge, charge_set, check, check_set, config, eventually, limit};

const CALLERS: u64 = 50;
const TIMEOUT: Duration = Duration::from_millis(100);
const BACK_MAX: Duration = Duration::from_secs(3);
/// How often each caller asks.
const EVERY: Duration = Duration::from_millis(10);

/// What callers have seen so far.
#[derive(Debug, Default)]
struct LoadReport {
    answers: AtomicU64,
    degraded: AtomicU64,
    slowest_us: AtomicU64,
    /// The longest that this machine kept a task waiting that wanted nothing.
    stall_us: AtomicU64,
    /// Requests let through that should not have been, by their rule.
    wrong: AtomicU64,
    is_over: AtomicBool,
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap()
}

/// Callers at work.
struct Load {
    seen: Arc<LoadReport>,
    callers: JoinSet<()>,
}

impl Load {
    async fn on(url: &str) -> Self {
        let mut config = config(url);
        config.main.timeout = TIMEOUT;
        let store = Arc::new(RedisStore::new(config).unwrap());
        let seen = Arc::new(LoadReport::default());
        let mut callers = JoinSet::new();
        let wide = limit(4_000_000_000, 3600, Shape::FixedWindow);
        eventually("the store is counted on", BACK_MAX * 3, async || !check(&store, "warm", &wide).await.1)
            .await;
        for caller in 0..CALLERS {
            callers.spawn(call(Arc::clone(&store), Arc::clone(&seen), caller));
        }
        callers.spawn(watch_the_machine(Arc::clone(&seen)));
        let load = Self { seen, callers };
        load.more_answers(500).await;
        load
    }

    /// Waits until so many further answers came.
    async fn more_answers(&self, count: u64) {
        let until = self.seen.answers.load(Ordering::SeqCst) + count;
        eventually("answers go on", Duration::from_secs(20), async || {
            self.seen.answers.load(Ordering::SeqCst) >= until
        })
        .await;
    }

    /// Waits until requests are answered without the store.
    async fn degrades(&self) {
        let before = self.seen.degraded.load(Ordering::SeqCst);
        eventually("answered without the store", BACK_MAX, async || {
            self.seen.degraded.load(Ordering::SeqCst) > before
        })
        .await;
        self.more_answers(500).await;
    }

    /// Waits until a run of requests for every caller is answered by the store.
    async fn is_back(&self) {
        let begin = Instant::now();
        eventually("counting in Redis is back", BACK_MAX, async || {
            let degraded = self.seen.degraded.load(Ordering::SeqCst);
            self.more_answers(CALLERS * 4).await;
            self.seen.degraded.load(Ordering::SeqCst) == degraded
        })
        .await;
        println!("back within {:?}", begin.elapsed());
    }

    /// Ends it, and holds what was seen against the promises.
    async fn ends_well(mut self, what: &str) {
        self.seen.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.callers.join_next().await {
            ended.unwrap();
        }
        let slowest = Duration::from_micros(self.seen.slowest_us.load(Ordering::SeqCst));
        let stall = Duration::from_micros(self.seen.stall_us.load(Ordering::SeqCst));
        let answers = self.seen.answers.load(Ordering::SeqCst);
        println!("{what}: {answers} answers, slowest {slowest:?}, the machine stalled {stall:?}");
        assert!(slowest < TIMEOUT * 2 + stall, "{slowest:?}");
        assert_eq!(self.seen.wrong.load(Ordering::SeqCst), 0);
    }
}

/// The limits of one caller: one for each thing to do without the store.
fn rules() -> [(OnStoreError, Limit); 3] {
    [OnStoreError::Local, OnStoreError::Allow, OnStoreError::Deny]
        .map(|rule| (rule, limit(100, 3600, Shape::SlidingLog).with_on_store_error(rule)))
}

async fn call(store: Arc<RedisStore>, seen: Arc<LoadReport>, caller: u64) {
    // Not all at the same instant.
    let begin = Instant::now() + EVERY * u32::try_from(caller).unwrap() / u32::try_from(CALLERS).unwrap();
    let mut pace = tokio::time::interval_at(begin, EVERY);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Admitted since the last answer of the store, and how much that one left.
    let (mut left, mut admitted) = (None, 0);
    for round in caller.. {
        if seen.is_over.load(Ordering::SeqCst) {
            return;
        }
        pace.tick().await;
        let (rule, one) = rules()[usize::try_from(round % 3).unwrap()];
        let user = format!("{caller} {rule:?}");
        let entries = [Entry { key: "user", value: &user }];
        let begin = Instant::now();
        let answer = check_set(&store, &charge_set([charge(&entries, &one)])).await;
        seen.slowest_us.fetch_max(micros(begin.elapsed()), Ordering::SeqCst);
        let (is_degraded, decision) = (!answer.degraded.is_empty(), answer.decisions[0]);
        let is_denied = decision.verdict.is_deny();
        let is_wrong = match (rule, is_degraded) {
            (OnStoreError::Local, false) => {
                (left, admitted) = (Some(decision.remaining), 0);
                false
            }
            (OnStoreError::Local, true) => {
                admitted += u64::from(!is_denied);
                // No more than was left when the store was last seen.
                left.is_some_and(|left| admitted > left)
            }
            (OnStoreError::Allow, true) => is_denied,
            (OnStoreError::Deny, true) => !is_denied,
            (OnStoreError::Allow | OnStoreError::Deny, false) => false,
        };
        seen.wrong.fetch_add(u64::from(is_wrong), Ordering::SeqCst);
        seen.degraded.fetch_add(u64::from(is_degraded), Ordering::SeqCst);
        seen.answers.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a task that only sleeps a millisecond sees of a busy machine.
async fn watch_the_machine(seen: Arc<LoadReport>) {
    while !seen.is_over.load(Ordering::SeqCst) {
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        seen.stall_us.fetch_max(micros(begin.elapsed()), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn frozen_killed_and_restarted_empty() {
    let mut server = RedisServer::start();
    let load = Load::on(&server.url()).await;
    server.freeze();
    load.degrades().await;
    server.thaw();
    load.is_back().await;
    server.kill();
    load.degrades().await;
    server.restart();
    load.is_back().await;
    load.ends_well("frozen, killed, restarted").await;
}

#[tokio::test]
async fn delayed_stuttering_swallowed_and_cut_in_mid_answer() {
    let server = RedisServer::start();
    let proxy = Proxy::before(server.port()).await;
    let load = Load::on(&proxy.url()).await;
    for mood in [Mood::Delay, Mood::Swallow, Mood::Cut, Mood::Stutter] {
        proxy.set(mood);
        load.degrades().await;
        proxy.set(Mood::Pass);
        load.is_back().await;
    }
    load.ends_well("through a bad proxy").await;
}

#[tokio::test]
async fn failed_over_by_sentinels() {
    let mut setup = RedisSentinel::start();
    let load = Load::on(&setup.url()).await;
    let first = setup.master_port().unwrap();
    // The master dies.
    setup.servers[0].kill();
    load.degrades().await;
    eventually("the sentinels name another", Duration::from_secs(30), async || {
        setup.master_port() != Some(first)
    })
    .await;
    load.is_back().await;
    // It comes back as a replica, and takes over again by hand: whoever still
    // writes to the other is told that it is read-only.
    setup.servers[0].restart();
    eventually("the old one is asked to take over", Duration::from_secs(30), async || {
        setup.fail_over() == "OK"
    })
    .await;
    eventually("it does", Duration::from_secs(30), async || setup.master_port() == Some(first)).await;
    load.is_back().await;
    load.ends_well("failed over by sentinels").await;
}

#[tokio::test]
async fn failed_over_in_a_cluster() {
    let mut cluster = RedisCluster::start();
    let load = Load::on(&cluster.url()).await;
    for slot in [0, 16383] {
        let old = cluster.master_of(slot).unwrap();
        // One dies, the other hangs.
        if slot == 0 {
            cluster.servers[old].kill();
        } else {
            cluster.servers[old].freeze();
        }
        load.degrades().await;
        eventually("a replica takes over", Duration::from_secs(30), async || {
            (0..cluster.servers.len())
                .filter(|server| *server != old)
                .any(|server| cluster.is_master_of(server, slot))
        })
        .await;
        load.is_back().await;
    }
    load.ends_well("failed over in a cluster").await;
}
