//! A thread with some of the connections.
//!
//! In an open loop it never sleeps while a question is about to be due, because
//! the system would wake it up too late to tell.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};

use crate::clock::Stopwatch;
use crate::line::{Answered, Line};
use crate::plan::{Length, Plan};
use crate::tally::Tally;
use crate::wire::Broken;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// Events that are looked at together.
const EVENTS: usize = 256;
/// How long to sleep at most while nothing happens.
const NAP: Duration = Duration::from_millis(50);
/// Sleeping is not exact to less than this.
const NAP_LEAST: Duration = Duration::from_millis(2);

/// A thread with some of the connections.
pub(crate) struct Worker<'a> {
    plan: &'a Plan,
    /// From one question to the next on one connection, in an open loop.
    interval: Option<Duration>,
    stopwatch: Stopwatch,
    lines: Vec<Option<Line>>,
    /// How many answers it is to measure; none if time decides.
    quota: Option<u64>,
    /// What was answered so far, by all threads, for whoever watches.
    answered: &'a AtomicU64,
    tally: Tally,
    poll: Poll,
}

/// What one thread is to do.
#[derive(Default)]
pub(crate) struct Hand {
    pub(crate) lines: Vec<Line>,
    /// How many answers it is to measure; none if time decides.
    pub(crate) quota: Option<u64>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        hand: Hand,
        stopwatch: Stopwatch,
        answered: &'a AtomicU64,
    ) -> io::Result<Self> {
        let (poll, interval, tally) = (Poll::new()?, plan.interval(), Tally::new());
        let Hand { lines, quota } = hand;
        let mut lines: Vec<Option<Line>> = lines.into_iter().map(Some).collect();
        for (index, line) in lines.iter_mut().flatten().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(line.socket.socket(), Token(index), interest)?;
        }
        Ok(Self { plan, interval, stopwatch, lines, quota, answered, tally, poll })
    }

    /// Asks until the plan is carried out.
    pub(crate) fn run(mut self) -> io::Result<Tally> {
        let mut events = Events::with_capacity(EVENTS);
        let mut chunk = vec![0; CHUNK];
        self.ask_all(Duration::ZERO);
        loop {
            let now = self.stopwatch.elapsed();
            if self.is_over(now) {
                self.tally.elapsed = now.saturating_sub(self.plan.warm_up);
                self.tally.unanswered = self.unanswered(now);
                return Ok(self.tally);
            }
            if self.interval.is_some() {
                self.ask_all(now);
            }
            match self.poll.poll(&mut events, Some(self.nap(now))) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for event in &events {
                let index = event.token().0;
                let now = self.receive(index, &mut chunk);
                self.ask(index, now);
            }
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        if self.lines.iter().all(Option::is_none) {
            return true;
        }
        match (self.plan.length, self.quota) {
            (Length::Time(length), _) => now >= self.plan.warm_up + length,
            (Length::Count(_), Some(quota)) => self.tally.answered() >= quota,
            (Length::Count(_), None) => true,
        }
    }

    fn ask_all(&mut self, now: Duration) {
        for index in 0..self.lines.len() {
            self.ask(index, now);
        }
    }

    /// Asks on a line what is to be asked now, and sends it.
    fn ask(&mut self, index: usize, now: Duration) {
        let Some(Some(line)) = self.lines.get_mut(index) else { return };
        match self.interval {
            None => {
                while line.has_room(self.plan.in_flight) {
                    line.ask(now);
                }
            }
            Some(interval) => {
                while line.next_due <= now && line.has_room(self.plan.in_flight) {
                    line.ask(line.next_due);
                    line.next_due += interval;
                }
            }
        }
        if let Err(broken) = line.send() {
            self.lose(index, &broken);
        }
    }

    /// How long nothing will be due.
    fn nap(&self, now: Duration) -> Duration {
        if self.interval.is_none() {
            return NAP;
        }
        let next = self.lines.iter().flatten().map(|line| line.next_due).min().unwrap_or(now);
        match next.saturating_sub(now) {
            soon if soon < NAP_LEAST => Duration::ZERO,
            later => (later - NAP_LEAST).min(NAP),
        }
    }

    /// Takes in what has come on a line; when that was.
    fn receive(&mut self, index: usize, chunk: &mut [u8]) -> Duration {
        let now = self.stopwatch.elapsed();
        let Some(Some(line)) = self.lines.get_mut(index) else { return now };
        let (tally, is_measured) = (&mut self.tally, now >= self.plan.warm_up);
        let most = self.quota.unwrap_or(u64::MAX);
        let mut count = 0;
        let received = line.receive(chunk, |Answered { verdict, due }| {
            count += 1;
            if is_measured && tally.answered() < most {
                tally.answer(&verdict, now.saturating_sub(due));
            }
        });
        self.answered.fetch_add(count, Ordering::Relaxed);
        if let Err(broken) = received {
            self.lose(index, &broken);
        }
        now
    }

    /// Gives a line up, with all that was on its way on it.
    fn lose(&mut self, index: usize, broken: &Broken) {
        let Some(line) = self.lines.get_mut(index).and_then(Option::take) else { return };
        let (Broken::Foreign(what) | Broken::Goodbye(what)) = broken;
        self.tally.lost += 1;
        self.tally.error(u64::try_from(line.on_the_way()).unwrap_or(0), what);
    }

    /// In an open loop, what was due and has no answer.
    fn unanswered(&self, now: Duration) -> u64 {
        let Some(interval) = self.interval else { return 0 };
        let of = |line: &Line| {
            let behind = now.saturating_sub(line.next_due).as_nanos() / interval.as_nanos().max(1);
            u64::try_from(line.on_the_way()).unwrap_or(0) + u64::try_from(behind).unwrap_or(0)
        };
        self.lines.iter().flatten().map(of).sum()
    }
}
