//! Slots that move, and slots that nobody has.

use std::time::Duration;

use tollgate_core::{Entry, Limit, Shape};
use tollgate_redis::{StoreFailure, keys};
use tollgate_testkit::RedisCluster;

use crate::support::{charge, check, eventually, limit, store};

const BACK_MAX: Duration = Duration::from_secs(3);

fn slot_of(user: &str, limit: &Limit) -> u16 {
    let entries = [Entry { key: "user", value: user }];
    keys::slot(&keys::name("", &charge(&entries, limit).key))
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_and_one_that_is_gone_is_done_without() {
    let cluster = RedisCluster::start();
    let store = store(&cluster.url());
    let limit = limit(1000, 3600, Shape::SlidingLog);
    for left in [999, 998] {
        let (decision, degraded) = check(&store, "42", &limit).await;
        assert_eq!((decision.remaining, degraded), (left, false));
    }
    let slot = slot_of("42", &limit);
    let text = slot.to_string();
    let from = cluster.master_of(slot).unwrap();
    let to = [0, 6000, 12000]
        .into_iter()
        .filter_map(|slot| cluster.master_of(slot))
        .find(|to| *to != from)
        .unwrap();
    let (from, to) = (&cluster.servers[from], &cluster.servers[to]);
    let (from_id, to_id) = (from.cli(&["cluster", "myid"]), to.cli(&["cluster", "myid"]));

    // On the move: what is not at the old server is asked of the new one, once.
    assert_eq!(to.cli(&["cluster", "setslot", &text, "importing", &from_id]), "OK");
    assert_eq!(from.cli(&["cluster", "setslot", &text, "migrating", &to_id]), "OK");
    let name = from.cli(&["cluster", "getkeysinslot", &text, "10"]);
    let port = to.port().to_string();
    assert_eq!(from.cli(&["migrate", "127.0.0.1", &port, &name, "0", "5000"]), "OK");
    for left in [997, 996] {
        let (decision, degraded) = check(&store, "42", &limit).await;
        assert_eq!((decision.remaining, degraded), (left, false), "asked of the new server");
    }
    assert_eq!(store.stats().redirects.get(), 2, "by ASK, each time");

    // Moved: the first is redirected, and from then on the new one is asked at once.
    for server in [to, from] {
        assert_eq!(server.cli(&["cluster", "setslot", &text, "node", &to_id]), "OK");
    }
    for left in [995, 994, 993] {
        let (decision, degraded) = check(&store, "42", &limit).await;
        assert_eq!((decision.remaining, degraded), (left, false));
    }
    assert_eq!(store.stats().redirects.get(), 3, "by MOVED, once");

    // Nobody's: the cluster is down until somebody has it again.
    for server in &cluster.servers {
        server.cli(&["cluster", "delslots", &text]);
    }
    eventually("done without", BACK_MAX, async || check(&store, "42", &limit).await.1).await;
    assert!(store.stats().failures(StoreFailure::ClusterDown) > 0, "{:?}", store.stats());
    assert_eq!(to.cli(&["cluster", "addslots", &text]), "OK");
    eventually("the cluster is whole", Duration::from_secs(30), async || cluster.is_whole()).await;
    eventually("counted on again", BACK_MAX, async || !check(&store, "42", &limit).await.1).await;
}
