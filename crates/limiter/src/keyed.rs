//! One limit over keys of a type, for programs that have no rules: what governor's keyed limiter is.
//!
//! A key is hashed as it is, so that nothing is encoded, matched or allocated; the table and the maths
//! are those of [`crate::MemoryStore`].
//!
//! Invariant: the same decisions as a rule with this limit would give.
//!
//! Deliberately not here: rules, shadow modes, events and other stores, which [`crate::Limiter`] has.

#[cfg(feature = "tokio")]
mod task_lines;

use std::borrow::Borrow;
use std::hash::Hash;
use std::marker::PhantomData;

use tollgate_core::{Charge, Decision, Key, Limit, Mode, Operation, PlainBucket, Time};

use crate::clock::{Clock, SystemClock};
use crate::memory::{BatchedCharges, Capacity, MemoryStore, Usage};

/// One limit for each key of type `K`.
///
/// ```
/// use tollgate_core::{Limit, LimitError, Verdict};
/// use tollgate_limiter::KeyedLimiter;
///
/// let limiter = KeyedLimiter::new(Limit::per_hour(2).build()?);
/// let user = 42_u64;
/// assert_eq!(limiter.check(&user).remaining, 1);
/// assert_eq!(limiter.check(&user).remaining, 0);
/// let Verdict::Deny { retry_after: Some(wait) } = limiter.check(&user).verdict else { panic!() };
/// assert!(wait.get() <= 1_800_000_000, "a token comes every half hour");
/// limiter.refund(&user, 1);
/// assert_eq!(limiter.peek(&user, 1).verdict, Verdict::Allow);
/// # Ok::<(), LimitError>(())
/// ```
///
/// Without keys it is a limiter of `()`.
#[derive(Debug)]
pub struct KeyedLimiter<K: ?Sized, C = SystemClock> {
    limit: Limit,
    store: MemoryStore,
    clock: C,
    #[cfg(feature = "tokio")]
    lines: task_lines::TaskLines,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// A limiter on the machine's clock.
    pub fn new(limit: Limit) -> Self {
        Self::with(limit, Capacity::default(), SystemClock::new())
    }
}

impl<K: Hash + ?Sized, C: Clock> KeyedLimiter<K, C> {
    /// A limiter with a bound and a clock of one's own.
    pub fn with(limit: Limit, capacity: Capacity, clock: C) -> Self {
        Self {
            limit,
            store: MemoryStore::new(capacity),
            clock,
            #[cfg(feature = "tokio")]
            lines: task_lines::TaskLines::default(),
            keys: PhantomData,
        }
    }

    /// May this happen? Takes one if so.
    #[inline]
    pub fn check(&self, key: &K) -> Decision {
        let hash = self.store.hash_of(key);
        self.store.prefetch(hash);
        let now = self.clock.now();
        if let Some(bucket) = self.limit.plain_bucket()
            && let Some(check) = self.store.check_one(hash, bucket, now)
        {
            return bucket.decision(check);
        }
        self.decide(hash, Operation::Check, 1, now)
    }

    /// May this happen? Takes its cost if so, and nothing else.
    pub fn check_cost(&self, key: &K, cost: u64) -> Decision {
        self.operate(key, Operation::Check, cost)
    }

    /// Checks many keys, one after the other, and takes one of each that passes. From some
    /// hundred thousand keys on it takes a fraction of the time that as many calls of [`Self::check`] do,
    /// because memory is read ahead; the clock is read once.
    ///
    /// ```
    /// use tollgate_core::{Limit, LimitError};
    /// use tollgate_limiter::KeyedLimiter;
    ///
    /// let limiter = KeyedLimiter::<str>::new(Limit::per_hour(1).build()?);
    /// let denied = |keys: &[&str]| {
    ///     let decisions = limiter.check_batch(keys);
    ///     decisions.iter().filter(|decision| decision.verdict.is_deny()).count()
    /// };
    /// assert_eq!(denied(&["ann", "bob", "ann"]), 1);
    /// assert_eq!(denied(&["ann", "bob", "eve"]), 2);
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn check_batch<Q: Borrow<K>>(&self, keys: &[Q]) -> Vec<Decision> {
        let hashes = keys.iter().map(|key| self.store.hash_of(key.borrow()));
        let mut decisions = Vec::with_capacity(keys.len());
        self.store.decide_batch(hashes, self, self.clock.now(), |_, decision| decisions.push(decision));
        decisions
    }

    /// What would [`Self::check_cost`] answer? Changes nothing.
    pub fn peek(&self, key: &K, cost: u64) -> Decision {
        self.operate(key, Operation::Peek, cost)
    }

    /// This has happened: takes its cost even where it does not fit.
    pub fn report(&self, key: &K, cost: u64) -> Decision {
        self.operate(key, Operation::Report, cost)
    }

