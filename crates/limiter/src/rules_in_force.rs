//! The rules of a limiter, and what its memory store need not work out again for each request.
//!
//! [`crate::Limiter`] holds one, and swaps it for another when rules are replaced; replies hold on to theirs.
//!
//! Invariant: a scope belongs to one rule and to the store of one limiter.

use std::num::NonZeroU64;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Charge, Key, Rule, RuleId, RuleSet};

use crate::memory::MemoryStore;

/// The rules that are in force.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    rules: Arc<RuleSet>,
    /// See [`RulesInForce::version`].
    version: u64,
    /// By rule.
    scopes: Box<[RuleScope]>,
}

/// What the keys of a rule have in common.
#[derive(Debug)]
struct RuleScope {
    /// How long the keys of its levels are; none if one of them is a pattern.
    key_lengths: Option<Box<[usize]>>,
    /// [`MemoryStore::scope`] of keys with entries of these keys; 0 until it is asked for.
    scope: AtomicU64,
}

impl RuleScope {
    fn new(rules: &RuleSet, rule: RuleId) -> Self {
        let levels = rules.levels(rule).map(|(_, levels)| levels).unwrap_or_default();
        let length = |key: &str| (!key.contains('*')).then_some(key.len());
        let key_lengths = levels.into_iter().map(|(key, _)| length(key)).collect();
        Self { key_lengths, scope: AtomicU64::new(0) }
    }

    /// Whether this key, by which the rule was found, differs from its others by nothing but values. A level is found
    /// by the text of its key and its value in one, which begins with the key: one as long is the same.
    #[inline]
    fn has(&self, key: &Key<'_>) -> bool {
        let Some(lengths) = &self.key_lengths else { return false };
        let mut both = key.entries.iter().zip(lengths);
        key.shared.is_empty()
            && key.entries.len() == lengths.len()
            && both.all(|(entry, length)| entry.key.len() == *length)
    }

    #[inline]
    fn of(&self, memory: &MemoryStore, key: &Key<'_>) -> u64 {
        match self.scope.load(Ordering::Relaxed) {
            0 => {
                // A copy, as below.
                let scope = memory.scope(&{ *key });
                self.scope.store(scope, Ordering::Relaxed);
                scope
            }
            scope => scope,
        }
    }
}

impl RulesInForce {
    pub(crate) fn new(rules: Arc<RuleSet>) -> Self {
        static VERSIONS: AtomicU64 = AtomicU64::new(1);
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let scopes = rules.ids().map(|rule| RuleScope::new(&rules, rule)).collect();
        Self { rules, version, scopes }
    }

    /// No other rules of this process have the same.
    #[inline]
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// A number that no other rule of this process ever has: rules are in memory, and there are not four billion.
    #[inline]
    pub(crate) fn rule_number(&self, rule: RuleId) -> u64 {
        self.version << 32 | u64::try_from(rule.index()).unwrap_or(u64::MAX)
    }

    pub(crate) const fn shared_set(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// What stands for the key of a charge in the store.
    pub(crate) fn hash(&self, memory: &MemoryStore, charge: &Charge<'_>) -> KeyHash {
        let rule = charge.rule.and_then(|id| self.rules.rule(id));
        // Not that of a penalty, nor a limit that an operator or the load has put in the place of the rule's.
        let is_own =
            |rule: &Rule| ptr::eq(charge.key.limit, &rule.limit) && charge.key.ordinal == rule.ordinal;
        match rule.is_some_and(is_own) {
            true => self.hash_of_rule(memory, charge),
            false => KeyHash { hash: memory.hash(&charge.key), rule: None },
        }
    }

    /// The same of a charge by the limit of its rule.
    #[inline(always)]
    pub(crate) fn hash_of_rule(&self, memory: &MemoryStore, charge: &Charge<'_>) -> KeyHash {
        let known = charge.rule.and_then(|rule| Some((rule, self.scopes.get(rule.index())?)));
        match known.filter(|(_, scope)| scope.has(&charge.key)) {
            Some((rule, scope)) => KeyHash {
                hash: memory.hash_values(
                    scope.of(memory, &charge.key),
                    charge.key.entries.iter().map(|entry| entry.value),
                ),
                rule: Some(self.rule_number(rule)),
            },
            // A copy, so that nobody who takes the other way has to have the key in memory.
            None => KeyHash { hash: memory.hash(&{ charge.key }), rule: None },
        }
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
