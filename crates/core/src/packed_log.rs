//! The state of the logs in one piece of memory: a few numbers, then every entry but the newest in bits.
//!
//! [`crate::algorithm::window_log`] reads the [`LogHead`] and walks the [`LogGaps`]; stores only move a
//! [`Log`]. An entry is the gap to the next one, and its cost if any entry of the log costs more than 1.
//! Both are written by Rice's code: what is above the low bits as that many zeros and a one, then the low
//! bits as they are. How many bits are low follows from the mean. So the zeros of a whole log are at most
//! four for each number, however they differ, and a request among 500 an hour takes 24 to 25 bits; no
//! code for times to the microsecond does with less than 24.2 (`docs/decisions/016-logs-in-bits.md`).
//!
//! Invariant: a log that is built anew of its entries is equal, whatever its code was.
//!
//! Deliberately not here: windows, limits, and the forms that stores write (`state_bytes`, `state_text`).

mod bit_writer;

use crate::time::Time;
use crate::varint::{number_bytes, read_number, write_number};
use bit_writer::BitWriter;

/// Low bits of gaps; low bits of costs and one, or 0; where the bits begin, and how many at their end are unused.
const CODE_BYTES: usize = 3;

/// What a log says of itself before its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogHead {
    pub(crate) deadline: Time,
    /// Tick of the oldest entry.
    pub(crate) first: u64,
    /// Tick and cost of the newest entry.
    pub(crate) last: u64,
    pub(crate) last_cost: u64,
    /// Sum of all costs.
    pub(crate) total: u64,
}

/// The state of the logs: when what was taken, oldest first, in bits.
///
/// A tick is a microsecond for the log and a sub-window for the buckets.
///
/// ```
/// use tollgate_core::{Change, Limit, Micros, Operation, Shape, State, Time, decide};
/// let limit = Limit::new(10, Micros::SECOND, Shape::SlidingLog)?;
/// let (_, change) = decide(None, &limit, Time::EPOCH, Operation::Check, 1);
/// let Change::Put(state) = change else { panic!("a taken request is remembered") };
/// let State::Log(log) = state else { panic!("as long as the limit") };
/// assert_eq!(log.deadline(), Time::from_secs(1));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone)]
pub struct Log {
    /// Two bytes for the code, one for where its bits begin and end, six numbers (deadline, last tick, ticks
    /// between first and last, total, cost of the last, entries in bits), and the bits.
    bytes: Box<[u8]>,
}

/// How the entries of one log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GapCode {
    /// Low bits of a gap, below 54, as gaps are below 2^53.
    gap_bits: u32,
    /// Low bits of a cost; none if each is 1 and not written.
    cost_bits: Option<u32>,
}

/// The entries of a log but the newest, oldest first: an iterator of gap to the next and cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogGaps<'a> {
    bits: &'a [u8],
    /// The bit where the oldest begins, and the one behind the newest.
    at: usize,
    end: usize,
    left: u64,
    code: GapCode,
}

impl Log {
    /// The log of these ticks and costs, oldest first, each tick later than the one before; none if there are none.
    pub(crate) fn of_entries(entries: &[(u64, u64)], deadline: Time) -> Option<Self> {
        let (&(first, _), &(last, last_cost)) = (entries.first()?, entries.last()?);
        let total = entries.iter().map(|(_, cost)| cost).sum();
        let pairs = entries.iter().zip(entries.iter().skip(1));
        let gaps = pairs.map(|((at, cost), (next, _))| (next - at, *cost));
        Some(Self::new(LogHead { deadline, first, last, last_cost, total }, gaps))
    }

    /// Ticks and costs, oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (head, gaps) = self.parts();
        gaps.entries(head.first).chain([(head.last, head.last_cost)])
    }

    /// A log of these entries beside the newest.
    pub(crate) fn new(head: LogHead, gaps: impl Iterator<Item = (u64, u64)> + Clone) -> Self {
        let count = u64::try_from(gaps.clone().count()).unwrap_or(u64::MAX);
        let code = GapCode::suiting(head, count);
        let end = gaps.clone().map(|(gap, cost)| code.bits_of(gap, cost)).sum();
        let mut bytes = begin(head, LogGaps { bits: &[], at: 0, end, left: count, code });
        let mut out = BitWriter { bytes: &mut bytes, free: 0 };
        for (gap, cost) in gaps {
            code.write(gap, cost, &mut out);
        }
        Self { bytes: bytes.into_boxed_slice() }
    }

    /// A log of these entries and one more beside the newest: their bits are copied as they are, as long
    /// as their code still fits.
    pub(crate) fn with_gap(head: LogHead, gaps: LogGaps<'_>, newest: Option<(u64, u64)>) -> Self {
        let left = gaps.left + u64::from(newest.is_some());
        if left == 0 || !gaps.code.is_near(GapCode::suiting(head, left)) {
            return Self::new(head, gaps.chain(newest));
        }
        let more = newest.map_or(0, |(gap, cost)| gaps.code.bits_of(gap, cost));
        let from = gaps.at / 8;
        let (at, end) = (gaps.at - from * 8, gaps.end - from * 8);
        let mut bytes = begin(head, LogGaps { bits: &[], at, end: end + more, left, code: gaps.code });
        bytes.extend_from_slice(gaps.bits.get(from..gaps.end.div_ceil(8)).unwrap_or_default());
        if let Some((gap, cost)) = newest {
            let free = end.next_multiple_of(8) - end;
            gaps.code.write(gap, cost, &mut BitWriter { bytes: &mut bytes, free });
        }
        Self { bytes: bytes.into_boxed_slice() }
    }

    /// The numbers, and the entries but the newest.
    pub(crate) fn parts(&self) -> (LogHead, LogGaps<'_>) {
        let mut rest = self.bytes.get(CODE_BYTES..).unwrap_or_default();
        let mut number = || read_number(&mut rest).unwrap_or_default();
        let [deadline, last, span, total, last_cost, left] = std::array::from_fn(|_| number());
        let [gap_bits, cost_bits, edges] = self.bytes.first_chunk().copied().unwrap_or_default();
        let code = GapCode { gap_bits: u32::from(gap_bits), cost_bits: u32::from(cost_bits).checked_sub(1) };
        let unused = usize::from(edges >> 3);
        let gaps =
            LogGaps { bits: rest, at: usize::from(edges & 7), end: rest.len() * 8 - unused, left, code };
        (LogHead { deadline: Time::new(deadline), first: last - span, last, last_cost, total }, gaps)
    }

    /// From this instant on the log is worth nothing.
    pub fn deadline(&self) -> Time {
        let mut rest = self.bytes.get(CODE_BYTES..).unwrap_or_default();
        Time::new(read_number(&mut rest).unwrap_or_default())
    }

    /// What the log takes beside a store's slot.
    pub const fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (head, gaps) = self.parts();
        f.debug_struct("Log").field("head", &head).field("gaps", &gaps.collect::<Vec<_>>()).finish()
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        let ((head, gaps), (other_head, other_gaps)) = (self.parts(), other.parts());
        head == other_head && gaps.eq(other_gaps)
    }
}

