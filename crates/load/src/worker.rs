//! A thread with some of the connections.
//!
//! In an open loop it does not sleep while a request is about to be due, because the system would
//! wake it too late.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};

use crate::codec::ConnectionFailure;
use crate::connection::{LoadConnection, LoadResponse};
use crate::measurements::Measurements;
use crate::plan::{Plan, RunLength};
use crate::time::Stopwatch;

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Events per poll.
const EVENTS: usize = 256;
/// The longest sleep while nothing happens.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// A sleep is no more exact than this.
const SLEEP_MARGIN: Duration = Duration::from_millis(2);

/// A thread with some of the connections.
pub(crate) struct LoadWorker<'a> {
    plan: &'a Plan,
    /// The time between two requests on one connection, in an open loop.
    interval: Option<Duration>,
    stopwatch: Stopwatch,
    connections: Vec<Option<LoadConnection>>,
    /// How many responses it measures; none if time decides.
    quota: Option<u64>,
    /// Responses so far to all threads, for progress reports.
    answered: &'a AtomicU64,
    measurements: Measurements,
    poll: Poll,
}

/// One thread's share of the work.
#[derive(Default)]
pub(crate) struct WorkerShare {
    pub(crate) connections: Vec<LoadConnection>,
    /// How many responses it measures; none if time decides.
    pub(crate) quota: Option<u64>,
}

impl<'a> LoadWorker<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        share: WorkerShare,
        stopwatch: Stopwatch,
        answered: &'a AtomicU64,
    ) -> io::Result<Self> {
        let (poll, interval, measurements) = (Poll::new()?, plan.interval(), Measurements::new());
        let WorkerShare { connections, quota } = share;
        let mut connections: Vec<Option<LoadConnection>> = connections.into_iter().map(Some).collect();
        for (index, connection) in connections.iter_mut().flatten().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(connection.socket.socket(), Token(index), interest)?;
        }
        Ok(Self { plan, interval, stopwatch, connections, quota, answered, measurements, poll })
    }

    /// Sends requests until the plan is carried out.
    pub(crate) fn run(mut self) -> io::Result<Measurements> {
        let mut events = Events::with_capacity(EVENTS);
        let mut chunk = vec![0; CHUNK];
        self.send_all(Duration::ZERO);
        loop {
            let now = self.stopwatch.elapsed();
            if self.is_over(now) {
                self.measurements.elapsed = now.saturating_sub(self.plan.warm_up);
                self.measurements.unanswered = self.unanswered(now);
                return Ok(self.measurements);
            }
            if self.interval.is_some() {
                self.send_all(now);
            }
            match self.poll.poll(&mut events, Some(self.sleep_time(now))) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for event in &events {
                let index = event.token().0;
                let now = self.receive(index, &mut chunk);
                self.send(index, now);
            }
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        if self.connections.iter().all(Option::is_none) {
            return true;
        }
        match (self.plan.length, self.quota) {
            (RunLength::Time(length), _) => now >= self.plan.warm_up + length,
            (RunLength::Count(_), Some(quota)) => self.measurements.answered() >= quota,
            (RunLength::Count(_), None) => true,
        }
    }

    fn send_all(&mut self, now: Duration) {
        for index in 0..self.connections.len() {
            self.send(index, now);
        }
    }

    /// Sends on one connection what is due now.
    fn send(&mut self, index: usize, now: Duration) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        match self.interval {
            None => {
                while connection.has_room(self.plan.in_flight) {
                    connection.push(now);
                }
            }
            Some(interval) => {
                while connection.next_due <= now && connection.has_room(self.plan.in_flight) {
                    connection.push(connection.next_due);
                    connection.next_due += interval;
                }
            }
        }
        if let Err(failure) = connection.send() {
            self.close(index, &failure);
        }
    }

    /// How long nothing will be due.
    fn sleep_time(&self, now: Duration) -> Duration {
        if self.interval.is_none() {
            return SLEEP_MAX;
        }
        let next =
            self.connections.iter().flatten().map(|connection| connection.next_due).min().unwrap_or(now);
        match next.saturating_sub(now) {
            soon if soon < SLEEP_MARGIN => Duration::ZERO,
            later => (later - SLEEP_MARGIN).min(SLEEP_MAX),
        }
    }

    /// Reads what has arrived on one connection; returns when that was.
    fn receive(&mut self, index: usize, chunk: &mut [u8]) -> Duration {
        let now = self.stopwatch.elapsed();
        let Some(Some(connection)) = self.connections.get_mut(index) else { return now };
        let (measurements, is_measured) = (&mut self.measurements, now >= self.plan.warm_up);
        let most = self.quota.unwrap_or(u64::MAX);
        let mut count = 0;
        let received = connection.receive(chunk, |LoadResponse { verdict, due }| {
            count += 1;
            if is_measured && measurements.answered() < most {
                measurements.record(&verdict, now.saturating_sub(due));
            }
        });
        self.answered.fetch_add(count, Ordering::Relaxed);
        if let Err(failure) = received {
            self.close(index, &failure);
        }
        now
    }

    /// Gives a connection up, with its requests in flight.
    fn close(&mut self, index: usize, failure: &ConnectionFailure) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::take) else { return };
        let (ConnectionFailure::WrongProtocol(what) | ConnectionFailure::Closed(what)) = failure;
        self.measurements.lost += 1;
        self.measurements.error(u64::try_from(connection.in_flight()).unwrap_or(0), what);
    }

    /// In an open loop, what was due and has no answer.
    fn unanswered(&self, now: Duration) -> u64 {
        let Some(interval) = self.interval else { return 0 };
        let of = |connection: &LoadConnection| {
            let behind = now.saturating_sub(connection.next_due).as_nanos() / interval.as_nanos().max(1);
            u64::try_from(connection.in_flight()).unwrap_or(0) + u64::try_from(behind).unwrap_or(0)
        };
        self.connections.iter().flatten().map(of).sum()
    }
}
