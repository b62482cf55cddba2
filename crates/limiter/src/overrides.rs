//! Limits that operators bend for one descriptor, for a while.
//!
//! [`crate::Limiter`] holds one table, made anew with each change, and asks it between the rules
//! and the store. Where there is none a request pays for one look at a flag.
//!
//! Invariant: who is denied by a list or by an override is denied, whatever else says otherwise;
//! then who is let pass is let pass; only then do numbers count. What has ended by the clock of a
//! request bends nothing for it.
//!
//! Deliberately not here: who made an override and why, where it is kept, and telling others.

use std::collections::HashMap;

use tollgate_core::ruleset::{Free, ListDenial};
use tollgate_core::{Charge, Entry, Limit, Mode, Operation, Request, RuleSet, Time};

use crate::lookup::{Exception, Lookup};

/// What an override does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverrideEffect {
    /// Its limit lets so many through in its window, instead of what the rule says.
    Limit(u32),
    /// Its limit does not meet it.
    Unlimited,
    /// It gets nothing.
    Deny,
}

/// One override of a descriptor.
#[derive(Debug, Clone)]
pub struct OverrideEntry {
    /// The name of the rule it is about; none for all that the descriptor meets.
    pub rule: Option<String>,
    /// What it does.
    pub effect: OverrideEffect,
    /// When it ends.
    pub until: Time,
}

/// All overrides in force.
///
/// ```
/// use tollgate_core::{Descriptor, Entry, Request, RuleSet, Time, Verdict};
/// use tollgate_limiter::overrides::{OverrideEffect, OverrideEntry, OverrideTable};
/// use tollgate_limiter::Limiter;
///
/// let limiter = Limiter::new(RuleSet::default());
/// let entries = [Entry::from(("user_id", "42"))];
/// let mut table = OverrideTable::default();
/// table.insert("shop", &entries, OverrideEntry { rule: None, effect: OverrideEffect::Deny, until: Time::MAX });
/// limiter.replace_overrides(table);
/// let descriptors = [Descriptor::new(&entries)];
/// let request = Request::new("shop", &descriptors);
/// assert_eq!(limiter.check(&request).at_once().verdict, Verdict::Deny { retry_after: None });
/// ```
#[derive(Debug, Default)]
pub struct OverrideTable {
    by_descriptor: HashMap<String, Vec<OverrideEntry>>,
}

impl OverrideTable {
    /// Adds one for the descriptor of these entries.
    pub fn insert(&mut self, domain: &str, entries: &[Entry<'_>], entry: OverrideEntry) {
        self.by_descriptor.entry(descriptor_key(domain, entries)).or_default().push(entry);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_descriptor.is_empty()
    }

    fn of<'t>(
        &'t self,
        request: &Request<'_>,
        descriptor: usize,
        now: Time,
    ) -> impl Iterator<Item = &'t OverrideEntry> {
        let entries = request.descriptors.get(descriptor).map_or(&[][..], |descriptor| descriptor.entries);
        let found = self.by_descriptor.get(&descriptor_key(request.domain, entries));
        found.into_iter().flatten().filter(move |entry| now < entry.until)
    }
}

/// Domain and entries as one text, with the length before each piece so that no two are alike.
fn descriptor_key(domain: &str, entries: &[Entry<'_>]) -> String {
    let mut key = String::new();
    let pieces = entries.iter().flat_map(|entry| [entry.key, entry.value]);
    for piece in std::iter::once(domain).chain(pieces) {
        key.push_str(&piece.len().to_string());
        key.push(':');
        key.push_str(piece);
    }
    key
}

/// A lookup that is being bent.
pub(crate) struct Bending<'t, 'r> {
    pub(crate) table: &'t OverrideTable,
    pub(crate) rules: &'r RuleSet,
    pub(crate) request: &'r Request<'r>,
    pub(crate) operation: Operation,
    pub(crate) now: Time,
}

impl Bending<'_, '_> {
    /// Denies and lets pass; returns the limits of the charges that are left, where they are others.
    pub(crate) fn bend(&self, lookup: &mut Lookup<'_>) -> Vec<Option<Limit>> {
        for descriptor in 0..self.request.descriptors.len() {
            for entry in self.table.of(self.request, descriptor, self.now) {
                match entry.effect {
                    OverrideEffect::Deny => self.deny(lookup, descriptor),
                    OverrideEffect::Unlimited => self.let_pass(lookup, descriptor, entry),
                    OverrideEffect::Limit(_) => {}
                }
            }
        }
        lookup.leave_out_what_is_denied();
        lookup.set.charges.iter().map(|charge| self.limit_of(charge)).collect()
    }

    /// What has happened already is charged all the same.
    fn deny(&self, lookup: &mut Lookup<'_>, descriptor: usize) {
        let Some(asked) = self.request.descriptors.get(descriptor) else { return };
        let operation = asked.operation.unwrap_or(self.operation);
        if matches!(operation, Operation::Check | Operation::Peek) {
            let cost = asked.cost.unwrap_or(self.request.cost);
            let denial = ListDenial { descriptor, rule: None, mode: Mode::Enforce, operation, cost };
            lookup.denied.push((denial, Exception::Override));
            if let Some(free) = lookup.free.get_mut(descriptor) {
                *free = None;
            }
        }
    }

    fn let_pass(&self, lookup: &mut Lookup<'_>, descriptor: usize, entry: &OverrideEntry) {
        let (set, mut any) = (&mut lookup.set, false);
        set.charges.retain(|charge| {
            let is_it = charge.descriptor == descriptor && self.is_about(entry, charge);
            set.quota_passes |= is_it && charge.mode.is_quota();
            any |= is_it;
            !is_it
        });
        if any
            && !set.charges.iter().any(|charge| charge.descriptor == descriptor)
            && let Some(free) = lookup.free.get_mut(descriptor)
        {
            *free = Some(Free::Overridden);
        }
    }

    fn limit_of(&self, charge: &Charge<'_>) -> Option<Limit> {
        let mut entries = self.table.of(self.request, charge.descriptor, self.now);
        entries.find_map(|entry| match entry.effect {
            // A number that makes no limit of that kind was refused when it was made; where the
            // rule has changed since, what the rule says holds.
            OverrideEffect::Limit(count) if self.is_about(entry, charge) => {
                charge.limit().with_count(count).ok()
            }
            OverrideEffect::Limit(_) | OverrideEffect::Unlimited | OverrideEffect::Deny => None,
        })
    }

    /// A limit that the caller brought is nobody's to bend.
    fn is_about(&self, entry: &OverrideEntry, charge: &Charge<'_>) -> bool {
        let Some(rule) = charge.rule.and_then(|id| self.rules.rule(id)) else { return false };
        entry.rule.as_deref().is_none_or(|name| name == rule.name())
    }
}