impl Eq for Log {}

impl<'a> LogGaps<'a> {
    /// None at all.
    pub(crate) const EMPTY: Self =
        LogGaps { bits: &[], at: 0, end: 0, left: 0, code: GapCode { gap_bits: 0, cost_bits: None } };

    /// Tick and cost of each, the oldest being at `first`.
    pub(crate) fn entries(self, first: u64) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.scan(first, |at, (gap, cost)| {
            *at += gap;
            Some((*at - gap, cost))
        })
    }

    /// A number as [`BitWriter::rice`] writes it.
    fn read(&mut self, low_bits: u32) -> Option<u64> {
        let above = self.read_zeros()?;
        let low = self.peek() & ((1 << low_bits) - 1);
        self.at += usize::try_from(low_bits).ok()?;
        Some((above << low_bits | low) + 1)
    }

    /// Zeros up to the next one, which is passed.
    fn read_zeros(&mut self) -> Option<u64> {
        let mut zeros = 0;
        while self.at < self.end {
            let known = u64::BITS - u32::try_from(self.at % 8).ok()?;
            let here = self.peek().trailing_zeros().min(known);
            zeros += u64::from(here);
            self.at += usize::try_from(here).ok()?;
            if here < known {
                self.at += 1;
                return Some(zeros);
            }
        }
        None
    }

    /// 57 bits or more from where it is; zeros behind the end.
    fn peek(&self) -> u64 {
        let rest = self.bits.get(self.at / 8..).unwrap_or_default();
        let word = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            word
        });
        u64::from_le_bytes(word) >> (self.at % 8)
    }
}

impl Iterator for LogGaps<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.left = self.left.checked_sub(1)?;
        let gap = self.read(self.code.gap_bits)?;
        let cost = self.code.cost_bits.map_or(Some(1), |low_bits| self.read(low_bits))?;
        Some((gap, cost))
    }
}

impl GapCode {
    /// What suits the mean gap and the mean cost of so many entries beside the newest.
    fn suiting(head: LogHead, count: u64) -> Self {
        let low_bits = |sum: u64| sum.checked_div(count).and_then(u64::checked_ilog2).unwrap_or(0);
        let costs = head.total - head.last_cost;
        Self {
            gap_bits: low_bits(head.last - head.first),
            cost_bits: (costs != count).then(|| low_bits(costs)),
        }
    }

    /// Whether it is good enough where another suits best.
    fn is_near(self, best: Self) -> bool {
        let costs_are_near = match (self.cost_bits, best.cost_bits) {
            (Some(own), Some(best)) => own.abs_diff(best) < 2,
            (own, best) => own == best,
        };
        costs_are_near && self.gap_bits.abs_diff(best.gap_bits) < 2
    }

    fn bits_of(self, gap: u64, cost: u64) -> usize {
        let length = |number: u64, low_bits: u32| ((number - 1) >> low_bits) + u64::from(low_bits) + 1;
        let bits = length(gap, self.gap_bits) + self.cost_bits.map_or(0, |low_bits| length(cost, low_bits));
        usize::try_from(bits).unwrap_or(usize::MAX)
    }

    fn write(self, gap: u64, cost: u64, out: &mut BitWriter<'_>) {
        out.rice(gap, self.gap_bits);
        if let Some(low_bits) = self.cost_bits {
            out.rice(cost, low_bits);
        }
    }
}

/// A log up to its bits, with just the room for them.
fn begin(head: LogHead, gaps: LogGaps<'_>) -> Vec<u8> {
    let LogHead { deadline, first, last, last_cost, total } = head;
    let numbers = [deadline.get(), last, last - first, total, last_cost, gaps.left];
    let length = CODE_BYTES + numbers.into_iter().map(number_bytes).sum::<usize>() + gaps.end.div_ceil(8);
    let mut out = Vec::with_capacity(length);
    let byte = |bits: u32| u8::try_from(bits).unwrap_or_default();
    let unused = gaps.end.next_multiple_of(8) - gaps.end;
    let edges = u8::try_from(gaps.at | unused << 3).unwrap_or_default();
    out.extend([byte(gaps.code.gap_bits), byte(gaps.code.cost_bits.map_or(0, |bits| bits + 1)), edges]);
    for number in numbers {
        write_number(&mut out, number);
    }
    out
}

#[cfg(test)]
mod tests;
