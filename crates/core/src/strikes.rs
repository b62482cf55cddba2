//! What is known of a key with a penalty: its strikes, or its block.
//!
//! A limit may have a [`Penalty`]. Beside the charge of the limit stands a
//! second one on a key of its own ([`crate::Key::penalty`]): it is asked first
//! whether the key is blocked, and told afterwards if the limit denied, which is
//! a strike. The store decides both in one step. Page: `spec/penalty.md`; twin in
//! Lua: `penalty.lua`.
//!
//! State: a log of the strikes that are in view, the newest carrying how many
//! blocks there were in a row; or a cell with the end and the length of a block.
//! A key that was never denied has none.
//!
//! Invariants: `after` strikes within any span of `within` begin a block, and
//! begin it at the last of them. A denial while blocked is no strike. A block
//! lasts no longer than its own length, also if the clock steps back. A state
//! past its deadline equals no state.
//!
//! Deliberately not here: which denials are strikes, which a store decides.

use crate::algorithm::{Change, NOW_MAX};
use crate::decision::{Decision, Verdict};
use crate::limit::WINDOW_MAX;
use crate::penalty::{BLOCK_MAX, Penalty};
use crate::state::{Cell, Log, State, StateRef};
use crate::time::{Micros, STEP_BACK_MAX, Time};

const _: () = assert!(BLOCK_MAX.get() <= WINDOW_MAX.get(), "two of them after now still fit in 53 bits");

/// No more blocks in a row are told apart; the longest is reached long before.
const LEVEL_MAX: u64 = 255;
const LEVEL_BITS: u32 = 8;

/// What the charge of a penalty does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PenaltyStep {
    /// Asks whether the key is blocked.
    Look,
    /// Notes that the limit denied.
    Strike,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    /// When it was denied and how often then, oldest first.
    strikes: Vec<(u64, u64)>,
    /// How many blocks in a row count for the length of the next.
    level: u64,
    /// The end of the last block, and its length.
    block: Option<(Time, Micros)>,
    /// From this instant on it is worth nothing.
    deadline: Time,
}

/// Decides over the state of a penalty's key.
pub(crate) fn decide(
    state: Option<StateRef<'_>>,
    penalty: &Penalty,
    now: Time,
    step: PenaltyStep,
) -> (Decision, Change) {
    let now = now.min(NOW_MAX);
    let mut record = state.map_or_else(Record::nothing, Record::read);
    let mut change = match record.rewind(penalty, now) {
        true => Change::Put(record.state()),
        false => Change::Keep,
    };
    record.drop_old(penalty, now);
    if step == PenaltyStep::Strike && record.blocked_for(now) == Micros::ZERO {
        record.strike(penalty, now);
        change = Change::Put(record.state());
    }
    (record.decision(penalty, now), change)
}

impl Record {
    const fn nothing() -> Self {
        Self { strikes: Vec::new(), level: 0, block: None, deadline: Time::EPOCH }
    }

    fn read(state: StateRef<'_>) -> Self {
        let deadline = state.deadline();
        match state {
            StateRef::Cell(cell) => {
                let (length, level) = (cell.low() >> LEVEL_BITS, cell.low() & LEVEL_MAX);
                let remembered = if level > 0 { length } else { 0 };
                let end = deadline.before(Micros::new(remembered));
                Self { strikes: Vec::new(), level, block: Some((end, Micros::new(length))), deadline }
            }
            StateRef::Log(log) => {
                let mut strikes = log.entries().collect::<Vec<_>>();
                // The newest strike carries the blocks as a cost.
                let level = strikes.last().map_or(0, |(_, cost)| cost & !COUNT_MASK) >> COUNT_BITS;
                if let Some(newest) = strikes.last_mut() {
                    newest.1 &= COUNT_MASK;
                }
                Self { strikes, level, block: None, deadline }
            }
        }
    }

    fn state(&self) -> State {
        if let Some((_, length)) = self.block {
            return State::Cell(Cell::new(self.deadline, length.get() << LEVEL_BITS | self.level));
        }
        let mut entries = self.strikes.clone();
        if let Some(newest) = entries.last_mut() {
            newest.1 |= self.level << COUNT_BITS;
        }
        State::Log(Log::of_entries(&entries, self.deadline).expect("there is a strike, or a block"))
    }

