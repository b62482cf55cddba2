//! What a check costs with more keys, more rules and more descriptors in a request.
//!
//! A case is `keys`, `rules` or `descriptors`, a name is how many of them there are. By design the cost of
//! rules is flat, that of descriptors grows with their number, and that of keys with what caches hold.

use std::hint::black_box;

use tollgate_core::{Descriptor, Entry, Limit, LimitError, Micros, Refill, Request, Shape};
use tollgate_limiter::{Capacity, KeyedLimiter, Limiter, SystemClock};

use crate::contestant::{node, one_domain};
use crate::harness::{self, Sink, Timed};

const KEYS: [u64; 6] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// What a key takes at most while its table grows: the old slots and the new.
const KEY_BYTES_MAX: u64 = 80;
const RULES: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
const DESCRIPTORS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Measures all three.
///
/// # Errors
/// If a limit is none.
pub fn run(sink: &mut Sink<'_>) -> Result<(), LimitError> {
    let one_in = |seconds, burst| {
        let shape = Shape::TokenBucket { burst, refill: Refill::Smooth };
        Limit::new(1, Micros::from_secs(seconds), shape)
    };
    // A key is remembered for as long as it takes to make a hundred million of them.
    let (limit, lasting) = (one_in(60, 30_000_000)?, one_in(120, 15_000_000)?);
    for count in KEYS.into_iter().filter(|count| *count * KEY_BYTES_MAX < memory_left()) {
        harness::run("keys", vec![keys(count, lasting)], sink);
    }
    harness::run("rules", RULES.map(|count| rules(count, limit)).into(), sink);
    harness::run("descriptors", DESCRIPTORS.map(|count| descriptors(count, limit)).into(), sink);
    Ok(())
}

/// Bytes that this machine has left; as many as there may be if it does not tell.
fn memory_left() -> u64 {
    let about = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = about.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"));
    line.and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok()).map_or(u64::MAX, |left| left << 10)
}

/// A number that looks random.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn keys(count: u64, limit: Limit) -> Timed {
    // Shards fill unevenly.
    let keys = usize::try_from(count + count / 5).unwrap_or(usize::MAX).max(12_000_000);
    let capacity = Capacity { keys, log_bytes: 0 };
    let limiter = KeyedLimiter::<u64>::with(limit, capacity, SystemClock::new());
    for key in 0..count {
        black_box(limiter.check(&key));
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    Timed::new(count.to_string(), move || {
        black_box(limiter.check(&(next(&mut seed) % count)));
    })
}

/// One rule of many is asked for, each time another.
fn rules(count: usize, limit: Limit) -> Timed {
    let path = |n: usize| format!("/shop/item/{n}");
    let limiter = Limiter::new(one_domain((0..count).map(|n| node("path", Some(path(n)), limit)).collect()));
    let paths: Vec<String> = (0..count).map(path).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    Timed::new(count.to_string(), move || {
        let at = usize::try_from(next(&mut seed) >> 1).unwrap_or_default() % paths.len();
        let entries = [Entry { key: "path", value: paths.get(at).map_or("", String::as_str) }];
        let descriptors = [Descriptor::new(&entries)];
        black_box(limiter.check(&Request::new("shop", &descriptors)).at_once());
    })
}

/// A request with so many descriptors, each with a rule and a key of its own.
fn descriptors(count: usize, limit: Limit) -> Timed {
    let limiter = Limiter::new(one_domain(vec![node("user_id", None, limit)]));
    let users: Vec<String> = (0..count).map(|n| format!("user:{n:011}")).collect();
    Timed::new(count.to_string(), move || {
        let entries: Vec<[Entry<'_>; 1]> =
            users.iter().map(|user| [Entry { key: "user_id", value: user }]).collect();
        let descriptors: Vec<Descriptor<'_>> =
            entries.iter().map(|entries| Descriptor::new(entries)).collect();
        black_box(limiter.check(&Request::new("shop", &descriptors)).at_once());
    })
}
