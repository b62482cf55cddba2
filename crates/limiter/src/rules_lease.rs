//! How a reply holds on to the rules that it was made by.
//!
//! Counting references to rules that all threads share takes two atomic operations for each reply: as long as
//! deciding. So each thread keeps a reference to the rules that it used last, lends it to its next reply, and has it
//! back when that is dropped. Whether they are still in force is told by their version, which is only read.
//!
//! Invariants: a lease is of the rules that are in force when it is taken; a thread that has no reply keeps one
//! reference at most, which may be to rules of before until it decides again.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tollgate_core::RuleSet;

use crate::rules_in_force::RulesInForce;

thread_local! {
    /// What this thread used last, unless a reply has it.
    static KEPT: Cell<Option<Arc<RulesInForce>>> = const { Cell::new(None) };
}

/// The rules that are in force, until others are.
#[derive(Debug)]
pub(crate) struct CurrentRules {
    /// Of the rules below, so that only threads that have others must ask for them.
    version: AtomicU64,
    rules: RwLock<Arc<RulesInForce>>,
}

impl CurrentRules {
    pub(crate) fn new(rules: Arc<RuleSet>) -> Self {
        let rules = RulesInForce::new(rules);
        Self { version: AtomicU64::new(rules.version()), rules: RwLock::new(Arc::new(rules)) }
    }

    /// Puts other rules in force.
    pub(crate) fn replace(&self, rules: Arc<RuleSet>) {
        let rules = Arc::new(RulesInForce::new(rules));
        let mut current = self.rules.write();
        self.version.store(rules.version(), Ordering::Release);
        *current = rules;
    }

    /// [`RulesInForce::version`] of the rules that are in force.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// For whoever keeps them.
    pub(crate) fn shared(&self) -> Arc<RulesInForce> {
        Arc::clone(&self.rules.read())
    }

    /// For a reply.
    #[inline]
    pub(crate) fn lease(&self) -> RulesLease {
        // A thread that ends has none.
        match KEPT.try_with(Cell::take).ok().flatten() {
            Some(kept) if kept.version() == self.version() => RulesLease(Some(kept)),
            other => self.new_lease(other),
        }
    }

    /// Lets go of what the thread kept, here and not on the way of all others.
    #[cold]
    fn new_lease(&self, _of_before: Option<Arc<RulesInForce>>) -> RulesLease {
        RulesLease::of(self.shared())
    }
}

/// Rules that a reply was made by.
#[derive(Debug)]
pub(crate) struct RulesLease(Option<Arc<RulesInForce>>);

impl RulesLease {
    pub(crate) const fn of(rules: Arc<RulesInForce>) -> Self {
        Self(Some(rules))
    }

    /// For whoever keeps them.
    pub(crate) fn shared(&self) -> Arc<RulesInForce> {
        Arc::clone(self.get())
    }

    #[inline]
    fn get(&self) -> &Arc<RulesInForce> {
        self.0.as_ref().expect("they are there until the lease is dropped")
    }
}

impl Deref for RulesLease {
    type Target = RulesInForce;

    #[inline]
    fn deref(&self) -> &RulesInForce {
        self.get()
    }
}

/// Gives them to the thread that is here now, which need not be the one that they were lent by.
impl Drop for RulesLease {
    #[inline]
    fn drop(&mut self) {
        let rules = self.0.take();
        // A thread that ends keeps nothing.
        _ = KEPT.try_with(|kept| kept.set(rules));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::thread;

    use super::*;

    fn kept() -> Option<u64> {
        let rules = KEPT.take();
        let version = rules.as_ref().map(|rules| rules.version());
        KEPT.set(rules);
        version
    }

    #[test]
    fn one_reply_after_the_other_has_the_same_reference() {
        let current = CurrentRules::new(Arc::default());
        drop(current.lease());
        let references = || Arc::strong_count(&current.rules.read());
        assert_eq!((kept(), references()), (Some(current.version()), 2));
        let first = current.lease();
        assert_eq!((kept(), references()), (None, 2), "lent");
        let second = current.lease();
        assert_eq!(references(), 3, "a second one at a time is counted");
        drop(first);
        drop(second);
        assert_eq!((kept(), references()), (Some(current.version()), 2), "and not kept");
    }

    #[test]
    fn a_lease_is_of_the_rules_in_force_and_stays_so() {
        let current = CurrentRules::new(Arc::default());
        let before = current.lease();
        current.replace(Arc::default());
        let after = current.lease();
        assert!(before.version() < after.version());
        assert_eq!(after.version(), current.version());
        drop(after);
        // What is given back last is kept, and is not taken for what is in force.
        drop(before);
        assert_eq!(current.lease().version(), current.version());
    }

    #[test]
    fn limiters_of_one_thread_do_not_take_each_others_rules() {
        let (one, other) = (CurrentRules::new(Arc::default()), CurrentRules::new(Arc::default()));
        for _ in 0..3 {
            assert_eq!(one.lease().version(), one.version());
            assert_eq!(other.lease().version(), other.version());
        }
    }

    #[test]
    fn rules_are_let_go_by_threads_that_end_or_decide_by_others() {
        let current = CurrentRules::new(Arc::default());
        let weak: Weak<RulesInForce> = Arc::downgrade(&current.rules.read());
        let far = thread::scope(|scope| {
            let lease = scope.spawn(|| {
                drop(current.lease());
                current.lease()
            });
            lease.join().unwrap()
        });
        drop(current.lease());
        current.replace(Arc::default());
        assert!(weak.upgrade().is_some(), "by this thread and by the reply");
        drop(far);
        drop(current.lease());
        assert!(weak.upgrade().is_none());
    }

    /// Whoever replaces last has its rules in force, by the version as well.
    #[test]
    fn the_version_is_that_of_the_rules_whoever_replaces_them() {
        let current = CurrentRules::new(Arc::default());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        current.replace(Arc::default());
                        drop(current.lease());
                    }
                });
            }
        });
        assert_eq!(current.shared().version(), current.version());
        assert_eq!(current.lease().version(), current.version());
    }
}
