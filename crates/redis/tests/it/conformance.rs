//! The suites of the testkit on a real server.
//!
//! The same vectors and generators that hold the maths and the Lua hold the
//! whole way through the store: names, arguments, script, answer.

use std::cell::Cell;
use std::rc::Rc;

use tokio::runtime::{Builder, Runtime};
use tollgate_core::{Decision, Entry, Limit, Operation, Time};
use tollgate_limiter::Store;
use tollgate_redis::RedisStore;
use tollgate_testkit::exhaustive::{self, Scope};
use tollgate_testkit::{Engine, RedisServer, boundaries, random, vectors};

use crate::support::{charge, charge_set, store};

struct StoreRig {
    runtime: Runtime,
    store: RedisStore,
    keys: Cell<u64>,
    _server: RedisServer,
}

impl StoreRig {
    fn new() -> Rc<Self> {
        let server = RedisServer::start();
        let store = store(&server.url()).on_the_callers_clock();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Rc::new(Self { runtime, store, keys: Cell::new(0), _server: server })
    }

    /// An engine with a key that none had before.
    fn engine(self: &Rc<Self>, limit: Limit) -> StoreEngine {
        StoreEngine { rig: Rc::clone(self), limit, key: self.next_key() }
    }

    fn next_key(&self) -> String {
        self.keys.set(self.keys.get() + 1);
        self.keys.get().to_string()
    }
}

struct StoreEngine {
    rig: Rc<StoreRig>,
    limit: Limit,
    key: String,
}

impl Engine for StoreEngine {
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision {
        let entries = [Entry { key: "engine", value: &self.key }];
        let mut asked = charge_set([charge(&entries, &self.limit)]);
        asked.charges[0].operation = operation;
        asked.charges[0].cost = cost;
        let answer = self.rig.runtime.block_on(self.rig.store.check(&asked, now));
        assert!(answer.degraded.is_empty(), "the store was not asked");
        answer.decisions[0]
    }

    fn reset(&mut self) {
        self.key = self.rig.next_key();
    }
}

fn passed<E: std::fmt::Display>(suite: &str, outcome: Result<u64, E>) {
    match outcome {
        Ok(steps) => println!("{suite} on a real server: {steps} steps compared"),
        Err(failure) => panic!("{suite}: {failure}"),
    }
}

#[test]
fn the_vectors_are_decided_as_written_on_a_real_server() {
    let rig = StoreRig::new();
    let groups = vectors::load(&vectors::folder()).unwrap_or_else(|error| panic!("{error}"));
    passed("vectors", vectors::run(&|limit| rig.engine(limit), &groups));
}

#[test]
fn small_cases_are_decided_as_in_rust_on_a_real_server() {
    let rig = StoreRig::new();
    passed(
        "two steps",
        exhaustive::run(&|limit| rig.engine(limit), &Scope { depth: 2, ..Scope::deep().unwrap() }),
    );
}

#[test]
fn the_largest_and_the_smallest_are_decided_as_in_rust_on_a_real_server() {
    let rig = StoreRig::new();
    let limits = boundaries::limits().unwrap();
    passed("boundaries", boundaries::run(&|limit| rig.engine(limit), &limits, 4_999));
}

#[test]
fn random_sequences_are_decided_as_in_rust_on_a_real_server() {
    let rig = StoreRig::new();
    passed("random", random::beside_the_oracle(&|limit| rig.engine(limit), 20));
}
