//! The memory store: sharded tables of inline slots.
//!
//! A [`Key`] is hashed with a seed of this process; the hash picks a shard and
//! a slot. Several charges lock their shards in ascending order, so that two
//! requests never wait for each other in a circle.
//!
//! Invariants: no allocation per check for constant-size states; no pass over
//! the whole table ever; never more keys, nor more bytes of logs, than
//! [`Capacity`] says.
//!
//! Deliberately not here: the maths, and names; a slot holds a hash only.

mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, fence};
}
mod batch;
mod denied_cells;
mod seed;
mod several;
mod shard_lock;
mod slots_hint;
pub mod snapshot;
mod table;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use smallvec::{SmallVec, smallvec};
use tollgate_core::key::write_text;
use tollgate_core::{Cell, Change, Charge, Decision, Key, PlainBucket, PlainCheck, State, Time};

use crate::charge_set::{CHARGES_USUAL, ChargeSet, Decisions};
pub(crate) use batch::BatchedCharges;
use denied_cells::DeniedCells;
use seed::Seed;
use shard_lock::{ShardGuard, ShardLock};
use slots_hint::SlotsHint;
use table::{Bound, Table};

/// The most shards; enough that two threads seldom meet in one.
const SHARDS_MAX: usize = 256;
/// A shard is worth having for so many keys.
const KEYS_PER_SHARD_MIN: usize = 64;

/// The bytes of a shard's slots from which on they are fetched ahead. 256 such shards take most of what a core keeps
/// near; below that, asking for what is there only takes time.
const LARGE_BYTES: usize = 3_072;

/// How much a memory store may hold.
///
/// ```
/// use tollgate_limiter::Capacity;
/// let small = Capacity { keys: 1_000, ..Capacity::default() };
/// assert_eq!(small.log_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The most keys; each takes 27 to 41 bytes.
    pub keys: usize,
    /// The most bytes that logs and sub-windows take besides.
    pub log_bytes: usize,
}

/// Ten million keys in about 300 MB, and a gigabyte of logs.
impl Default for Capacity {
    fn default() -> Self {
        Self { keys: 10_000_000, log_bytes: 1 << 30 }
    }
}

/// What a memory store holds at some instant.
///
/// ```
/// use tollgate_limiter::{MemoryStore, Usage};
/// assert_eq!(MemoryStore::default().usage(), Usage::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys with a state, some of which may have run out.
    pub keys: usize,
    /// Bytes of all slots, used or not.
    pub slot_bytes: usize,
    /// Bytes of logs and sub-windows.
    pub log_bytes: usize,
    /// How many live keys were dropped to stay within the bound, ever.
    pub evicted: u64,
}

/// State in the memory of this process.
///
/// ```
/// use tollgate_limiter::{Capacity, MemoryStore};
/// let store = MemoryStore::new(Capacity { keys: 1_000, ..Capacity::default() });
/// assert_eq!(store.usage().keys, 0);
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    seed: Seed,
    shards: Box<[Shard]>,
    /// The bits of a hash that tell the shard.
    shard_bits: u32,
    /// Whether some shard has grown so large that slots are hardly in a cache.
    is_large: AtomicBool,
}

/// A part of all keys, with a lock of its own. What every check needs of it is in one line of memory.
#[derive(Debug)]
#[repr(C, align(64))]
struct Shard {
    /// Half of the hash of the even key and of the odd key that were copied last. Only these are looked for in
    /// `denied`, which is a line of memory that all others need not fetch.
    last_denied: [AtomicU32; 2],
    slots: SlotsHint,
    table: ShardLock<Table>,
    denied: Arc<DeniedCells>,
}

const _: () = assert!(
    std::mem::offset_of!(Shard, table) + Table::FIRST_BYTES <= 64,
    "a check would fetch another line of memory"
);

impl Shard {
    fn new(bound: Bound, shard_bits: u32) -> Self {
        let denied = Arc::new(DeniedCells::new());
        let table = ShardLock::new(Table::new(bound, shard_bits, Arc::clone(&denied)));
        Self { last_denied: Default::default(), slots: SlotsHint::default(), table, denied }
    }

    /// The state that a key was denied over, if it still has it.
    #[inline]
    fn denied_state(&self, hash: u64) -> Option<[u64; 2]> {
        if self.may_have_copy(hash) { self.denied.get(hash) } else { None }
    }

    /// Checks a key that has no copy, or none that is still right.
    #[inline(always)]
    fn check_one(&self, hash: u64, bucket: &PlainBucket, now: Time) -> Option<PlainCheck> {
        let mut table = self.table.lock();
        let check = table.check_one(hash, bucket, now)?;
        if check.is_denied() {
            self.note_copy(&table, hash);
        }
        Some(check)
    }

