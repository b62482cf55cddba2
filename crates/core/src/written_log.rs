//! The entries of a log as stores write them, in text and in bytes.
//!
//! For each entry but the newest `gap to the next << 1 | cost is not 1`, then the cost if it is not 1, each
//! as a number of `varint`. Lua reads and writes the same, which is why it is not the form in memory.
//!
//! Invariant: what does not add up is not read, so that a [`Log`] is always one that could have been made
//! by decisions.

use crate::algorithm::COST_MAX;
use crate::packed_log::{Log, LogHead};
use crate::varint::{read_number, write_number};

/// Appends the written entries.
pub(crate) fn write_gaps(log: &Log, out: &mut Vec<u8>) {
    for (gap, cost) in log.parts().1 {
        write_number(out, gap << 1 | u64::from(cost != 1));
        if cost != 1 {
            write_number(out, cost);
        }
    }
}

/// The log of these numbers and written entries; none if they do not add up.
pub(crate) fn read_gaps(head: LogHead, bytes: &[u8]) -> Option<Log> {
    let (mut at, mut sum, mut rest) = (head.first, head.last_cost, bytes);
    while !rest.is_empty() {
        let (gap, cost) =
            read_entry(&mut rest).filter(|(gap, cost)| *gap > 0 && (1..=COST_MAX).contains(cost))?;
        at = at.saturating_add(gap);
        sum = sum.saturating_add(cost);
    }
    let adds_up = at == head.last && sum == head.total && head.last_cost > 0;
    let mut rest = bytes;
    let entries: Vec<_> = std::iter::from_fn(|| read_entry(&mut rest)).collect();
    adds_up.then(|| Log::new(head, entries.iter().copied()))
}

fn read_entry(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    let head = read_number(bytes)?;
    let cost = if head & 1 == 0 { 1 } else { read_number(bytes)? };
    Some((head >> 1, cost))
}
