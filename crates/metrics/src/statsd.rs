//! Counters for `StatsD` and `DogStatsD`, sent now and then.
//!
//! A background task reads the sums, sends what has come since the last time,
//! and remembers what has arrived. Nothing is queued: what could not be sent
//! is part of the next difference, so a daemon that is away costs no memory
//! and loses no counts.
//!
//! | module | what it holds |
//! |---|---|
//! | `lines` | the format of a line |
//! | `socket` | the socket, its timeouts and back-off |
//!
//! Invariant: a flush ends within seconds, whatever the daemon does.
//!
//! Deliberately not here: a sample for each call. Times are told in whole
//! milliseconds with a sample rate, one line for each that occurred.

mod lines;
mod socket;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Metrics;
use super::latency::Times;
use super::snapshot::Snapshot;
use crate::config::StatsdConfig;
use lines::{LineFormat, LineType};
use socket::StatsdSocket;

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
pub struct StatsdExporter {
    metrics: Arc<Metrics>,
    lines: LineFormat,
    socket: StatsdSocket,
    every: Duration,
    counts: HashMap<String, u64>,
    times: HashMap<String, Times>,
}

/// What one line holds, to be remembered once it was sent.
enum SentValue {
    Nothing,
    Count(String, u64),
    Times(String, Box<Times>),
}

impl StatsdExporter {
    /// Sends `metrics` where `config` says.
    ///
    /// # Errors
    /// If a mogrifier's pattern is not a regular expression.
    pub fn new(metrics: Arc<Metrics>, config: &StatsdConfig) -> Result<Self, StatsdError> {
        Ok(Self {
            metrics,
            lines: LineFormat::new(&config.dialect, &config.tags)?,
            socket: StatsdSocket::new(config),
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
        if !self.socket.open().await {
            return false;
        }
        let metrics = Arc::clone(&self.metrics);
        // Putting names together takes a while with many rules, and this may
        // be a thread that answers requests.
        let Ok(snapshot) = tokio::task::spawn_blocking(move || Snapshot::of(&metrics)).await else {
            return false;
        };
        self.counts.retain(|name, _| snapshot.counters.contains_key(name));
        for packet in self.packets(snapshot) {
            if !self.socket.send(packet.text.as_bytes()).await {
                return false;
            }
            self.remember(packet.told);
        }
        true
    }

    fn packets(&self, snapshot: Snapshot) -> Vec<Packet> {
        let mut packets =
            Packets { most: self.socket.packet_bytes(), done: Vec::new(), open: Packet::default() };
        for (name, count) in snapshot.counters {
            let before = self.counts.get(&name).copied().unwrap_or_default();
            // A count that went back belongs to a rule that was gone in between.
            let since = count.checked_sub(before).unwrap_or(count);
            if since > 0 {
                packets.add(&self.lines.line(&name, since, LineType::Counter), SentValue::Count(name, count));
            }
        }
        for (name, value) in snapshot.gauges {
            packets.add(&self.lines.line(&name, value, LineType::Gauge), SentValue::Nothing);
        }
        for (name, times) in snapshot.timers {
            let before = self.times.get(&name);
            let since = before.map_or_else(|| times.clone(), |before| times.since(before));
            for (millis, count) in since.by_millis() {
                packets.add(&self.lines.line(&name, millis, LineType::Timer { count }), SentValue::Nothing);
            }
            packets.open.told.push(SentValue::Times(name, Box::new(times)));
        }
        packets.finish()
    }

    fn remember(&mut self, told: Vec<SentValue>) {
        for told in told {
            match told {
                SentValue::Nothing => {}
                SentValue::Count(name, count) => drop(self.counts.insert(name, count)),
                SentValue::Times(name, times) => drop(self.times.insert(name, *times)),
            }
        }
    }
}

/// Lines that are sent together, and the values they carry.
#[derive(Default)]
struct Packet {
    text: String,
    told: Vec<SentValue>,
}

struct Packets {
    most: usize,
    done: Vec<Packet>,
    open: Packet,
}

impl Packets {
    fn add(&mut self, lines: &str, told: SentValue) {
        if !self.open.text.is_empty() && self.open.text.len() + lines.len() > self.most {
            self.done.push(std::mem::take(&mut self.open));
        }
        self.open.text.push_str(lines);
        self.open.told.push(told);
    }

    fn finish(mut self) -> Vec<Packet> {
        if !self.open.text.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

#[cfg(test)]
mod tests;
