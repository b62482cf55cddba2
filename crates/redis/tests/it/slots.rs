//! Slots that move, and slots that nobody has.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tollgate_core::{Entry, Limit, Shape};
use tollgate_limiter::MemoryStore;
use tollgate_redis::{StoreFailure, keys};
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::charge_sets::{RandomCharge, limits, random_charge, with_charge_set};
use crate::support::{charge, check, check_set, eventually, limit, store};

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

/// How a slot is on its way while a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotMove {
    /// The old server has the slot, and a new one gets ready for it.
    Begin,
    /// One key is moved.
    Key,
    /// All other keys are moved, and the new server has the slot.
    End,
    None,
}

/// A slot that is moved from one server to another.
struct MovingSlot<'c> {
    slot: String,
    cluster: &'c RedisCluster,
    from: &'c RedisServer,
    to: &'c RedisServer,
    is_moving: bool,
}

impl MovingSlot<'_> {
    fn step(&mut self, step: SlotMove) {
        match step {
            SlotMove::Begin if !self.is_moving => {
                self.set(self.to, &["importing", &self.from.cli(&["cluster", "myid"])]);
                self.set(self.from, &["migrating", &self.to.cli(&["cluster", "myid"])]);
                self.is_moving = true;
            }
            SlotMove::Key if self.is_moving => drop(self.move_key()),
            SlotMove::End if self.is_moving => {
                while self.move_key() {}
                let new = self.to.cli(&["cluster", "myid"]);
                self.set(self.to, &["node", &new]);
                self.set(self.from, &["node", &new]);
                // The other master would hear of it later. Replicas cannot be told.
                for other in &self.cluster.servers {
                    other.cli(&["cluster", "setslot", &self.slot, "node", &new]);
                }
                std::mem::swap(&mut self.from, &mut self.to);
                self.is_moving = false;
            }
            SlotMove::Begin | SlotMove::Key | SlotMove::End | SlotMove::None => {}
        }
    }

    fn set(&self, server: &RedisServer, state: &[&str]) {
        assert_eq!(server.cli(&[&["cluster", "setslot", &self.slot], state].concat()), "OK");
    }

    /// Whether there was one.
    fn move_key(&self) -> bool {
        let key = self.from.cli(&["cluster", "getkeysinslot", &self.slot, "1"]);
        let port = self.to.port().to_string();
        // It may have expired by now.
        !key.is_empty()
            && ["OK", "NOKEY"].contains(&&*self.from.cli(&["migrate", "127.0.0.1", &port, &key, "0", "5000"]))
    }
}

#[test]
fn requests_of_several_slots_are_decided_as_in_memory_while_one_of_the_slots_moves() {
    let cluster = RedisCluster::start();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (limits, ample) = (limits(), limit(1_000_000, 3600, Shape::FixedWindow));
    let slot = slot_of("a", &ample);
    let (from, to) = (cluster.master_of(slot).unwrap(), cluster.master_of((slot + 8192) % 16384).unwrap());
    assert_ne!(from, to);
    // They share calls with the slot that moves, on the server that has it first.
    let others = (0..).map(|user| user.to_string());
    let others: Vec<_> =
        others.filter(|user| cluster.is_master_of(from, slot_of(user, &ample))).take(8).collect();
    let moving = MovingSlot {
        slot: slot.to_string(),
        cluster: &cluster,
        from: &cluster.servers[from],
        to: &cluster.servers[to],
        is_moving: false,
    };
    let slot_move = prop_oneof![
        1 => Just(SlotMove::Begin),
        3 => Just(SlotMove::Key),
        1 => Just(SlotMove::End),
        3 => Just(SlotMove::None),
    ];
    let step = (slot_move, 0..4_u8, prop::collection::vec(random_charge(), 1..4));
    let steps = prop::collection::vec(step, 30..60);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 12, failure_persistence: None, max_shrink_iters: 0, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let (decided, torn, redirected) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let moving = RefCell::new(moving);
    let outcome = runner.run(&steps, |steps| {
        moving.borrow_mut().step(SlotMove::End);
        cluster.servers.iter().for_each(|server| drop(server.cli(&["flushall"])));
        let store = Arc::new(store(&cluster.url()));
        let memory = MemoryStore::default();
        for (number, (slot_move, passes, charges)) in (1_u64..).zip(&steps) {
            moving.borrow_mut().step(*slot_move);
            let charges: Vec<RandomCharge> =
                charges.iter().map(|charge| (0, charge.1, charge.2, charge.3, charge.4)).collect();
            with_charge_set(&charges, &limits, *passes, |charge_set| {
                let answer = runtime.block_on(async {
                    let mut asking = JoinSet::new();
                    for user in others.clone() {
                        let store = Arc::clone(&store);
                        asking.spawn(async move { check(&store, &user, &ample).await });
                    }
                    let answer = check_set(&store, charge_set).await;
                    for (decision, degraded) in asking.join_all().await {
                        assert_eq!((decision.remaining, degraded), (1_000_000 - number, false));
                    }
                    answer
                });
                if answer.degraded.is_empty() {
                    decided.set(decided.get() + 1);
                    prop_assert_eq!(answer.decisions, memory.decide(charge_set, answer.now));
                } else {
                    // Some keys here and some there can be decided by nobody, and nothing was done.
                    torn.set(torn.get() + 1);
                    prop_assert!(moving.borrow().is_moving && charge_set.charges.len() > 1);
                }
                Ok(())
            })?;
        }
        redirected.set(redirected.get() + store.stats().redirects.get());
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{decided:?} decided, {torn:?} torn, {redirected:?} redirected");
    assert!(decided.get() > 200 && redirected.get() > 20, "{decided:?} {redirected:?}");
}
