//! Bytes of resident memory for each key.
//!
//! Each limiter is measured in a process of its own, so that one does not use what another gave back: this
//! program calls itself. Keys are 16 bytes of text, as their owner has them.

use std::process::Command;

use tollgate_in_process::contestant::{Allowance, Contestant};
use tollgate_in_process::harness::keys;
use tollgate_in_process::logs;
use tollgate_in_process::logs::MemoryStore;

use crate::others::{Governor, Limitador, Throttlecrab};

/// Name and keys of each.
const STORES: [(&str, usize); 6] = [
    ("limitador 0.14.0", 1_000_000),
    // It slows down a thousandfold beyond the capacity that it was given, which is 2 million.
    ("throttlecrab 0.4.40", 1_000_000),
    ("governor 0.10.4", 10_000_000),
    ("Tollgate, any limit but a log", 10_000_000),
    ("Tollgate, `sliding_log` of 500 an hour, full", 20_000),
    // With fewer, the 256 shards are a good part of what is measured.
    ("Tollgate, `sliding_buckets` of 60, full", 100_000),
];

pub(crate) fn run() {
    let program = std::env::current_exe().expect("this program is somewhere");
    for (store, keys) in STORES {
        let output = Command::new(&program).args(["memory", store, &keys.to_string()]).output();
        let output = output.expect("it can be started again");
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Fills one store and prints tenths of a byte for each key.
pub(crate) fn measure(store: &str, count: usize) {
    let bytes = match store {
        "limitador 0.14.0" => filled::<Limitador>(count),
        "throttlecrab 0.4.40" => filled::<Throttlecrab>(count),
        "governor 0.10.4" => filled::<Governor>(count),
        "Tollgate, any limit but a log" => {
            let users = keys(count);
            kept(count, || logs::cells(&users))
        }
        log => kept(count, || logs::filled(count, log.contains("buckets"))),
    };
    println!("{store}\t{count}\t{}", bytes * 10 / count);
}

/// What a store of ours takes, which has so many keys.
fn kept(count: usize, fill: impl FnOnce() -> MemoryStore) -> usize {
    let before = resident();
    let store = fill();
    let bytes = resident() - before;
    assert_eq!(store.usage().keys, count, "every key is there");
    bytes
}

fn filled<C: Contestant>(count: usize) -> usize {
    let keys = keys(count);
    let before = resident();
    let limiter = C::new(Allowance::ManyKeys);
    keys.iter().for_each(|key| assert!(limiter.check(key), "everything is allowed"));
    let bytes = resident() - before;
    drop(limiter);
    bytes
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}
