//! The rules of a limiter, and what its memory store need not work out again for each request.
//!
//! [`crate::Limiter`] holds one, and swaps it for another when rules are replaced; replies hold on to theirs.
//!
//! Invariant: a scope belongs to one rule and to the store of one limiter.

use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::ruleset::SingleCharge;
use tollgate_core::{RuleId, RuleSet};

use crate::memory::MemoryStore;

/// The rules that are in force.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    rules: Arc<RuleSet>,
    /// No other rules of this process have the same.
    version: u64,
    /// By rule, [`MemoryStore::scope`] of its keys; 0 until it is asked for.
    scopes: Box<[AtomicU64]>,
}

impl RulesInForce {
    pub(crate) fn new(rules: Arc<RuleSet>) -> Self {
        static VERSIONS: AtomicU64 = AtomicU64::new(1);
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let scopes = rules.rules().iter().map(|_| AtomicU64::new(0)).collect();
        Self { rules, version, scopes }
    }

    /// A number that no other rule of this process ever has: rules are in memory, and there are not four billion.
    #[inline]
    pub(crate) fn rule_number(&self, rule: RuleId) -> u64 {
        self.version << 32 | u64::try_from(rule.index()).unwrap_or(u64::MAX)
    }

    pub(crate) const fn shared(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// What stands for the key of a charge in the store.
    #[inline]
    pub(crate) fn hash(&self, memory: &MemoryStore, single: &SingleCharge<'_>) -> KeyHash {
        let key = &single.charge.key;
        // Entries that share a key have no scope to themselves.
        let rule = single.charge.rule.filter(|_| single.is_by_keys && key.shared.is_empty());
        let Some((rule, known)) = rule.and_then(|rule| Some((rule, self.scopes.get(rule.index())?))) else {
            return KeyHash { hash: memory.hash(key), rule: None };
        };
        let scope = match known.load(Ordering::Relaxed) {
            0 => {
                let scope = memory.scope(key);
                known.store(scope, Ordering::Relaxed);
                scope
            }
            scope => scope,
        };
        KeyHash { hash: memory.hash_in_scope(scope, key), rule: Some(self.rule_number(rule)) }
    }
}

/// What stands for a key in a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyHash {
    pub(crate) hash: u64,
    /// The number of its rule, if entries with other values have other keys.
    pub(crate) rule: Option<u64>,
}

impl KeyHash {
    /// [`crate::RuleDecision::key_number`].
    #[inline]
    pub(crate) fn key_number(self) -> Option<NonZeroU64> {
        self.rule.and(NonZeroU64::new(self.hash))
    }
}

impl Deref for RulesInForce {
    type Target = RuleSet;

    fn deref(&self) -> &RuleSet {
        &self.rules
    }
}
