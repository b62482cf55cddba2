//! One shard: an open-addressing table of 24-byte slots.
//!
//! A slot is the key's hash and the 16 bytes of its state. A state that does
//! not fit (a log) lies in a slab beside the table, and its slot holds the
//! deadline and the place. Collisions go to the next slot; removing moves
//! later slots back, so there are no tombstones.
//!
//! Every insertion looks at a few slots at the clock hand and drops those
//! that have run out. A table grows by half while it may, and then the hand
//! evicts: first what has run out, then keys that were not asked for since the
//! hand last passed. A flood of made-up keys evicts itself; keys in use stay.
//!
//! Invariant: at least one slot in eight is empty, so that every probe ends.

use std::sync::Arc;

use slab::Slab;
use tollgate_core::{Cell, Change, Charge, Decision, Log, PlainBucket, PlainCheck, State, StateRef, Time};

use super::denied_cells::DeniedCells;
use super::{Usage, low_half};

/// Marks a slot whose state is a log; one of the bits a cell leaves free.
const IS_LOG: u64 = 1 << 63;
/// Marks a slot asked for since the hand passed; the other free bit.
const IN_USE: u64 = 1 << 62;
const _: () = assert!(Cell::FREE_BITS == IS_LOG | IN_USE, "a cell leaves two bits to the table");

/// Slots that each insertion looks at for what has run out. Two would keep
/// pace with insertions; four catches up.
const SWEEP_SLOTS: usize = 4;
/// How far the hand goes for one eviction before it takes what is there. Keeps
/// the time of a check bounded.
const EVICT_SLOTS: usize = 64;
/// The first size of a table.
const SLOTS_MIN: usize = 16;
/// The first size of its logs.
const LOGS_MIN: usize = 4;

/// The bound of one shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) keys: usize,
    pub(super) log_bytes: usize,
}

/// In this order, so that a probe that finds the hash has met the first line of the state, too.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Slot {
    /// 0 if empty.
    hash: u64,
    words: [u64; 2],
}

impl Slot {
    fn is_dead(self, now: Time) -> bool {
        Cell::packed_deadline(self.words[0]) <= now
    }

    /// The state, if it is in the slot itself.
    fn cell(self) -> Option<Cell> {
        (self.words[0] & IS_LOG == 0).then(|| Cell::unpack(self.words))
    }

    /// The words of the state, which are those of a cell unless [`IS_LOG`] is set.
    #[inline(always)]
    const fn unmarked(self) -> [u64; 2] {
        let [first, second] = self.words;
        [first & !IN_USE, second]
    }

    fn log_place(self) -> Option<usize> {
        if self.words[0] & IS_LOG == 0 { None } else { usize::try_from(self.words[1]).ok() }
    }
}

/// Another cell, packed, for a key, and the decision that it comes of.
pub(super) struct CellChange {
    pub(super) at: usize,
    pub(super) words: [u64; 2],
    pub(super) decision: Decision,
}

/// One shard. In this order, so that what every check needs shares a line of memory with the lock.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    /// Of the keys that `denied` has copies of, half of the hash, so that others need not look there; see
    /// [`DeniedCells`].
    copied: [u32; 2],
    /// High bits that all hashes of this shard have in common; less than 64.
    skip_bits: u32,
    len: usize,
    logs: Slab<Log>,
    log_bytes: usize,
    hand: usize,
    evicted: u64,
    bound: Bound,
    /// Told of every change to a slot.
    denied: Arc<DeniedCells>,
}

impl Table {
    /// The bytes of what every check needs, with the lock before it.
    pub(super) const FIRST_BYTES: usize = 8 + std::mem::offset_of!(Self, skip_bits) + size_of::<u32>();
    pub(super) const SLOT_BYTES: usize = size_of::<Slot>();

    pub(super) fn new(bound: Bound, skip_bits: u32, denied: Arc<DeniedCells>) -> Self {
        Self {
            slots: Box::default(),
            copied: [0, 0],
            skip_bits,
            len: 0,
            logs: Slab::new(),
            log_bytes: 0,
            hand: 0,
            evicted: 0,
            bound,
            denied,
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            keys: self.len,
            slot_bytes: self.slots.len() * size_of::<Slot>(),
            log_bytes: self.log_bytes,
            evicted: self.evicted,
        }
    }

