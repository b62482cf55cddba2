//! The core paths, each run a thousand times inside of `counted`: `cargo xtask instructions` runs this under
//! callgrind, which counts the instructions of that function alone.
//!
//! The name of each case is printed, in the order in which they are counted. Time stands still and each
//! case warms up first, so that a count is the same in every run: no clock, no table that grows, no first time.
//!
//! Deliberately not here: what needs a server or a socket. Those are measured in CPU time by `cargo xtask bench`.

use std::hint::black_box;

use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
use tollgate_core::{
    Change, Charge, Descriptor, Entry, Key, Limit, LimitError, Micros, Mode, Operation, Refill, Request,
    RuleSet, Shape, State, Time, Unit, decide,
};
use tollgate_limiter::{ChargeSet, Clock, KeyedLimiter, Limiter, MemoryStore, NoSink};

/// What each case is run, so that a count is in thousandths of an instruction.
const TIMES: usize = 1_000;
/// A count that no case uses up.
const PLENTY: u32 = 4_000_000_000;

/// Runs all, and prints the name of each behind it.
///
/// # Errors
/// If a limit is none.
pub fn run() -> Result<(), LimitError> {
    maths()?;
    store()?;
    whole_limiter("allowed", limit(PLENTY, Shape::TokenBucket { burst: PLENTY, refill: Refill::Smooth })?);
    whole_limiter("denied", limit(1, Shape::TokenBucket { burst: 1, refill: Refill::Smooth })?);
    Ok(())
}

/// What callgrind counts.
#[inline(never)]
fn counted(case: &mut dyn FnMut()) {
    for _ in 0..TIMES {
        case();
    }
}

/// Runs a case until nothing is new to it, and then to be counted.
#[expect(clippy::print_stdout, reason = "xtask reads the names")]
fn count(name: &str, mut case: impl FnMut()) {
    for _ in 0..10 {
        case();
    }
    counted(&mut case);
    println!("{name}");
}

const NOW: Time = Time::from_secs(1_800_000_000);

struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Time {
        black_box(NOW)
    }
}

fn limit(count: u32, shape: Shape) -> Result<Limit, LimitError> {
    Limit::new(count, Micros::from_secs(3_600), shape)
}

/// A decision of each algorithm over a state that is there.
fn maths() -> Result<(), LimitError> {
    let buckets = Shape::SlidingBuckets { buckets: 60 };
    for (name, shape) in [
        ("decide fixed_window", Shape::FixedWindow),
        ("decide sliding_counter", Shape::SlidingCounter),
        ("decide token_bucket", Shape::TokenBucket { burst: PLENTY, refill: Refill::Smooth }),
        ("decide leaky_bucket", Shape::LeakyBucket { burst: PLENTY, max_wait: None }),
    ] {
        let (limit, state) = (limit(PLENTY, shape)?, taken(&limit(PLENTY, shape)?, 1));
        count(name, || {
            drop(black_box(decide(Some(state.as_ref()), black_box(&limit), NOW, Operation::Check, 1)))
        });
    }
    for (name, shape) in
        [("decide sliding_log of 500", Shape::SlidingLog), ("decide sliding_buckets of 60", buckets)]
    {
        let limit = limit(500, shape)?;
        let state = taken(&limit, 499);
        count(name, || {
            drop(black_box(decide(Some(state.as_ref()), black_box(&limit), NOW, Operation::Check, 1)))
        });
    }
    Ok(())
}

/// The state after so many requests, the last of them 7 s ago.
fn taken(limit: &Limit, requests: u64) -> State {
    let mut state: Option<State> = None;
    for request in (1..=requests).rev() {
        let now = NOW.before(Micros::new(request * 7_193_431));
        let before = state.as_ref().map(State::as_ref);
        let (_, change) = decide(before, limit, now, Operation::Check, 1);
        if let Change::Put(put) = change {
            state = Some(put);
        }
    }
    state.expect("what is taken is kept")
}

/// A key that is there, in the store and in a limiter of one limit.
fn store() -> Result<(), LimitError> {
    let plenty = limit(PLENTY, Shape::TokenBucket { burst: PLENTY, refill: Refill::Smooth })?;
    let one = limit(1, Shape::TokenBucket { burst: 1, refill: Refill::Smooth })?;
    for (name, limit) in [("keyed allowed", plenty), ("keyed denied", one)] {
        let limiter =
            KeyedLimiter::<u64, _>::with(limit, tollgate_limiter::Capacity::default(), StandingClock);
        count(name, || {
            black_box(limiter.check(black_box(&42)));
        });
    }
    for (name, limit) in [("store allowed", plenty), ("store denied", one)] {
        let store = MemoryStore::default();
        let entries = [Entry { key: "user_id", value: "user:00000000042" }];
        let key = Key { domain: "shop", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
        let (mode, operation) = (Mode::Enforce, Operation::Check);
        let mut set = ChargeSet::default();
        set.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
        count(name, || drop(black_box(store.decide(black_box(&set), NOW))));
    }
    Ok(())
}

/// One rule, found among others, and the whole reply; and the same where it was found beforehand.
fn whole_limiter(name: &str, limit: Limit) {
    let node = |key: &str| DescriptorSpec {
        key: key.into(),
        limits: LimitsSpec::Limits(vec![RuleSpec::new(limit, Unit::Hour)]),
        ..Default::default()
    };
    let descriptors = vec![node("path"), node("user_id"), node("remote_address")];
    let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors, ..Default::default() }]);
    let limiter =
        Limiter::with(rules.expect("rules that go together"), MemoryStore::default(), StandingClock, NoSink);
    let entries = [Entry { key: "user_id", value: "user:00000000042" }];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    count(&format!("limiter {name}"), || drop(black_box(limiter.check(black_box(&request)).at_once())));
    let path = [Entry { key: "path", value: "/cart" }];
    let descriptors = [Descriptor::new(&path), Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    count(&format!("limiter {name}, two limits"), || {
        drop(black_box(limiter.check(black_box(&request)).at_once()))
    });
    let mut prepared = limiter.prepare("shop", ["user_id"]);
    count(&format!("prepared {name}"), || {
        black_box(prepared.check(black_box(["user:00000000042"])));
    });
}
