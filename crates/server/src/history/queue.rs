//! What is not written yet, and what was lost.
//!
//! While the folder cannot be written, flushes wait here in their order. There is
//! room for some minutes of much traffic, or hours of little; then the oldest go,
//! and how many requests they told of is remembered.

use std::collections::VecDeque;

use tollgate_history::Flush;

/// Counts that may wait: about 15 MB.
const ROWS_MAX: usize = 100_000;

/// What was lost since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lost {
    pub(super) flushes: u64,
    pub(super) requests: u64,
}

/// Flushes that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    flushes: VecDeque<Flush>,
    rows: usize,
    lost: Lost,
}

impl Queue {
    /// One more; whether older ones had to go for it.
    pub(super) fn push(&mut self, flush: Flush) -> bool {
        self.rows += flush.tally.rows();
        self.flushes.push_back(flush);
        let before = self.lost;
        while self.rows > ROWS_MAX && self.flushes.len() > 1 {
            let Some(oldest) = self.pop() else { break };
            self.lost.flushes += 1;
            self.lost.requests = self.lost.requests.saturating_add(oldest.tally.requests());
        }
        self.lost != before
    }

    /// The one to write next.
    pub(super) fn first(&self) -> Option<&Flush> {
        self.flushes.front()
    }

    /// The first was written.
    pub(super) fn pop(&mut self) -> Option<Flush> {
        let first = self.flushes.pop_front()?;
        self.rows = self.rows.saturating_sub(first.tally.rows());
        Some(first)
    }

    pub(super) fn len(&self) -> usize {
        self.flushes.len()
    }

    pub(super) const fn lost(&self) -> Lost {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use tollgate_history::{FlushName, Instance, Outcome, Tally};

    use super::*;

    fn flush(seq: u64, routes: usize) -> Flush {
        let mut tally = Tally::default();
        for n in 0..routes {
            tally.add_request(1, Some(&format!("/{n}")), Outcome::Allowed);
        }
        Flush { name: FlushName { instance: Instance([1; 16]), seq }, tally }
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room_and_their_requests_are_remembered() {
        let mut queue = Queue::default();
        assert!(!queue.push(flush(1, 60_000)));
        assert!(!queue.push(flush(2, 10)));
        assert!(queue.push(flush(3, 60_000)));
        assert_eq!(queue.lost(), Lost { flushes: 1, requests: 60_000 });
        assert_eq!(queue.pop().map(|flush| flush.name.seq), Some(2));
        assert_eq!(queue.pop().map(|flush| flush.name.seq), Some(3));
        assert_eq!((queue.len(), queue.rows), (0, 0));
    }

    #[test]
    fn one_that_is_too_large_alone_still_waits() {
        let mut queue = Queue::default();
        assert!(!queue.push(flush(1, ROWS_MAX + 1)));
        assert_eq!(queue.len(), 1);
    }
}
