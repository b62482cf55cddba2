//! Bytes of a user on Redis: `cargo run --release -p tollgate-bench --bin bytes-on-redis`.
//!
//! A user makes all of 500 requests an hour, at moments that differ, and then
//! `MEMORY USAGE` of a real server tells what that took.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use anyhow::{Context as _, Result, ensure};
use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Refill, Shape, Time};
use tollgate_limiter::{ChargeSet, Store as _};
use tollgate_redis::{RedisConfig, RedisStore, keys};
use tollgate_testkit::RedisServer;

const COUNT: u32 = 500;
const HOUR: Micros = Micros::from_secs(3600);
/// One every 7.2 s and a bit, for more than an hour.
const REQUESTS: u64 = 700;

fn main() -> Result<()> {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    println!(
        "{:<24} {:>8} {:>16} {:>14}",
        "one user at 500 an hour", "bytes", "besides its name", "users per GB"
    );
    for (name, shape) in [
        ("fixed_window", Shape::FixedWindow),
        ("sliding_counter", Shape::SlidingCounter),
        ("sliding_log", Shape::SlidingLog),
        ("sliding_buckets of 60", Shape::SlidingBuckets { buckets: 60 }),
        ("token_bucket", Shape::TokenBucket { burst: COUNT, refill: Refill::Smooth }),
        ("token_bucket, interval", Shape::TokenBucket { burst: COUNT, refill: Refill::Interval }),
        ("leaky_bucket", Shape::LeakyBucket { burst: COUNT, max_wait: None }),
    ] {
        let (bytes, besides) = runtime.block_on(measure(&server, &Limit::new(COUNT, HOUR, shape)?))?;
        println!("{name:<24} {bytes:>8} {besides:>16} {:>14}", (1_u64 << 30) / bytes);
    }
    Ok(())
}

async fn measure(server: &RedisServer, limit: &Limit) -> Result<(u64, u64)> {
    let mut config = RedisConfig::new(server.url().parse()?);
    // Other work on the machine must not end in a decision without the server.
    config.main.timeout = std::time::Duration::from_secs(10);
    let store = RedisStore::new(config)?.on_the_callers_clock();
    let entries = [Entry { key: "user", value: "42" }];
    let key = Key { domain: "shop", entries: &entries, shared: &[], limit, ordinal: 0 };
    let (mode, operation) = (Mode::Enforce, Operation::Check);
    let mut asked = ChargeSet::default();
    asked.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
    let mut now = Time::from_secs(1_700_000_000);
    for request in 0..REQUESTS {
        now = now + Micros::new(7_200_000 + request * 7919 % 1_000_000);
        ensure!(store.check(&asked, now).await.degraded.is_empty(), "the server was not asked");
    }
    let name = keys::name("", &key);
    let told = server.cli(&["memory", "usage", &name]);
    let bytes: u64 = told.parse().with_context(|| format!("redis-cli says {told}"))?;
    Ok((bytes, bytes - u64::try_from(name.len())?))
}
