//! The same numbers by all six algorithms.
//!
//! Each algorithm decides every request with the limits of the rules, on a store of its own. What a
//! request is charged for is what the rules say; only how it is counted differs.

use tollgate_core::ruleset::Found;
use tollgate_core::{Algorithm, Charge, Key, Limit, Operation, RuleSet, Verdict};
use tollgate_limiter::{Capacity, ChargeSet, MemoryStore, Reply};

use crate::batch::LoggedRequest;
use crate::ledger::{Tally, TallyTable, keys};
use crate::report::AlgorithmRow;
use crate::reshape::by_algorithm;

/// All six, one after the other.
#[derive(Debug)]
pub(crate) struct AlgorithmTrials {
    trials: Vec<AlgorithmTrial>,
}

/// The rules by one algorithm.
#[derive(Debug)]
struct AlgorithmTrial {
    algorithm: Algorithm,
    /// By rule; or why one of them cannot be kept so.
    limits: Result<Vec<Limit>, String>,
    store: MemoryStore,
    total: Tally,
    /// Only those that were denied.
    denied_keys: TallyTable,
}

impl AlgorithmTrials {
    pub(crate) fn new(rules: &RuleSet) -> Self {
        let limits = |algorithm: Algorithm| {
            let by = |rule: &tollgate_core::Rule| {
                by_algorithm(&rule.limit, algorithm).map_err(|error| format!("{}: {error}", rule.name()))
            };
            rules.rules().iter().map(by).collect()
        };
        let trial = |algorithm| AlgorithmTrial {
            algorithm,
            limits: limits(algorithm),
            store: MemoryStore::new(Capacity::default()),
            total: Tally::default(),
            denied_keys: keys(),
        };
        Self { trials: Algorithm::ALL.map(trial).into() }
    }

    pub(crate) fn decide(&mut self, rules: &RuleSet, request: &LoggedRequest<'_>) {
        for trial in &mut self.trials {
            trial.decide(rules, request);
        }
    }

    /// Counts a request that lists deny.
    pub(crate) fn deny(&mut self, request: &LoggedRequest<'_>, reply: &Reply) {
        for trial in self.trials.iter_mut().filter(|trial| trial.limits.is_ok()) {
            trial.total.count(reply.verdict);
            for decision in &reply.decisions {
                if let Some(rule) = decision.rule
                    && let Some(tally) =
                        trial.denied_keys.entry(rule.index(), request.key(decision.descriptor))
                {
                    tally.count(decision.verdict);
                }
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<AlgorithmRow> {
        let row = |trial: &AlgorithmTrial| AlgorithmRow {
            algorithm: trial.algorithm.name(),
            denied: trial.total.denied,
            delayed: trial.total.delayed,
            keys_denied: trial.denied_keys.len(),
            not_possible: trial.limits.as_ref().err().cloned(),
        };
        self.trials.iter().map(row).collect()
    }
}

impl AlgorithmTrial {
    fn decide(&mut self, rules: &RuleSet, request: &LoggedRequest<'_>) {
        let Ok(limits) = &self.limits else { return };
        let mut set = ChargeSet::default();
        rules.charges(&request.request, Operation::Check, |found| {
            let Found::Charge(charge) = found else { return };
            let Some(index) = charge.rule.map(tollgate_core::RuleId::index) else { return };
            let Some(limit) = limits.get(index) else { return };
            // Limits that differed by their algorithm only are told apart by their rule.
            let ordinal = u32::try_from(index).unwrap_or(u32::MAX);
            let key = Key { limit, ordinal, ..charge.key };
            let key = if charge.is_penalty() { key.penalty() } else { key };
            set.charges.push(Charge { key, ..charge });
        });
        let decisions = self.store.decide(&set, request.time);
        for (charge, decision) in set.charges.iter().zip(&decisions) {
            if let (Some(rule), true) = (charge.rule, decision.verdict.is_deny())
                && let Some(tally) = self.denied_keys.entry(rule.index(), request.key(charge.descriptor))
            {
                tally.count(decision.verdict);
            }
        }
        let is_delayed = |(charge, decision): (&Charge<'_>, &tollgate_core::Decision)| {
            !charge.mode.is_shadow() && matches!(decision.verdict, Verdict::Delay { .. })
        };
        let is_denied = set.is_denied(&decisions);
        self.total.requests += 1;
        self.total.denied += u64::from(is_denied);
        self.total.delayed += u64::from(!is_denied && set.charges.iter().zip(&decisions).any(is_delayed));
    }
}
