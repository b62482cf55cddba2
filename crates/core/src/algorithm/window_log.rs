//! A trailing window over a log of what was taken.
//!
//! Used by the sliding log (a tick is a microsecond) and the sliding buckets
//! (a tick is a sub-window). Entries of one tick are one entry. An entry of
//! tick `i` counts until the last instant of its tick is out of the window.
//!
//! Invariants: the log never holds more entries than the limit has units, nor
//! than the window has ticks and one; and what it drops beyond that never
//! changes a decision.

use super::{Ask, COST_MAX, USED_MAX, UsageStep};
use crate::algorithm::Change;
use crate::decision::{Decision, Verdict};
use crate::limit::Limit;
use crate::state::{Log, State};
use crate::time::Time;

pub(super) fn decide(log: Option<&Log>, ask: &Ask<'_>, tick: u64) -> (Decision, Change) {
    let hard = ask.limit.hard_capacity();
    let view = View { window: ask.limit.window().get(), tick };
    // A clock that stepped back waits at the newest entry.
    let now = log.map_or(ask.now, |log| ask.now.max(Time::new(log.last.saturating_mul(tick))));
    let mut window = Window::in_view(log, view, now);
    let step = ask.step(window.total.saturating_add(ask.cost) <= hard);
    let change = match step {
        _ if ask.is_peek() => Change::Keep,
        UsageStep::Deny => Change::Keep,
        UsageStep::Take | UsageStep::CountDenied => {
            Change::Put(State::Log(window.with(now.get() / tick, ask.cost, hard, view)))
        }
        UsageStep::GiveBack => {
            window.without(ask.cost, view).map_or(Change::Remove, |log| Change::Put(State::Log(log)))
        }
    };
    // What the decision tells is told of the log as it will be; a peek tells of
    // the log as it would be.
    let put = match &change {
        Change::Put(State::Log(log)) => Some(log),
        Change::Put(State::Cell(_)) | Change::Keep | Change::Remove => None,
    };
    if let Some(log) = put {
        window = Window::in_view(Some(log), view, now);
    } else if change == Change::Remove {
        window = Window::EMPTY;
    }
    let peeked = if ask.is_peek() && step == UsageStep::Take { ask.cost } else { 0 };
    let verdict = match step {
        UsageStep::Take | UsageStep::GiveBack => Verdict::Allow,
        UsageStep::Deny | UsageStep::CountDenied if !ask.can_ever_fit() => {
            Verdict::Deny { retry_after: None }
        }
        UsageStep::Deny | UsageStep::CountDenied => {
            Verdict::Deny { retry_after: Some(window.when_at_most(hard - ask.cost, view).since(ask.now)) }
        }
    };
    let reset_at = if peeked > 0 { view.leaves(now.get() / tick) } else { window.leaves_last(view, ask.now) };
    let decision = Decision {
        reset_after: reset_at.since(ask.now),
        ..ask.decision(verdict, (window.total + peeked).min(USED_MAX))
    };
    (decision, change)
}

/// Entries of ticks that are yet to come are one entry of the tick of `now`.
pub(super) fn rewound(log: &Log, limit: &Limit, now: Time) -> Log {
    let view = View::of(limit);
    let at = now.get() / view.tick;
    let (mut entries, ahead): (Vec<_>, Vec<_>) = Window::of(log).entries().partition(|(tick, _)| *tick < at);
    let ahead: u64 = ahead.iter().map(|(_, cost)| cost).sum();
    entries.push((at, ahead.min(COST_MAX)));
    view.log(&entries).expect("there is the entry of now")
}

/// When the entry of tick `at` is out of the window of `limit`.
pub(crate) fn leaves(limit: &Limit, at: u64) -> Time {
    View::of(limit).leaves(at)
}

/// The entries of a log, `(tick, cost)`, oldest first.
pub(crate) fn entries(log: &Log) -> Vec<(u64, u64)> {
    Window::of(log).entries().collect()
}

/// The log of these ticks and costs, oldest first; none if there are none.
pub(crate) fn log_of(entries: &[(u64, u64)], deadline: Time) -> Option<Log> {
    let (&(first, _), &(last, last_cost)) = (entries.first()?, entries.last()?);
    let mut gaps = Vec::new();
    for (&(at, cost), &(next, _)) in entries.iter().zip(entries.iter().skip(1)) {
        write_entry(&mut gaps, next.saturating_sub(at), cost);
    }
    let total = entries.iter().map(|(_, cost)| cost).sum();
    Some(Log { deadline, first, last, last_cost, total, gaps: gaps.into_boxed_slice() })
}

/// Whether a log that was read somewhere is one that could have been written.
pub(crate) fn adds_up(log: &Log) -> bool {
    let (mut at, mut sum, mut rest) = (log.first, 0_u64, &*log.gaps);
    while !rest.is_empty() {
        let Some((gap, cost)) = read_entry(&mut rest) else { return false };
        if gap == 0 || cost == 0 || cost > COST_MAX {
            return false;
        }
        at = at.saturating_add(gap);
        sum = sum.saturating_add(cost);
    }
    at == log.last && log.last_cost > 0 && sum.checked_add(log.last_cost) == Some(log.total)
}

/// How long an entry stays in view.
#[derive(Clone, Copy)]
struct View {
    window: u64,
    tick: u64,
}

impl View {
    fn of(limit: &Limit) -> Self {
        Self { window: limit.window().get(), tick: limit.tick_us }
    }

