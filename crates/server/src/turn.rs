//! Giving way between the parts of a batch.
//!
//! A worker serves its connections one after the other. Counters in memory are
//! decided without waiting, so that a batch of thousands would keep all others
//! waiting for milliseconds if it did not stop in between.
//!
//! Deliberately not here: one request with many descriptors, which is decided
//! at once or not at all.

/// Decisions after which others get their turn: some dozens of microseconds,
/// which is far longer than giving way takes.
const DECISIONS_PER_TURN: usize = 32;

/// Bytes of JSON that take about as long to read as a decision to make.
const BYTES_PER_DECISION: usize = 512;

/// What a connection has decided since others had their turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    decisions: usize,
}

impl Turn {
    /// So many decisions were made; gives way if that is enough for now.
    pub(crate) async fn decided(&mut self, decisions: usize) {
        // A request that no rule matches takes time, too.
        self.decisions += decisions.max(1);
        if self.decisions >= DECISIONS_PER_TURN {
            self.decisions = 0;
            tokio::task::yield_now().await;
        }
    }

    /// So many bytes of JSON were read; gives way if that is enough for now.
    pub(crate) async fn read(&mut self, bytes: usize) {
        self.decided(bytes / BYTES_PER_DECISION).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn others_have_their_turn_after_a_few_decisions() {
        let has_given_way = |turn: &mut Turn, decisions| {
            let mut context = Context::from_waker(Waker::noop());
            pin!(turn.decided(decisions)).poll(&mut context).is_pending()
        };
        let mut turn = Turn::default();
        for _ in 0..2 {
            let given: Vec<usize> = (1..=64).filter(|_| has_given_way(&mut turn, 0)).collect();
            assert_eq!(given, [32, 64]);
        }
        assert!(!has_given_way(&mut turn, 31) && has_given_way(&mut turn, 10));
    }
}