    /// Notes that a key which was denied has a copy, if it has one: some algorithms leave none. Whoever does not see
    /// the note takes the lock.
    #[inline]
    fn note_copy(&self, table: &Table, hash: u64) {
        let (last, half) = (self.last_denied(hash), low_half(hash));
        // Written once, and then only read by all cores.
        if table.has_copy(hash) && last.load(Ordering::Relaxed) != half {
            last.store(half, Ordering::Relaxed);
        }
    }

    /// Whether this key may have been copied last.
    #[inline]
    fn may_have_copy(&self, hash: u64) -> bool {
        self.last_denied(hash).load(Ordering::Relaxed) == low_half(hash)
    }

    #[inline]
    fn last_denied(&self, hash: u64) -> &AtomicU32 {
        let [even, odd] = &self.last_denied;
        if hash.is_multiple_of(2) { even } else { odd }
    }
}

/// The half of a hash that does not tell the shard.
#[inline]
fn low_half(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

impl MemoryStore {
    /// An empty store.
    pub fn new(capacity: Capacity) -> Self {
        Self::with_seed(capacity, Seed::random())
    }

    fn with_seed(capacity: Capacity, seed: Seed) -> Self {
        let wanted = (capacity.keys / KEYS_PER_SHARD_MIN).clamp(1, SHARDS_MAX);
        let shard_bits = wanted.ilog2();
        let count = 1_usize << shard_bits;
        let bound = Bound { keys: (capacity.keys / count).max(1), log_bytes: capacity.log_bytes / count };
        let shards = (0..count).map(|_| Shard::new(bound, shard_bits)).collect();
        Self { seed, shards, shard_bits, is_large: AtomicBool::new(false) }
    }

    /// What the store holds now.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for shard in &self.shards {
            let usage = shard.table.lock().usage();
            sum.keys += usage.keys;
            sum.slot_bytes += usage.slot_bytes;
            sum.log_bytes += usage.log_bytes;
            sum.evicted += usage.evicted;
        }
        sum
    }

    /// Drops keys that have run out, and gives memory back. Checks do this as
    /// they go, a few slots at a time; call it now and then for a store that
    /// nobody asks. One shard is locked at a time.
    pub fn sweep(&self, now: Time) {
        for shard in &self.shards {
            self.change(shard, |table| table.sweep(now));
        }
    }

    /// Keeps this state under a key, or none, whatever was there.
    ///
    /// ```
    /// use tollgate_core::{Key, Limit, Micros, Shape, State, Time};
    /// use tollgate_limiter::MemoryStore;
    /// let limit = Limit::new(1, Micros::from_secs(60), Shape::FixedWindow)?;
    /// let key = Key { domain: "shop", entries: &[], shared: &[], limit: &limit, ordinal: 0 };
    /// let store = MemoryStore::default();
    /// store.put(&key, State::read_text(b"60000000 1", &limit), Time::EPOCH);
    /// assert_eq!(store.usage().keys, 1);
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn put(&self, key: &Key<'_>, state: Option<State>, now: Time) {
        let hash = self.hash(key);
        let change = state.map_or(Change::Remove, Change::Put);
        drop(self.change(self.shard(self.shard_of(hash)), |table| table.change(hash, change, now)));
    }

    /// Decides all charges of a request together, all or nothing.
    pub fn decide(&self, set: &ChargeSet<'_>, now: Time) -> Decisions {
        if let Some(charge) = set.only() {
            return smallvec![self.decide_one(charge, now)];
        }
        let hashes: SmallVec<[u64; CHARGES_USUAL]> =
            set.charges.iter().map(|charge| self.hash(&charge.key)).collect();
        self.decide_several(&hashes, set, now)
    }

    /// The same for charges whose keys have these hashes.
    pub(crate) fn decide_hashes(&self, hashes: &[u64], set: &ChargeSet<'_>, now: Time) -> Decisions {
        match set.only().zip(hashes.first()) {
            Some((charge, hash)) => smallvec![self.decide_hash(*hash, charge, now)],
            None => self.decide_several(hashes, set, now),
        }
    }

    /// Decides a charge that is all of its request.
    pub(crate) fn decide_one(&self, charge: &Charge<'_>, now: Time) -> Decision {
        self.decide_hash(self.hash(&charge.key), charge, now)
    }

    /// Decides one charge over the state of a hash from [`MemoryStore::hash`], whatever key the charge
    /// has: for whoever asks for the same keys again and again.
    #[inline(always)]
    pub fn decide_hash(&self, hash: u64, charge: &Charge<'_>, now: Time) -> Decision {
        if let Some(bucket) = charge.plain_bucket()
            && let Some(check) = self.check_one(hash, bucket, now)
        {
            return bucket.decision(check);
        }
        self.decide_any(hash, *charge, now)
    }

    /// The short way: a check for one token of a plain bucket. None if the long way has to decide. Always inlined,
    /// because handing over what it finds in memory takes as long as finding it.
    #[inline(always)]
    pub(crate) fn check_one(&self, hash: u64, bucket: &PlainBucket, now: Time) -> Option<PlainCheck> {
        let shard = self.shard(self.shard_of(hash));
        if let Some(words) = shard.denied_state(hash)
            && let Some((check, None)) = bucket.check_one(words, now)
        {
            return Some(check);
        }
        shard.check_one(hash, bucket, now)
    }

    /// Has the lines of a key fetched from memory, for whoever has something to do before it checks. Not those of a key
    /// that is denied over a copy, because they are not read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        if self.is_large.load(Ordering::Relaxed) {
            let shard = self.shard(self.shard_of(hash));
            if !shard.may_have_copy(hash) {
                shard.slots.prefetch(hash, self.shard_bits);
            }
        }
    }

    /// The long way, for everything. It has a charge of its own, so that the short one need not put its into memory.
    #[inline(never)]
    pub(crate) fn decide_any(&self, hash: u64, charge: Charge<'_>, now: Time) -> Decision {
        let shard = self.shard(self.shard_of(hash));
        let denied = shard.denied_state(hash).and_then(|words| denied_again(words, &charge, now));
        let decide = |table: &mut Table| {
            let decision = table.decide(hash, &charge, now);
            if decision.verdict.is_deny() {
                shard.note_copy(table, hash);
            }
            decision
        };
        denied.unwrap_or_else(|| self.change(shard, decide))
    }

    /// Forgets a key; whether there was anything to forget.
    pub fn forget(&self, key: &Key<'_>) -> bool {
        self.forget_hash(self.hash(key))
    }

    pub(crate) fn forget_hash(&self, hash: u64) -> bool {
        let forget = |table: &mut Table| table.change(hash, Change::Remove, Time::EPOCH);
        self.change(self.shard(self.shard_of(hash)), forget).is_some()
    }

    /// The hash of a key that is not a [`Key`].
    #[inline]
    pub(crate) fn hash_of(&self, key: &(impl Hash + ?Sized)) -> u64 {
        let mut hasher = self.seed.hasher();
        key.hash(&mut hasher);
        // A slot without a key holds 0.
        hasher.finish().max(1)
    }

    /// What stands for a key in this store.
    pub fn hash(&self, key: &Key<'_>) -> u64 {
        self.hash_in_scope(self.scope(key), key)
    }

    /// What all keys of a limit have in common, hashed: of use to whoever asks for many of them. Never 0.
    pub(crate) fn scope(&self, key: &Key<'_>) -> u64 {
        let mut hasher = self.seed.hasher();
        key.write_scope(|bytes| hasher.write(bytes));
        hasher.finish().max(1)
    }

    /// The hash of a key whose scope is known.
    #[inline]
    pub(crate) fn hash_in_scope(&self, scope: u64, key: &Key<'_>) -> u64 {
        let mut hasher = self.seed.hasher_of(scope);
        key.write_values(|bytes| hasher.write(bytes));
        // A slot without a key holds 0.
        hasher.finish().max(1)
    }

    /// The same for a key with these values, none of which a pattern stands in for.
    #[inline]
    pub(crate) fn hash_values<'v>(&self, scope: u64, values: impl IntoIterator<Item = &'v str>) -> u64 {
        let mut hasher = self.seed.hasher_of(scope);
        for value in values {
            write_text(value, &mut |bytes| hasher.write(bytes));
        }
        hasher.finish().max(1)
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        // In two steps, because nothing can be shifted by all 64 bits, as a store of one shard would.
        let index = (hash >> 1) >> (u64::BITS - 1 - self.shard_bits);
        usize::try_from(index).unwrap_or(0)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a shard number has shard_bits bits, and there are 2^shard_bits"
    )]
    #[inline]
    fn shard(&self, shard: usize) -> &Shard {
        &self.shards[shard]
    }

    /// Changes a table in any way.
    fn change<T>(&self, shard: &Shard, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = shard.table.lock();
        let changed = change(&mut table);
        self.note_slots(shard, &table);
        changed
    }

    /// Notes where the slots of a shard are, once it has changed.
    fn note_slots(&self, shard: &Shard, table: &Table) {
        if shard.slots.note(table) && table.usage().slot_bytes >= LARGE_BYTES {
            self.is_large.store(true, Ordering::Relaxed);
        }
    }

    fn lock(&self, shard: usize) -> ShardGuard<'_, Table> {
        self.shard(shard).table.lock()
    }
}

/// The decision over a copy of a state, if it is a denial that leaves the state as it is.
fn denied_again(words: [u64; 2], charge: &Charge<'_>, now: Time) -> Option<Decision> {
    if !charge.keeps_cell() {
        return None;
    }
    let (decision, change) = charge.decide_cell(Some(Cell::unpack(words)), now);
    (decision.verdict.is_deny() && change == Change::Keep).then_some(decision)
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Capacity::default())
    }
}
