//! The packed form of a log, for stores that write their memory to disk.
//!
//! Five numbers of eight bytes, little-endian, and then the gaps as they are.
//! A cell needs none of this: [`crate::Cell::pack`] is its form.
//!
//! Invariant: what does not add up is not read.

use crate::algorithm::window_log;
use crate::state::Log;
use crate::time::Time;

/// Deadline, first and last tick, cost of the last, total.
const HEAD_BYTES: usize = 5 * 8;

impl Log {
    /// Appends the packed form.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        for number in [self.deadline.get(), self.first, self.last, self.last_cost, self.total] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.gaps);
    }

    /// Reads the packed form; none if it is not one.
    ///
    /// ```
    /// use tollgate_core::Log;
    /// assert_eq!(Log::read_bytes(b"not a log"), None);
    /// ```
    pub fn read_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, gaps) = bytes.split_at_checked(HEAD_BYTES)?;
        let (numbers, _) = head.as_chunks::<8>();
        let [deadline, first, last, last_cost, total] = *numbers else { return None };
        let log = Self {
            deadline: Time::new(u64::from_le_bytes(deadline)),
            first: u64::from_le_bytes(first),
            last: u64::from_le_bytes(last),
            last_cost: u64::from_le_bytes(last_cost),
            total: u64::from_le_bytes(total),
            gaps: gaps.into(),
        };
        let numbers = [log.deadline.get(), log.first, log.last, log.last_cost, log.total];
        let is_small = numbers.iter().all(|number| *number < 1 << 53);
        (is_small && window_log::adds_up(&log)).then_some(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Limit, Micros, Operation, Shape, State, decide};

    fn busy_log() -> Log {
        let limit = Limit::new(100, Micros::from_secs(60), Shape::SlidingLog).unwrap();
        let mut state = None;
        for step in 0..50 {
            let now = Time::new(1_000_000_000 + step * step * 1_000);
            let before = state.as_ref().map(State::as_ref);
            let (_, change) = decide(before, &limit, now, Operation::Check, 1 + step % 2);
            let Change::Put(put) = change else { panic!("a take is kept") };
            state = Some(put);
        }
        let Some(State::Log(log)) = state else { panic!("a log") };
        log
    }

    #[test]
    fn a_log_comes_back_as_it_was() {
        let (log, mut bytes) = (busy_log(), Vec::new());
        log.write_bytes(&mut bytes);
        assert_eq!(Log::read_bytes(&bytes), Some(log));
    }

    #[test]
    fn what_is_cut_short_is_not_read() {
        let mut bytes = Vec::new();
        busy_log().write_bytes(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Log::read_bytes(&bytes[..length]), None, "{length}");
        }
    }
}
