//! Counters for `StatsD` and `DogStatsD`, sent now and then.
//!
//! A background task reads the sums, sends what has come since the last time,
//! and remembers what has arrived. Nothing is queued: what could not be sent
//! is part of the next difference, so a daemon that is away costs no memory
//! and loses no counts.
//!
//! | module | what it holds |
//! |---|---|
//! | `lines` | what a line looks like |
//! | `wire` | sockets, and when to try again |
//!
//! Invariant: a flush ends within seconds, whatever the daemon does.
//!
//! Deliberately not here: a sample for each call. Times are told in whole
//! milliseconds with a sample rate, one line for each that occurred.

mod lines;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Metrics;
use super::latency::Times;
use super::snapshot::Snapshot;
use crate::config::StatsdConfig;
use lines::{Lines, Type};
use wire::Wire;

/// No flush interval is shorter: reading the sums takes a moment.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Why lines cannot be made as asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatsdError {
    /// A mogrifier's pattern is not a regular expression.
    #[error("the mogrifier pattern '{pattern}' is not a regular expression: {problem}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Sends counters to a daemon.
#[derive(Debug)]
pub struct Exporter {
    metrics: Arc<Metrics>,
    lines: Lines,
    wire: Wire,
    every: Duration,
    counts: HashMap<String, u64>,
    times: HashMap<String, Times>,
}

/// What one line tells, to be remembered once it has arrived.
enum Told {
    Nothing,
    Count(String, u64),
    Times(String, Box<Times>),
}

impl Exporter {
    /// Sends `metrics` where `config` says.
    ///
    /// # Errors
    /// If a mogrifier's pattern is not a regular expression.
    pub fn new(metrics: Arc<Metrics>, config: &StatsdConfig) -> Result<Self, StatsdError> {
        Ok(Self {
            metrics,
            lines: Lines::new(&config.dialect, &config.tags)?,
            wire: Wire::new(config),
            every: config.flush_interval.max(INTERVAL_MIN),
            counts: HashMap::new(),
            times: HashMap::new(),
        })
    }

    /// Flushes at every interval until `stop`, and then once more.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                _ = ticks.tick() => { self.flush().await; }
                () = &mut stop => break,
            }
        }
        self.flush().await;
    }

    /// Sends what has come since the last flush; whether all of it was sent.
    pub async fn flush(&mut self) -> bool {
        if !self.wire.open().await {
            return false;
        }
        let metrics = Arc::clone(&self.metrics);
        // Putting names together takes a while with many rules, and this may
        // be a thread that answers requests.
        let Ok(snapshot) = tokio::task::spawn_blocking(move || Snapshot::of(&metrics)).await else {
            return false;
        };
        self.counts.retain(|name, _| snapshot.counters.contains_key(name));
        for chunk in self.chunks(snapshot) {
            if !self.wire.send(chunk.text.as_bytes()).await {
                return false;
            }
            self.remember(chunk.told);
        }
        true
    }

    fn chunks(&self, snapshot: Snapshot) -> Vec<Chunk> {
        let mut chunks = Chunks { most: self.wire.chunk_bytes(), done: Vec::new(), open: Chunk::default() };
        for (name, count) in snapshot.counters {
            let before = self.counts.get(&name).copied().unwrap_or_default();
            // A count that went back belongs to a rule that was gone in between.
            let since = count.checked_sub(before).unwrap_or(count);
            if since > 0 {
                chunks.add(&self.lines.line(&name, since, Type::Counter), Told::Count(name, count));
            }
        }
        for (name, value) in snapshot.gauges {
            chunks.add(&self.lines.line(&name, value, Type::Gauge), Told::Nothing);
        }
        for (name, times) in snapshot.timers {
            let before = self.times.get(&name);
            let since = before.map_or_else(|| times.clone(), |before| times.since(before));
            for (millis, count) in since.by_millis() {
                chunks.add(&self.lines.line(&name, millis, Type::Timer { count }), Told::Nothing);
            }
            chunks.open.told.push(Told::Times(name, Box::new(times)));
        }
        chunks.finish()
    }

    fn remember(&mut self, told: Vec<Told>) {
        for told in told {
            match told {
                Told::Nothing => {}
                Told::Count(name, count) => drop(self.counts.insert(name, count)),
                Told::Times(name, times) => drop(self.times.insert(name, *times)),
            }
        }
    }
}

/// Lines that go together, and what they tell.
#[derive(Default)]
struct Chunk {
    text: String,
    told: Vec<Told>,
}

struct Chunks {
    most: usize,
    done: Vec<Chunk>,
    open: Chunk,
}

impl Chunks {
    fn add(&mut self, lines: &str, told: Told) {
        if !self.open.text.is_empty() && self.open.text.len() + lines.len() > self.most {
            self.done.push(std::mem::take(&mut self.open));
        }
        self.open.text.push_str(lines);
        self.open.told.push(told);
    }

    fn finish(mut self) -> Vec<Chunk> {
        if !self.open.text.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

#[cfg(test)]
mod tests;