    /// Brings what was written while the clock was ahead down to `now`; whether
    /// anything was.
    fn rewind(&mut self, penalty: &Penalty, now: Time) -> bool {
        match &mut self.block {
            Some((end, length)) => {
                if *end <= now + *length + STEP_BACK_MAX {
                    return false;
                }
                *end = now + *length;
                self.deadline = if self.level > 0 { *end + *length } else { *end };
                true
            }
            None => {
                let most = penalty.within().max(penalty.block_length(self.level));
                let latest = (now + STEP_BACK_MAX).get();
                let is_ahead = self.strikes.iter().any(|(at, _)| *at > latest);
                if !is_ahead && self.deadline <= now + most + STEP_BACK_MAX {
                    return false;
                }
                let ahead = self.strikes.iter().filter(|(at, _)| *at >= now.get());
                let count: u64 = ahead.map(|(_, count)| count).sum();
                self.strikes.retain(|(at, _)| *at < now.get());
                if count > 0 {
                    self.strikes.push((now.get(), count));
                }
                self.deadline = self.deadline.min(now + most);
                true
            }
        }
    }

    /// Forgets what no longer counts at `now`.
    fn drop_old(&mut self, penalty: &Penalty, now: Time) {
        if self.deadline <= now {
            *self = Self::nothing();
        } else if self.block.is_some_and(|(end, _)| end <= now) {
            self.block = None;
        }
        self.strikes.retain(|(at, _)| Time::new(*at) + penalty.within() > now);
    }

    fn strike(&mut self, penalty: &Penalty, now: Time) {
        let newest = self.strikes.last_mut();
        // A clock that stepped back waits at the newest strike.
        let at = newest.as_ref().map_or(now, |(at, _)| now.max(Time::new(*at)));
        match newest {
            Some(newest) if newest.0 == at.get() => newest.1 += 1,
            Some(_) | None => self.strikes.push((at.get(), 1)),
        }
        if self.count() < u64::from(penalty.after()) {
            self.deadline = self.deadline.max(at + penalty.within());
            return;
        }
        let length = penalty.block_length(self.level);
        let end = now + length;
        self.strikes.clear();
        self.level = if penalty.factor() > 1 { (self.level + 1).min(LEVEL_MAX) } else { 0 };
        self.deadline = if self.level > 0 { end + length } else { end };
        self.block = Some((end, length));
    }

    fn count(&self) -> u64 {
        self.strikes.iter().map(|(_, count)| count).sum()
    }

    fn blocked_for(&self, now: Time) -> Micros {
        self.block.map_or(Micros::ZERO, |(end, _)| end.since(now))
    }

    fn decision(&self, penalty: &Penalty, now: Time) -> Decision {
        let blocked_for = self.blocked_for(now);
        let is_blocked = blocked_for > Micros::ZERO;
        let limit = u64::from(penalty.after());
        let used = if is_blocked { limit } else { self.count() };
        Decision {
            verdict: match is_blocked {
                true => Verdict::Deny { retry_after: Some(blocked_for) },
                false => Verdict::Allow,
            },
            limit,
            used,
            remaining: limit.saturating_sub(used),
            reset_after: self.deadline.since(now),
            soft: false,
            blocked_for,
        }
    }
}

/// Bits of a strike's cost that say how many there were at its time.
const COUNT_BITS: u32 = 8;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The written form: `B deadline length level` for a block, and
/// `S deadline level time count time count…` for strikes.
pub(crate) fn write_text(state: &State) -> String {
    let Record { strikes, level, block, deadline } = Record::read(state.as_ref());
    let deadline = deadline.get();
    match block {
        Some((_, length)) => format!("B {deadline} {} {level}", length.get()),
        None => strikes
            .iter()
            .fold(format!("S {deadline} {level}"), |text, (at, count)| text + &format!(" {at} {count}")),
    }
}

/// Reads the written form; none if it is not one.
pub(crate) fn read_text(bytes: &[u8]) -> Option<State> {
    let mut pieces = str::from_utf8(bytes).ok()?.split(' ');
    let kind = pieces.next()?;
    let number = |piece: &str| {
        let is_number = piece.bytes().all(|byte| byte.is_ascii_digit());
        piece.parse::<u64>().ok().filter(|number| is_number && *number < 1 << 53)
    };
    let numbers: Vec<u64> = pieces.map(number).collect::<Option<_>>()?;
    match (kind, numbers.as_slice()) {
        ("B", [deadline, length, level]) if *level <= LEVEL_MAX && *length <= BLOCK_MAX.get() => {
            Some(State::Cell(Cell::new(Time::new(*deadline), length << LEVEL_BITS | level)))
        }
        ("S", [deadline, level, strikes @ ..]) if *level <= LEVEL_MAX => {
            let (pairs, []) = strikes.as_chunks::<2>() else { return None };
            let mut entries: Vec<(u64, u64)> = pairs.iter().map(|[at, count]| (*at, *count)).collect();
            let is_counted = entries.iter().all(|(_, count)| (1..=COUNT_MASK).contains(count));
            let is_sorted = entries.is_sorted_by(|(a, _), (b, _)| a < b);
            entries.last_mut()?.1 |= level << COUNT_BITS;
            let log = (is_counted && is_sorted).then(|| Log::of_entries(&entries, Time::new(*deadline)));
            log?.map(State::Log)
        }
        _ => None,
    }
}
