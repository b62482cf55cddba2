//! Where state lives: in this process, or on servers that several share.
//!
//! [`crate::Limiter`] asks a [`Store`] about the charges of a request. That of this process is
//! [`MemoryStore`]; `tollgate_redis` has the other.
//!
//! Invariant: what is in memory is decided without waiting and without a future.
//!
//! Deliberately not here: what "all or nothing" means (`charge_set`).

use tollgate_core::{Key, Time};

use crate::charge_set::{ChargeFlags, ChargeSet, Decisions};
use crate::memory::MemoryStore;

/// Where state lives: in this process, or on servers that several share.
///
/// It always answers. While servers cannot be asked, each limit does its
/// [`tollgate_core::OnStoreError`], and the reply says so.
///
/// ```
/// use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Shape, Time};
/// use tollgate_limiter::{ChargeSet, MemoryStore, Store};
///
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let entries = [Entry::from(("user_id", "42"))];
/// let key = Key { domain: "shop", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
/// let (mode, operation) = (Mode::Enforce, Operation::Check);
/// let mut set = ChargeSet::default();
/// set.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
///
/// let store = MemoryStore::default();
/// assert!(!set.is_denied(&store.decide(&set, Time::EPOCH)));
/// assert!(set.is_denied(&store.decide(&set, Time::EPOCH)));
/// # let _check = Store::check(&store, &set, Time::EPOCH);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub trait Store: Send + Sync {
    /// Decides all charges of a request together, all or nothing. `now` is
    /// this process's clock; the store may have a better one.
    fn check(&self, set: &ChargeSet<'_>, now: Time) -> impl Future<Output = StoreReply> + Send;

    /// The states themselves, where they are in this process: then nobody need wait.
    fn memory(&self) -> Option<&MemoryStore> {
        None
    }

    /// Forgets a key; whether there was anything to forget. `now` is this
    /// process's clock.
    fn reset(&self, key: &Key<'_>, now: Time) -> impl Future<Output = bool> + Send;
}

/// A store whose futures are ready when they are first polled, so that callers
/// without a runtime can ask it, too.
pub trait ImmediateStore: Store {}

/// What a store answers.
#[derive(Debug, Clone, Default)]
pub struct StoreReply {
    /// When it was decided, on the store's own clock.
    pub now: Time,
    /// One for each charge.
    pub decisions: Decisions,
    /// For each charge, whether it was decided without the store; empty if
    /// none was.
    pub degraded: ChargeFlags,
    /// It was denied from memory of an earlier denial; nothing was asked.
    pub remembered: bool,
}

impl Store for MemoryStore {
    fn check(&self, set: &ChargeSet<'_>, now: Time) -> impl Future<Output = StoreReply> + Send {
        std::future::ready(StoreReply { now, decisions: self.decide(set, now), ..StoreReply::default() })
    }

    fn memory(&self) -> Option<&Self> {
        Some(self)
    }

    fn reset(&self, key: &Key<'_>, _: Time) -> impl Future<Output = bool> + Send {
        std::future::ready(self.forget(key))
    }
}

impl ImmediateStore for MemoryStore {}
