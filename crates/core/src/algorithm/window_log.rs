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
use crate::packed_log::{Log, LogGaps, LogHead};
use crate::time::Time;

pub(super) fn decide(log: Option<&Log>, ask: &Ask<'_>, tick: u64) -> (Decision, Change<Log>) {
    let hard = ask.limit.hard_capacity();
    let view = View { window: ask.limit.window().get(), tick };
    let mut window = log.map_or(Window::EMPTY, Window::of);
    // A clock that stepped back waits at the newest entry.
    let now = ask.now.max(Time::new(window.last.saturating_mul(tick)));
    window.drop_old(view, now);
    let step = ask.step(window.total.saturating_add(ask.cost) <= hard);
    let change = match step {
        _ if ask.is_peek() => Change::Keep,
        UsageStep::Deny => Change::Keep,
        UsageStep::Take | UsageStep::CountDenied => {
            Change::Put(window.with(now.get() / tick, ask.cost, hard, view))
        }
        UsageStep::GiveBack => window.without(ask.cost, view).map_or(Change::Remove, Change::Put),
    };
    // What the decision tells is told of the log as it will be; a peek tells of
    // the log as it would be.
    let put = match &change {
        Change::Put(log) => Some(log),
        Change::Keep | Change::Remove => None,
    };
    if let Some(log) = put {
        window = Window::of(log);
        window.drop_old(view, now);
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
    let (mut entries, ahead): (Vec<_>, Vec<_>) = log.entries().partition(|(tick, _)| *tick < at);
    let ahead: u64 = ahead.iter().map(|(_, cost)| cost).sum();
    entries.push((at, ahead.min(COST_MAX)));
    view.log(&entries).expect("there is the entry of now")
}

/// When the entry of tick `at` is out of the window of `limit`.
pub(crate) fn leaves(limit: &Limit, at: u64) -> Time {
    View::of(limit).leaves(at)
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

    fn log(self, entries: &[(u64, u64)]) -> Option<Log> {
        Log::of_entries(entries, self.leaves(entries.last()?.0))
    }
}

/// The part of a log that is in view.
#[derive(Clone, Copy)]
struct Window<'a> {
    first: u64,
    last: u64,
    last_cost: u64,
    total: u64,
    /// Entries but the newest.
    gaps: LogGaps<'a>,
}

impl<'a> Window<'a> {
    const EMPTY: Self = Window { first: 0, last: 0, last_cost: 0, total: 0, gaps: LogGaps::EMPTY };

    fn of(log: &'a Log) -> Self {
        let (LogHead { first, last, last_cost, total, .. }, gaps) = log.parts();
        Self { first, last, last_cost, total, gaps }
    }

    /// Drops what is out of view.
    fn drop_old(&mut self, view: View, now: Time) {
        while self.total > 0 && view.leaves(self.first) <= now {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        match self.gaps.next() {
            Some((gap, cost)) => {
                self.first += gap;
                self.total -= cost;
            }
            None => *self = Self::EMPTY,
        }
    }

    /// The log with `cost` taken at tick `at`, which is not before the newest entry.
    fn with(mut self, at: u64, cost: u64, hard: u64, view: View) -> Log {
        let alone = LogHead { deadline: view.leaves(at), first: at, last: at, last_cost: cost, total: cost };
        let same_tick = at == self.last;
        if self.total == 0 || (!same_tick && cost >= hard) {
            return Log::with_gap(alone, LogGaps::EMPTY, None);
        }
        self.drop_undecisive(hard.saturating_sub(cost));
        let first = self.first;
        if same_tick {
            let last_cost = (self.last_cost + cost).min(COST_MAX);
            let total = self.total - self.last_cost + last_cost;
            Log::with_gap(LogHead { first, last_cost, total, ..alone }, self.gaps, None)
        } else {
            let gap = (at - self.last, self.last_cost);
            Log::with_gap(LogHead { first, total: self.total + cost, ..alone }, self.gaps, Some(gap))
        }
    }

    /// Drops the oldest entries as long as the rest alone is at least `enough`
    /// to be over the limit: they leave the view first, so that they cannot
    /// decide anything any more.
    fn drop_undecisive(&mut self, enough: u64) {
        while self.first < self.last && self.total - self.oldest_cost() >= enough {
            self.drop_oldest();
        }
    }

    fn oldest_cost(mut self) -> u64 {
        self.gaps.next().map_or(self.last_cost, |(_, cost)| cost)
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
        self.gaps.entries(self.first).chain((self.total > 0).then_some((self.last, self.last_cost)))
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
