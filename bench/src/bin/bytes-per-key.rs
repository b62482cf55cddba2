//! Bytes of resident memory per key: `cargo run --release -p tollgate-bench --bin bytes-per-key [KEYS]`.
//!
//! Each store is measured in a process of its own, so that one does not use
//! what another gave back: this program calls itself.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::process::Command;

use tollgate_bench::{TOKEN_BUCKET, governor, keys, limit};
use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Shape, Time};
use tollgate_limiter::{Capacity, ChargeSet, MemoryStore};

const STORES: [&str; 6] = [
    "governor",
    "token_bucket",
    "fixed_window",
    "sliding_counter",
    "sliding_log x500",
    "sliding_buckets x500",
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    if let (Some(store), Some(keys)) = (arguments.get(2), count(1)) {
        println!("{:.1}", f64_ratio(measure(store, keys), keys));
        return;
    }
    let keys = count(1).unwrap_or(1_000_000);
    let program = arguments.first().map_or("bytes-per-key", String::as_str);
    println!("{:<24} {:>10} {:>12}", "store", "keys", "bytes/key");
    for store in STORES {
        // A full log has 500 entries: fewer keys tell as much.
        let keys = if store.ends_with("x500") { keys / 100 } else { keys };
        let output = Command::new(program).args([keys.to_string().as_str(), store]).output();
        let bytes = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        println!("{store:<24} {keys:>10} {:>12}", bytes.unwrap_or_else(|error| error.to_string()));
    }
}

#[expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "for people to read"
)]
fn f64_ratio(bytes: usize, keys: usize) -> f64 {
    bytes as f64 / keys as f64
}

fn measure(store: &str, count: usize) -> usize {
    let keys = keys(count);
    let before = resident();
    match store {
        "governor" => {
            let limiter = governor();
            for key in &keys {
                assert!(limiter.check_key(key).is_ok());
            }
            resident() - before
        }
        "token_bucket" => fill(&keys, &limit(TOKEN_BUCKET), 1) - before,
        "fixed_window" => fill(&keys, &limit(Shape::FixedWindow), 1) - before,
        "sliding_counter" => fill(&keys, &limit(Shape::SlidingCounter), 1) - before,
        "sliding_log x500" => fill(&keys, &hour(Shape::SlidingLog), 500) - before,
        _ => fill(&keys, &hour(Shape::SlidingBuckets { buckets: 60 }), 500) - before,
    }
}

fn hour(shape: Shape) -> Limit {
    Limit::new(500, Micros::from_secs(3_600), shape).expect("a limit both shapes take")
}

/// Resident bytes once each key has asked `asks` times, spread over an hour.
fn fill(keys: &[String], limit: &Limit, asks: u64) -> usize {
    let store =
        MemoryStore::new(Capacity { keys: keys.len() + keys.len() / 50 + 20_000, log_bytes: 1 << 40 });
    for ask in 0..asks {
        for key in keys {
            let entries = [Entry { key: "user_id", value: key }];
            let key = Key { domain: "shop", entries: &entries, shared: &[], limit, ordinal: 0 };
            let charge = Charge {
                descriptor: 0,
                rule: None,
                key,
                mode: Mode::Enforce,
                operation: Operation::Check,
                cost: 1,
            };
            let mut batch = ChargeSet::default();
            batch.charges.push(charge);
            // An odd number of microseconds, as real arrivals have.
            let now = Time::from_secs(1_800_000_000) + Micros::new(ask * 7_193_431);
            assert!(!store.decide(&batch, now).iter().any(|decision| decision.verdict.is_deny()));
        }
    }
    let resident = resident();
    assert_eq!(store.usage().keys, keys.len());
    resident
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