    /// This has not happened after all: gives its cost back, never above full.
    pub fn refund(&self, key: &K, cost: u64) -> Decision {
        self.operate(key, Operation::Refund, cost)
    }

    /// Makes a key new again; whether there was anything to forget.
    pub fn reset(&self, key: &K) -> bool {
        self.store.forget_hash(self.store.hash_of(key))
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// What the limiter holds now.
    pub fn usage(&self) -> Usage {
        self.store.usage()
    }

    /// Drops keys that have run out, and gives memory back; see [`MemoryStore::sweep`].
    pub fn sweep(&self) {
        self.store.sweep(self.clock.now());
    }

    fn operate(&self, key: &K, operation: Operation, cost: u64) -> Decision {
        self.decide(self.store.hash_of(key), operation, cost, self.clock.now())
    }

    #[inline(never)]
    fn decide(&self, hash: u64, operation: Operation, cost: u64, now: Time) -> Decision {
        self.store.decide_any(hash, charge(&self.limit, operation, cost), now)
    }
}

/// One of each key.
impl<K: ?Sized, C> BatchedCharges for KeyedLimiter<K, C> {
    #[inline]
    fn plain_bucket(&self, _: usize) -> Option<&PlainBucket> {
        self.limit.plain_bucket()
    }

    fn charge(&self, _: usize) -> Charge<'_> {
        charge(&self.limit, Operation::Check, 1)
    }
}

/// A charge of a limit, whatever the key.
fn charge(limit: &Limit, operation: Operation, cost: u64) -> Charge<'_> {
    let key = Key { domain: "", entries: &[], shared: &[], limit, ordinal: 0 };
    Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation, cost }
}

#[cfg(feature = "tokio")]
mod ready {
    use std::time::Duration;

    use tollgate_core::{Algorithm, Operation, Verdict};

    use super::task_lines::LinePlace;
    use super::{Clock, Decision, Hash, KeyedLimiter};

    /// A task that waits out its delay; gives back what it took if it gives up.
    struct DelayedTask<'a, K: Hash + ?Sized, C: Clock> {
        limiter: &'a KeyedLimiter<K, C>,
        hash: u64,
        cost: u64,
        /// None once it has gone.
        place: Option<LinePlace<'a>>,
    }

    impl<K: Hash + ?Sized, C: Clock> DelayedTask<'_, K, C> {
        async fn wait(mut self) {
            if let Some(place) = &self.place {
                place.turn().await;
            }
            if let Some(place) = self.place.take() {
                place.go();
            }
        }
    }

    impl<K: Hash + ?Sized, C: Clock> Drop for DelayedTask<'_, K, C> {
        fn drop(&mut self) {
            let Some(place) = self.place.take() else { return };
            place.give_up(|| {
                self.limiter.decide(self.hash, Operation::Refund, self.cost, self.limiter.clock.now());
            });
        }
    }

    impl<K: Hash + ?Sized, C: Clock> KeyedLimiter<K, C> {
        /// Waits until one may pass, takes it, and waits out its delay if it has one. Before each new
        /// attempt a random part of `jitter` is added, so that tasks which wait for one key do not all
        /// come at the same instant. A limit of zero is the one denial that is returned.
        ///
        /// Whoever drops the future takes nothing: a place in the queue of a leaky bucket is given back, and
        /// the tasks behind it move up. (Where tasks with another cost wait behind it, its turn stays empty.)
        pub async fn until_ready(&self, key: &K, jitter: Duration) -> Decision {
            self.until_ready_cost(key, 1, jitter).await
        }

        /// As [`Self::until_ready`], for more than one. A cost that never fits is the one denial that is
        /// returned.
        pub async fn until_ready_cost(&self, key: &K, cost: u64, jitter: Duration) -> Decision {
            let hash = self.store.hash_of(key);
            loop {
                let (decision, place) = self.line_up(hash, cost);
                match decision.verdict {
                    Verdict::Allow | Verdict::Deny { retry_after: None } => return decision,
                    Verdict::Delay { .. } => {
                        DelayedTask { limiter: self, hash, cost, place }.wait().await;
                        return decision;
                    }
                    Verdict::Deny { retry_after: Some(wait) } => {
                        let extra = jitter.mul_f64(fastrand::f64());
                        tokio::time::sleep(Duration::from_micros(wait.get()) + extra).await;
                    }
                }
            }
        }

        /// Checks, and lines up who is to wait.
        fn line_up(&self, hash: u64, cost: u64) -> (Decision, Option<LinePlace<'_>>) {
            let check = || self.decide(hash, Operation::Check, cost, self.clock.now());
            // Nothing else has anybody wait.
            if self.limit.algorithm() != Algorithm::LeakyBucket {
                return (check(), None);
            }
            self.lines.check(hash, cost, check)
        }
    }
}