    /// The address of the first slot and how many there are, for a [`super::slots_hint::SlotsHint`].
    pub(super) fn slots_place(&self) -> (usize, u32) {
        (self.slots.as_ptr().addr(), u32::try_from(self.slots.len()).unwrap_or(0))
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let mut at = self.home(hash)?;
        loop {
            match self.slot(at).hash {
                0 => return None,
                here if here == hash => return Some(at),
                _ => at = self.next(at),
            }
        }
    }

    pub(super) fn state(&self, at: usize) -> Option<StateRef<'_>> {
        let slot = self.slot(at);
        match slot.log_place() {
            None => Some(StateRef::Cell(Cell::unpack(slot.words))),
            Some(place) => self.logs.get(place).map(StateRef::Log),
        }
    }

    /// All keys and their states.
    pub(super) fn states(&self) -> impl Iterator<Item = (u64, StateRef<'_>)> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.hash != 0);
        used.filter_map(move |(at, slot)| Some((slot.hash, self.state(at)?)))
    }

    /// Notes that a key was asked for.
    fn mark_used(&mut self, at: usize) {
        let slot = self.slot_mut(at);
        // A key that is denied again and again is only read, so that its line of memory stays clean.
        if slot.words[0] & IN_USE == 0 {
            slot.words[0] |= IN_USE;
        }
    }

    /// Checks a key for one token by the short way; none if the key is new, or the long way has to decide.
    #[inline(always)]
    pub(super) fn check_one(&mut self, hash: u64, bucket: &PlainBucket, now: Time) -> Option<PlainCheck> {
        let at = self.find(hash)?;
        let (check, taken) = bucket.check_one(self.slot(at).unmarked(), now)?;
        match taken {
            Some(words) => self.put_words(at, hash, words),
            None => self.keep_denied(at, hash),
        }
        Some(check)
    }

    /// What a charge takes of the cell of a key, while nothing is changed yet. None if the key is new, if its state
    /// is no cell, and if nothing is taken.
    pub(super) fn take(&self, hash: u64, charge: &Charge<'_>, now: Time) -> Option<CellChange> {
        if !charge.keeps_cell() {
            return None;
        }
        let at = self.find(hash)?;
        if let Some(bucket) = charge.plain_bucket()
            && let Some((check, taken)) = bucket.check_one(self.slot(at).unmarked(), now)
        {
            return Some(CellChange { at, words: taken?, decision: bucket.decision(check) });
        }
        let cell = self.slot(at).cell()?;
        match charge.decide_cell(Some(cell), now) {
            (decision, Change::Put(cell)) if !decision.verdict.is_deny() => {
                Some(CellChange { at, words: cell.pack(), decision })
            }
            _ => None,
        }
    }

    /// Keeps another cell, packed, for a key that has one.
    #[inline(always)]
    pub(super) fn put_words(&mut self, at: usize, hash: u64, [first, second]: [u64; 2]) {
        self.forget_denied(hash);
        self.slot_mut(at).words = [first | IN_USE, second];
    }

    /// Notes that a key was denied over the cell that it has.
    #[inline]
    fn keep_denied(&mut self, at: usize, hash: u64) {
        self.mark_used(at);
        self.denied.put(hash, self.slot(at).unmarked());
        *self.copied_mut(hash) = low_half(hash);
    }

    /// Whether this key, or one with the same half, has a copy.
    #[inline]
    pub(super) fn has_copy(&self, hash: u64) -> bool {
        let [even, odd] = self.copied;
        low_half(hash) == if hash.is_multiple_of(2) { even } else { odd }
    }

    /// Drops the copy of a key that is about to change, if there is one.
    #[inline]
    fn forget_denied(&mut self, hash: u64) {
        if self.has_copy(hash) {
            self.drop_copy(hash);
        }
    }

    #[cold]
    fn drop_copy(&mut self, hash: u64) {
        // It may be of another key with the same half.
        if self.denied.forget(hash) {
            *self.copied_mut(hash) = 0;
        }
    }

    /// As [`DeniedCells`] has it: one copy for even hashes, one for odd ones.
    #[inline]
    fn copied_mut(&mut self, hash: u64) -> &mut u32 {
        let [even, odd] = &mut self.copied;
        if hash.is_multiple_of(2) { even } else { odd }
    }

    /// Decides a charge over the state of a key, and makes the change that comes of it.
    pub(super) fn decide(&mut self, hash: u64, charge: &Charge<'_>, now: Time) -> Decision {
        let found = self.find(hash);
        let Some(at) = found.filter(|_| charge.keeps_cell()) else {
            return self.decide_rare(found, hash, charge, now);
        };
        let Some(cell) = self.slot(at).cell() else {
            return self.decide_rare(found, hash, charge, now);
        };
        // What most checks do: the slot stays, and its sixteen bytes change.
        let (decision, change) = charge.decide_cell(Some(cell), now);
        match change {
            Change::Keep if decision.verdict.is_deny() => self.keep_denied(at, hash),
            Change::Keep => self.mark_used(at),
            Change::Put(cell) => self.put_words(at, hash, cell.pack()),
            Change::Remove => drop(self.remove(at)),
        }
        decision
    }

    /// The same for a key that is new, and for states and charges of any kind.
    #[inline(never)]
    fn decide_rare(&mut self, found: Option<usize>, hash: u64, charge: &Charge<'_>, now: Time) -> Decision {
        let (decision, change) = charge.decide(found.and_then(|at| self.state(at)), now);
        drop(self.change_found(found, hash, change, now));
        decision
    }

    /// Makes a change to a key, and hands back what was there.
    pub(super) fn change(&mut self, hash: u64, change: Change, now: Time) -> Option<State> {
        self.change_found(self.find(hash), hash, change, now)
    }

    /// The same, where the slot of the key is known.
    fn change_found(&mut self, found: Option<usize>, hash: u64, change: Change, now: Time) -> Option<State> {
        match (change, found) {
            (Change::Keep | Change::Remove, None) => None,
            (Change::Keep, Some(at)) => {
                self.mark_used(at);
                None
            }
            (Change::Remove, Some(at)) => self.remove(at),
            (Change::Put(state), Some(at)) => {
                self.forget_denied(hash);
                let before = self.take_state(at);
                let words = self.pack(state);
                self.slot_mut(at).words = [words[0] | IN_USE, words[1]];
                self.keep_log_bound(hash, now);
                before
            }
            (Change::Put(state), None) => {
                self.insert(hash, state, now);
                self.keep_log_bound(hash, now);
                None
            }
        }
    }

    /// Drops what has run out, and shrinks a table that is mostly empty.
    pub(super) fn sweep(&mut self, now: Time) {
        let mut at = 0;
        while at < self.slots.len() {
            if self.slot(at).hash != 0 && self.slot(at).is_dead(now) {
                drop(self.remove(at));
            } else {
                at += 1;
            }
        }
        if self.len * 4 < self.slots.len() && self.slots.len() > SLOTS_MIN {
            self.resize(slots_for(self.len * 2));
            self.logs.shrink_to_fit();
        }
    }

    fn insert(&mut self, hash: u64, state: State, now: Time) {
        for _ in 0..SWEEP_SLOTS.min(self.slots.len()) {
            self.step_hand(now, Evict::Dead);
        }
        if self.len >= self.bound.keys {
            self.evict(now);
        } else if slots_for(self.len + 1) > self.slots.len() {
            let wanted = self.len + self.len / 2;
            self.resize(slots_for(wanted.clamp(self.len + 1, self.bound.keys)));
        }
        let words = self.pack(state);
        self.place(Slot { hash, words });
        self.len += 1;
    }

    /// Puts a slot where a probe for it will find it.
    fn place(&mut self, slot: Slot) {
        let Some(mut at) = self.home(slot.hash) else { return };
        while self.slot(at).hash != 0 {
            at = self.next(at);
        }
        *self.slot_mut(at) = slot;
    }

    /// Removes a slot, and moves back those behind it that were pushed on.
    fn remove(&mut self, at: usize) -> Option<State> {
        self.forget_denied(self.slot(at).hash);
        let state = self.take_state(at);
        let mut gap = at;
        let mut behind = self.next(gap);
        while self.slot(behind).hash != 0 {
            let home = self.home(self.slot(behind).hash).unwrap_or(behind);
            if self.distance(home, behind) >= self.distance(gap, behind) {
                *self.slot_mut(gap) = self.slot(behind);
                gap = behind;
            }
            behind = self.next(behind);
        }
        *self.slot_mut(gap) = Slot::default();
        self.len -= 1;
        state
    }

    /// The state of a slot, taken out of it.
    fn take_state(&mut self, at: usize) -> Option<State> {
        let slot = self.slot(at);
        match slot.log_place() {
            None => Some(State::Cell(Cell::unpack(slot.words))),
            Some(place) => {
                let log = self.logs.try_remove(place)?;
                self.log_bytes -= log.heap_bytes();
                Some(State::Log(log))
            }
        }
    }

    fn pack(&mut self, state: State) -> [u64; 2] {
        match state {
            State::Cell(cell) => cell.pack(),
            State::Log(log) => {
                let deadline = log.deadline();
                self.log_bytes += log.heap_bytes();
                // Grows by half, as the table does: doubled, it would be a quarter empty on average.
                if self.logs.len() == self.logs.capacity() {
                    self.logs.reserve_exact((self.logs.len() / 2).max(LOGS_MIN));
                }
                let place = self.logs.insert(log);
                [deadline.get() | IS_LOG, u64::try_from(place).unwrap_or(u64::MAX)]
            }
        }
    }

    fn evict(&mut self, now: Time) {
        let passes = (1..EVICT_SLOTS).map(|_| Evict::Unused).chain([Evict::Any]);
        for what in passes {
            if self.step_hand(now, what) {
                return;
            }
        }
        // The last slot was empty: the next one that is not will do.
        for _ in 0..self.slots.len() {
            if self.step_hand(now, Evict::Any) {
                return;
            }
        }
    }

    /// Evicts logs until they fit again, but not the one just written. What one
    /// check does not get done the next one goes on with.
    fn keep_log_bound(&mut self, hash: u64, now: Time) {
        for _ in 0..EVICT_SLOTS {
            if self.log_bytes <= self.bound.log_bytes {
                return;
            }
            let slot = self.slot(self.hand);
            if slot.hash == hash || slot.log_place().is_none() {
                self.hand = self.next(self.hand);
            } else {
                self.step_hand(now, Evict::Unused);
            }
        }
    }

    /// Looks at the slot where the hand stands; whether it was dropped.
    fn step_hand(&mut self, now: Time, what: Evict) -> bool {
        let at = if self.hand < self.slots.len() { self.hand } else { 0 };
        let slot = self.slot(at);
        let is_dead = slot.is_dead(now);
        let is_in_use = slot.words[0] & IN_USE != 0;
        let goes = slot.hash != 0
            && match what {
                Evict::Dead => is_dead,
                Evict::Unused => is_dead || !is_in_use,
                Evict::Any => true,
            };
        if goes {
            drop(self.remove(at));
            self.evicted += u64::from(!is_dead);
            self.hand = at;
            return true;
        }
        if what != Evict::Dead && is_in_use {
            self.forget_denied(slot.hash);
            self.slot_mut(at).words[0] &= !IN_USE;
        }
        self.hand = self.next(at);
        false
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots].into_boxed_slice());
        self.hand = 0;
        for slot in old.into_iter().filter(|slot| slot.hash != 0) {
            self.place(slot);
        }
    }

    /// Where a key wants to be.
    #[inline]
    fn home(&self, hash: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        Some(Self::home_among(u64::try_from(self.slots.len()).ok()?, hash, self.skip_bits))
    }

    /// Where a key wants to be among so many slots: the hash as a fraction of their number, without the high bits
    /// that all of a shard have in common.
    #[inline(always)]
    pub(super) fn home_among(length: u64, hash: u64, skip_bits: u32) -> usize {
        usize::try_from((u128::from(hash << skip_bits) * u128::from(length)) >> 64).unwrap_or(0)
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 < self.slots.len() { at + 1 } else { 0 }
    }

    /// How far `to` is behind `from`, going round.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "places come from home and next, which stay within the table"
    )]
    fn slot(&self, at: usize) -> Slot {
        self.slots[at]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "places come from home and next, which stay within the table"
    )]
    fn slot_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }
}

/// What the hand may drop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evict {
    /// What has run out.
    Dead,
    /// That, or what was not asked for since the hand last passed.
    Unused,
    /// Whatever is there.
    Any,
}

/// How many slots hold `keys` with one in eight empty.
fn slots_for(keys: usize) -> usize {
    (keys * 8).div_ceil(7).max(SLOTS_MIN)
}

#[cfg(test)]
mod tests;
