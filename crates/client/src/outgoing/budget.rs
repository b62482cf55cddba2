//! How many retries there may be, so that a server that refuses many calls is not called twice as often.
//!
//! Invariant: retries ≤ reserve + percent/100 × calls that were sent, at every moment.

use parking_lot::Mutex;

use super::settings::RetryBudget;

/// What one retry costs.
const RETRY: u64 = 100;

/// What is saved up, in hundredths of a retry.
#[derive(Debug)]
pub(super) struct BudgetAccount {
    budget: RetryBudget,
    saved: Mutex<u64>,
}

impl BudgetAccount {
    pub(super) fn new(budget: RetryBudget) -> Self {
        Self { budget, saved: Mutex::new(u64::from(budget.reserve) * RETRY) }
    }

    /// A call was sent for the first time.
    pub(super) fn deposit(&self) {
        // With a reserve of nothing a retry must still be able to be saved up.
        let most = u64::from(self.budget.reserve.max(1)) * RETRY;
        let mut saved = self.saved.lock();
        *saved = saved.saturating_add(u64::from(self.budget.percent)).min(most.max(*saved));
    }

    /// Whether there may be another retry, which is paid for if so.
    pub(super) fn withdraw(&self) -> bool {
        let mut saved = self.saved.lock();
        let left = saved.checked_sub(RETRY);
        *saved = left.unwrap_or(*saved);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn there_are_never_more_retries_than_the_reserve_and_a_share_of_all_calls(
            reserve in 0_u32..5, percent in 0_u32..150, steps in prop::collection::vec(any::<bool>(), 0..200),
        ) {
            let account = BudgetAccount::new(RetryBudget { reserve, percent });
            let (mut calls, mut retries) = (0_u64, 0_u64);
            for is_call in steps {
                if is_call {
                    account.deposit();
                    calls += 1;
                } else if account.withdraw() {
                    retries += 1;
                }
                prop_assert!(retries * 100 <= u64::from(reserve) * 100 + u64::from(percent) * calls);
            }
        }
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_the_reserve() {
        let account = BudgetAccount::new(RetryBudget { reserve: 2, percent: 50 });
        (0..1_000).for_each(|_| account.deposit());
        assert_eq!((0..10).filter(|_| account.withdraw()).count(), 2);
        account.deposit();
        assert!(!account.withdraw());
        account.deposit();
        assert!(account.withdraw());
        let none = BudgetAccount::new(RetryBudget { reserve: 0, percent: 0 });
        none.deposit();
        assert!(!none.withdraw());
    }
}
