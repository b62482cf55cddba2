//! Full stores, to see what they take: keys of one limit, and logs of users who have used up 500 requests an hour.
//!
//! Time is an argument here, so that nothing runs out while a slow machine fills them.

use tollgate_core::{Charge, Entry, Key, Limit, LimitError, Micros, Mode, Operation, Refill, Shape, Time};
pub use tollgate_limiter::MemoryStore;
use tollgate_limiter::{Capacity, ChargeSet};

const REQUESTS: u32 = 500;

/// A store with these keys, each under a token bucket.
///
/// # Panics
/// If a request is denied, because each fits.
pub fn cells(users: &[String]) -> MemoryStore {
    let limit =
        hour(Shape::TokenBucket { burst: REQUESTS, refill: Refill::Smooth }).expect("a limit that is one");
    // Shards are filled unevenly, and none may be full.
    let store = MemoryStore::new(Capacity { keys: users.len() + users.len() / 8, log_bytes: 0 });
    for user in users {
        take(&store, user, &limit, Time::from_secs(1_800_000_000));
    }
    store
}

/// A store with so many users and their logs, or their 60 sub-windows.
///
/// # Panics
/// If a request is denied, because each of the 500 fits.
pub fn filled(users: usize, by_buckets: bool) -> MemoryStore {
    let shape = if by_buckets { Shape::SlidingBuckets { buckets: 60 } } else { Shape::SlidingLog };
    let limit = hour(shape).expect("a limit that both shapes take");
    // Shards are filled unevenly, and none may be full.
    let store = MemoryStore::new(Capacity { keys: users * 2 + 20_000, log_bytes: usize::MAX >> 1 });
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for request in 0..u64::from(REQUESTS) {
        for user in 0..users {
            let name = format!("user:{user:011}");
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Anywhere in the next 7.2 s, as real arrivals are.
            let now =
                Time::from_secs(1_800_000_000) + Micros::new(request * 7_190_000 + (seed >> 33) % 7_190_000);
            take(&store, &name, &limit, now);
        }
    }
    store
}

fn take(store: &MemoryStore, user: &str, limit: &Limit, now: Time) {
    let entries = [Entry { key: "user_id", value: user }];
    let key = Key { domain: "shop", entries: &entries, shared: &[], limit, ordinal: 0 };
    let (mode, operation) = (Mode::Enforce, Operation::Check);
    let mut set = ChargeSet::default();
    set.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
    assert!(!store.decide(&set, now).iter().any(|decision| decision.verdict.is_deny()), "it fits");
}

fn hour(shape: Shape) -> Result<Limit, LimitError> {
    Limit::new(REQUESTS, Micros::from_secs(3_600), shape)
}
