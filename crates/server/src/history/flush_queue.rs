//! Flushes that are not written yet, and what was lost.
//!
//! While the history cannot be written, flushes wait here in their order. There is room
//! for some minutes of much traffic, or hours of little; then the oldest are dropped, and
//! their requests are counted as lost.

use std::collections::VecDeque;

use tollgate_core::Time;
use tollgate_history::Flush;

/// Counts that may wait: about 15 MB.
const ROWS_MAX: usize = 100_000;

/// What was lost since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LostCounts {
    pub(super) flushes: u64,
    pub(super) requests: u64,
}

/// Flushes that wait to be written.
#[derive(Debug, Default)]
pub(super) struct FlushQueue {
    flushes: VecDeque<Flush>,
    rows: usize,
    lost: LostCounts,
}

impl FlushQueue {
    /// Adds a flush; whether older ones were dropped for it.
    pub(super) fn push(&mut self, flush: Flush) -> bool {
        self.rows += flush.counts.rows();
        self.flushes.push_back(flush);
        let before = self.lost;
        while self.rows > ROWS_MAX && self.flushes.len() > 1 {
            let Some(oldest) = self.pop() else { break };
            self.lost.flushes += 1;
            self.lost.requests = self.lost.requests.saturating_add(oldest.counts.requests());
        }
        self.lost != before
    }

    /// The flush to write next.
    pub(super) fn first(&self) -> Option<&Flush> {
        self.flushes.front()
    }

    /// Removes counts ahead of the store's clock from the flush to write next; how many
    /// requests they were.
    pub(super) fn refuse_future(&mut self, clock: Time) -> u64 {
        let Some(first) = self.flushes.front_mut() else { return 0 };
        let before = first.counts.rows();
        let refused = first.refuse_future(clock);
        self.rows = self.rows.saturating_sub(before.saturating_sub(first.counts.rows()));
        refused
    }

    /// Removes the first, which is written or dropped.
    pub(super) fn pop(&mut self) -> Option<Flush> {
        let first = self.flushes.pop_front()?;
        self.rows = self.rows.saturating_sub(first.counts.rows());
        Some(first)
    }

    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flush> {
        self.flushes.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.flushes.len()
    }

    pub(super) const fn lost(&self) -> LostCounts {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use tollgate_history::{FlushId, InstanceId, Outcome, TrafficCounts};

    use super::*;

    fn flush(seq: u64, routes: usize) -> Flush {
        let mut counts = TrafficCounts::default();
        for n in 0..routes {
            counts.add_request(1, Some(&format!("/{n}")), Outcome::Allowed);
        }
        Flush { id: FlushId { instance: InstanceId([1; 16]), seq }, counts }
    }

    #[test]
    fn the_oldest_are_dropped_when_there_is_no_room_and_counted_as_lost() {
        let mut queue = FlushQueue::default();
        assert!(!queue.push(flush(1, 60_000)));
        assert!(!queue.push(flush(2, 10)));
        assert!(queue.push(flush(3, 60_000)));
        assert_eq!(queue.lost(), LostCounts { flushes: 1, requests: 60_000 });
        assert_eq!(queue.pop().map(|flush| flush.id.seq), Some(2));
        assert_eq!(queue.pop().map(|flush| flush.id.seq), Some(3));
        assert_eq!((queue.len(), queue.rows), (0, 0));
    }

    #[test]
    fn one_that_is_too_large_alone_still_waits() {
        let mut queue = FlushQueue::default();
        assert!(!queue.push(flush(1, ROWS_MAX + 1)));
        assert_eq!(queue.len(), 1);
    }
}
