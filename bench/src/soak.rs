//! A soak: callers that make up keys as fast as they can, and a server that must not grow.
//!
//! The binary `tollgate` is started with a small bound on keys; `callers` send everything that makes
//! a limiter remember something: new keys for every algorithm, limits of their own, values that become
//! metrics, unknown domains, new connections. Every second the server's resident memory is noted.
//!
//! | module | what it holds |
//! |---|---|
//! | `callers` | who calls, and what they send |
//! | `server` | the server: its start, its metrics, its memory |
//!
//! Deliberately not here: how fast it is; the callers take half of the machine.

mod callers;
mod server;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::MissedTickBehavior;

use callers::Callers;
use server::SoakServer;

/// The most keys that the server may hold; callers make up this many every second or so.
pub const KEYS_MAX: u64 = 20_000;
/// The most bytes of logs that it may hold.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// How much more it may take at the end than in the middle. A key that is not forgotten takes 24
/// bytes and there are millions, so that any leak is far above this; an allocator is not.
const GROWTH_MAX_KB: u64 = 4 << 10;
/// A soak that is shorter keeps no history: its first write comes after 15 s, in the last third, and
/// would look like a leak.
const HISTORY_FROM_S: u64 = 60;
/// Fewer decisions than this show nothing.
const DECISIONS_MIN: u64 = 3 * KEYS_MAX;

/// What is noted every second.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Seconds since the start.
    pub second: u64,
    /// Calls answered so far.
    pub calls: u64,
    /// Descriptors decided so far.
    pub decisions: u64,
    /// Resident memory of the server.
    pub rss_kb: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { second, calls, decisions, rss_kb } = self;
        write!(f, "{second:>8} {calls:>12} {decisions:>14} {rss_kb:>10}")
    }
}

/// What a soak showed.
#[derive(Debug)]
pub struct Outcome {
    /// One a second.
    pub samples: Vec<Sample>,
    /// Keys in the server's store at the end.
    pub keys: u64,
    /// Bytes of the store at the end, by its own account.
    pub store_bytes: u64,
    /// The first call that was not answered, if any.
    pub failure: Option<String>,
}

/// Soaks for so many seconds, telling every sample as it comes.
///
/// # Errors
/// If the server cannot be started, or ends.
pub fn run(seconds: u64, tell: impl FnMut(&Sample)) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(soak(seconds, tell))
}

async fn soak(seconds: u64, mut tell: impl FnMut(&Sample)) -> Result<Outcome> {
    let mut server = SoakServer::start(seconds >= HISTORY_FROM_S).await?;
    let callers = Arc::new(Callers::new(server.grpc));
    callers.start();
    let mut samples = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    for second in 1..=seconds {
        ticks.tick().await;
        let (calls, decisions) = callers.counted();
        let sample = Sample { second, calls, decisions, rss_kb: server.rss_kb()? };
        tell(&sample);
        samples.push(sample);
    }
    let (keys, store_bytes) = server.store().await?;
    callers.stop();
    server.stop().await?;
    Ok(Outcome { samples, keys, store_bytes, failure: callers.failure() })
}

/// How much more memory the server took in the last third than in the second. In the first it is
/// still filling up: tables, metrics, what the allocator keeps.
pub fn growth_kb(samples: &[Sample]) -> u64 {
    let third = samples.len() / 3;
    let most = |part: &[Sample]| part.iter().map(|sample| sample.rss_kb).max().unwrap_or_default();
    let (before, last) = samples.split_at(third * 2);
    most(last).saturating_sub(most(before.get(third..).unwrap_or_default()))
}

/// Whether every call was answered and the server kept its bounds.
///
/// # Errors
/// If not.
pub fn judge(outcome: &Outcome) -> Result<()> {
    let Outcome { samples, keys, failure, .. } = outcome;
    ensure!(failure.is_none(), "a call failed: {}", failure.as_deref().unwrap_or_default());
    let last = samples.last().context("there are no samples; soak longer")?;
    ensure!(last.decisions >= DECISIONS_MIN, "{} decisions are too few; soak longer", last.decisions);
    ensure!(*keys <= KEYS_MAX, "the server held {keys} keys where {KEYS_MAX} are the most");
    let growth = growth_kb(samples);
    ensure!(growth <= GROWTH_MAX_KB, "memory grew by {growth} KB where {GROWTH_MAX_KB} are the most");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(rss_kb: &[u64]) -> Outcome {
        let sample = |rss_kb: &u64| Sample { second: 0, calls: 0, decisions: DECISIONS_MIN, rss_kb: *rss_kb };
        Outcome {
            samples: rss_kb.iter().map(sample).collect(),
            keys: KEYS_MAX,
            store_bytes: 0,
            failure: None,
        }
    }

    fn complaint(outcome: &Outcome) -> String {
        judge(outcome).unwrap_err().to_string()
    }

    #[test]
    fn filling_up_is_no_growth_and_going_on_is() {
        judge(&outcome(&[1, 90_000, 100_000, 100_000, 100_100, 100_000])).unwrap();
        let growing = outcome(&[100_000, 110_000, 120_000, 130_000, 140_000, 150_000]);
        assert_eq!(growth_kb(&growing.samples), 20_000);
        assert!(complaint(&growing).contains("grew by 20000 KB"));
    }

    #[test]
    fn too_little_too_many_keys_and_a_call_without_an_answer_are_told() {
        assert!(judge(&outcome(&[])).is_err());
        let mut one = outcome(&[1, 1, 1]);
        one.keys = KEYS_MAX + 1;
        assert!(complaint(&one).contains("20001 keys"));
        one.samples[2].decisions = 7;
        assert!(complaint(&one).contains("7 decisions are too few"));
        one.failure = Some("cut off".to_owned());
        assert!(complaint(&one).ends_with("cut off"));
    }
}