    /// The instant at which the entry of tick `at` is out of the window.
    fn leaves(self, at: u64) -> Time {
        Time::new(at.saturating_mul(self.tick).saturating_add(self.tick - 1 + self.window))
    }

    /// The log of these ticks and costs, oldest first; none if there are none.
    fn log(self, entries: &[(u64, u64)]) -> Option<Log> {
        log_of(entries, self.leaves(entries.last()?.0))
    }
}

/// The part of a log that is in view.
#[derive(Clone, Copy)]
struct Window<'a> {
    first: u64,
    last: u64,
    last_cost: u64,
    total: u64,
    /// Entries but the newest, as the log keeps them.
    gaps: &'a [u8],
}

impl<'a> Window<'a> {
    const EMPTY: Self = Window { first: 0, last: 0, last_cost: 0, total: 0, gaps: &[] };

    fn of(log: &'a Log) -> Self {
        let Log { first, last, last_cost, total, ref gaps, .. } = *log;
        Self { first, last, last_cost, total, gaps }
    }

    fn in_view(log: Option<&'a Log>, view: View, now: Time) -> Self {
        let Some(log) = log else { return Self::EMPTY };
        let mut window = Self::of(log);
        while window.total > 0 && view.leaves(window.first) <= now {
            window.drop_oldest();
        }
        window
    }

    fn drop_oldest(&mut self) {
        let mut rest = self.gaps;
        match read_entry(&mut rest) {
            Some((gap, cost)) => {
                self.first += gap;
                self.total -= cost;
                self.gaps = rest;
            }
            None => *self = Self::EMPTY,
        }
    }

    /// The log with `cost` taken at tick `at`, which is not before the newest entry.
    fn with(mut self, at: u64, cost: u64, hard: u64, view: View) -> Log {
        let mut log = Log {
            deadline: view.leaves(at),
            first: at,
            last: at,
            last_cost: cost,
            total: cost,
            gaps: Box::default(),
        };
        let same_tick = at == self.last;
        if self.total == 0 || (!same_tick && cost >= hard) {
            return log;
        }
        if same_tick {
            log.last_cost = (self.last_cost + cost).min(COST_MAX);
        }
        self.drop_undecisive(hard.saturating_sub(cost));
        let mut gaps = Vec::with_capacity(self.gaps.len() + ENTRY_BYTES_MAX);
        gaps.extend_from_slice(self.gaps);
        if same_tick {
            log.total = self.total - self.last_cost + log.last_cost;
        } else {
            log.total = self.total + cost;
            write_entry(&mut gaps, at - self.last, self.last_cost);
        }
        log.first = self.first;
        log.gaps = gaps.into_boxed_slice();
        log
    }

    /// Drops the oldest entries as long as the rest alone is at least `enough`
    /// to be over the limit: they leave the view first, so that they cannot
    /// decide anything any more.
    fn drop_undecisive(&mut self, enough: u64) {
        while self.first < self.last && self.total - self.oldest_cost() >= enough {
            self.drop_oldest();
        }
    }

    fn oldest_cost(&self) -> u64 {
        let mut rest = self.gaps;
        read_entry(&mut rest).map_or(self.last_cost, |(_, cost)| cost)
    }

    /// The log with `cost` given back, the newest first; none if nothing is left.
    fn without(&self, cost: u64, view: View) -> Option<Log> {
        let mut entries: Vec<(u64, u64)> = self.entries().collect();
        let mut left = cost.min(self.total);
        while let Some(newest) = entries.last_mut() {
            let taken = left.min(newest.1);
            newest.1 -= taken;
            left -= taken;
            if newest.1 > 0 {
                break;
            }
            entries.pop();
        }
        view.log(&entries)
    }

    /// `(tick, cost)`, oldest first.
    fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut at, mut rest) = (self.first, self.gaps);
        let older = std::iter::from_fn(move || {
            let (gap, cost) = read_entry(&mut rest)?;
            at += gap;
            Some((at - gap, cost))
        });
        older.chain((self.total > 0).then_some((self.last, self.last_cost)))
    }

    /// When at most `most` is in view, nothing else happening.
    fn when_at_most(&self, most: u64, view: View) -> Time {
        let mut left = self.total;
        for (at, cost) in self.entries() {
            left -= cost;
            if left <= most {
                return view.leaves(at);
            }
        }
        view.leaves(self.last)
    }

    /// When nothing is in view any more.
    fn leaves_last(&self, view: View, now: Time) -> Time {
        if self.total == 0 { now } else { view.leaves(self.last) }
    }
}

/// What one more entry takes at most: two numbers of up to 63 bits.
const ENTRY_BYTES_MAX: usize = 18;

fn write_entry(out: &mut Vec<u8>, gap: u64, cost: u64) {
    write_number(out, gap << 1 | u64::from(cost != 1));
    if cost != 1 {
        write_number(out, cost);
    }
}

fn read_entry(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    let head = read_number(bytes)?;
    let cost = if head & 1 == 0 { 1 } else { read_number(bytes)? };
    Some((head >> 1, cost))
}

/// Seven bits a byte, low bits first, the high bit on all but the last.
fn write_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(u8::try_from(n & 0x7f).unwrap_or(0) | 0x80);
        n >>= 7;
    }
    out.push(u8::try_from(n).unwrap_or(0));
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}
