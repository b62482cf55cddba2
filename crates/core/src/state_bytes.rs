//! The form of a log on disk, for stores that write their memory to disk.
//!
//! Five numbers of eight bytes, little-endian, and then the entries as `written_log` writes them.
//! A cell needs none of this: [`crate::Cell::pack`] is its form.
//!
//! Invariant: what does not add up is not read.

use crate::packed_log::{Log, LogHead};
use crate::time::Time;
use crate::written_log::{read_gaps, write_gaps};

/// Deadline, first and last tick, cost of the last, total.
const HEAD_BYTES: usize = 5 * 8;

impl Log {
    /// Appends the packed form.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        let LogHead { deadline, first, last, last_cost, total } = self.parts().0;
        for number in [deadline.get(), first, last, last_cost, total] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        write_gaps(self, out);
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
        let numbers: [[u8; 8]; 5] = numbers.try_into().ok()?;
        let numbers = numbers.map(u64::from_le_bytes);
        let [deadline, first, last, last_cost, total] = numbers;
        let head = LogHead { deadline: Time::new(deadline), first, last, last_cost, total };
        let is_small = numbers.iter().all(|number| *number < 1 << 53);
        if is_small { read_gaps(head, gaps) } else { None }
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
