//! Many nodes, many callers at once: together they admit exactly the limit.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::{Charge, Entry, Limit, Micros, Time};
use tollgate_limiter::{Clock, Store, SystemClock};
use tollgate_redis::RedisStore;
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::support::{charge, charge_set, every_algorithm, store};

const NODES: usize = 3;
const CALLERS: usize = 240;
const LIMIT: u32 = 60;
/// Callers of the node that dies.
const DYING: usize = 30;

/// A node: a store of its own and a clock that is off.
#[derive(Clone)]
struct TollgateNode {
    store: Arc<RedisStore>,
    ahead: Micros,
}

impl TollgateNode {
    fn now(&self) -> Time {
        SystemClock::new().now() + self.ahead
    }
}

/// Nodes whose clocks differ by minutes.
fn nodes(url: &str) -> Vec<TollgateNode> {
    let node = |index: usize| TollgateNode {
        store: Arc::new(store(url)),
        ahead: Micros::from_secs(420).times(u64::try_from(index).unwrap()),
    };
    (0..NODES).map(node).collect()
}

/// How many of the callers are let through, all asking at once.
async fn admitted(nodes: &[TollgateNode], callers: usize, limits: &[Limit], users: &[&'static str]) -> usize {
    let mut calls = JoinSet::new();
    for caller in 0..callers {
        let node = nodes[caller % nodes.len()].clone();
        let (limits, users) = (limits.to_vec(), users.to_vec());
        calls.spawn(async move {
            let entries: Vec<_> = users.iter().map(|user| [Entry { key: "user", value: user }]).collect();
            let charges: Vec<Charge<'_>> = entries
                .iter()
                .flat_map(|entries| {
                    limits.iter().zip(0..).map(move |(limit, ordinal)| (entries, limit, ordinal))
                })
                .map(|(entries, limit, ordinal)| {
                    let mut charge = charge(entries, limit);
                    charge.key.ordinal = ordinal;
                    charge
                })
                .collect();
            let asked = charge_set(charges);
            let answer = node.store.check(&asked, node.now()).await;
            assert!(answer.degraded.is_empty(), "{:?}", node.store.stats());
            !asked.is_denied(&answer.decisions)
        });
    }
    let mut admitted = 0;
    while let Some(passed) = calls.join_next().await {
        admitted += usize::from(passed.unwrap());
    }
    admitted
}

async fn every_algorithm_and_lists_admit_exactly_the_limit(url: &str) {
    let nodes = nodes(url);
    let limit = usize::try_from(LIMIT).unwrap();
    for (index, one) in every_algorithm(LIMIT).into_iter().enumerate() {
        let user: &'static str = Box::leak(format!("single {index}").into_boxed_str());
        assert_eq!(admitted(&nodes, CALLERS, &[one], &[user]).await, limit, "{one:?}");
    }
    // All of them at once on one user, the tightest first in one list and last in another.
    let mut list: Vec<_> =
        every_algorithm(LIMIT + 40).into_iter().filter(|one| !one.counts_rejected()).collect();
    list.insert(0, every_algorithm(LIMIT)[2]);
    assert_eq!(admitted(&nodes, CALLERS, &list, &["list"]).await, limit);
    list.reverse();
    assert_eq!(admitted(&nodes, CALLERS, &list, &["another list"]).await, limit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn three_nodes_admit_exactly_the_limit_on_one_server() {
    let server = RedisServer::start();
    every_algorithm_and_lists_admit_exactly_the_limit(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn three_nodes_admit_exactly_the_limit_on_a_cluster() {
    let cluster = RedisCluster::start();
    every_algorithm_and_lists_admit_exactly_the_limit(&cluster.url()).await;
    // Several users are several slots, which are asked one after the other.
    let nodes = nodes(&cluster.url());
    let users = ["slot a", "slot b", "slot c", "slot d"];
    for one in every_algorithm(LIMIT).into_iter().filter(|one| !one.counts_rejected()) {
        assert_eq!(
            admitted(&nodes, CALLERS, &[one], &users).await,
            usize::try_from(LIMIT).unwrap(),
            "{one:?}"
        );
    }
    let given_back: u64 = nodes.iter().map(|node| node.store.stats().given_back.get()).sum();
    println!("{given_back} charges were given back across slots");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_node_that_dies_in_between_never_makes_it_more() {
    let server = RedisServer::start();
    for one in every_algorithm(LIMIT) {
        let mut nodes = nodes(&server.url());
        let user: &'static str =
            Box::leak(format!("{:?}{}", one.shape(), one.counts_rejected()).into_boxed_str());
        let dying = nodes.pop().unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..DYING {
            let node = dying.clone();
            calls.spawn(async move { admitted(&[node], 1, &[one], &[user]).await });
        }
        // Some are answered, some are under way, some never were sent.
        let mut seen = 0;
        for _ in 0..DYING / 3 {
            seen += calls.join_next().await.unwrap().unwrap();
        }
        calls.abort_all();
        while let Some(ended) = calls.join_next().await {
            seen += ended.unwrap_or(0);
        }
        drop(dying);
        let others = admitted(&nodes, CALLERS, &[one], &[user]).await;
        let limit = usize::try_from(LIMIT).unwrap();
        assert!(seen + others <= limit, "{seen} + {others} of {one:?}");
        assert!(others >= limit - DYING, "no more is lost than was under way: {others}");
    }
}
