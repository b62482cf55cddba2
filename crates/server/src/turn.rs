//! Giving way to other connections: between the parts of a batch, and before an answer is written.
//!
//! A worker serves its connections one after the other. Counters in memory are
//! decided without waiting, so that a batch of thousands would keep all others
//! waiting for milliseconds if it did not stop in between.
//!
//! Deliberately not here: one request with many descriptors, which is decided
//! at once or not at all.

use std::future::poll_fn;
use std::task::Poll;

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

/// Lets every other connection of this worker that is ready be read and decided before this one's answer is written.
///
/// Whoever waits for several answers is woken up by the first, and finds the others when it looks. If each were
/// written as soon as it is decided, most would find their reader asleep again, and waking it up costs the
/// worker more than the decision did.
pub(crate) async fn after_others() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        // To the end of the line of tasks that are ready. `yield_now` would look at all sockets first.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::Future as _;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Waker};

    use tokio::task::LocalSet;

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

    /// As connections do: three are ready, and each reads and then writes.
    #[tokio::test]
    async fn all_that_are_ready_are_read_before_the_first_is_answered() {
        let steps = Rc::new(RefCell::new(Vec::new()));
        let connection = |number: u8| {
            let steps = Rc::clone(&steps);
            async move {
                steps.borrow_mut().push(format!("read {number}"));
                after_others().await;
                steps.borrow_mut().push(format!("write {number}"));
            }
        };
        let tasks = LocalSet::new();
        for number in 1..=3 {
            tasks.spawn_local(connection(number));
        }
        tasks.await;
        assert_eq!(*steps.borrow(), ["read 1", "read 2", "read 3", "write 1", "write 2", "write 3"]);
    }
}
