//! The requests of one log, in the order of time.
//!
//! [`LogReader`](crate::reader::LogReader) hands over chunks; what may still be overtaken by a line of the
//! next chunk is held back. `merge.rs` takes what is ready.
//!
//! Invariants: what becomes ready ends with a whole second: what comes later begins after it. Lines that
//! are out of order by up to [`WINDOW`] are sorted; one that comes later counts at the time of those it
//! comes with, and is counted as late. A line with a date far ahead waits for the others to get there,
//! and does not make them late.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tollgate_accesslog::LogFormat;
use tollgate_core::{Micros, Time};

use crate::batch::{Batch, RecordedRequest, second_of};
use crate::reader::{ParsedChunk, ReadCounts};

/// Lines are out of order by up to this: requests that take longer are few.
const WINDOW: Micros = Micros::from_secs(60);
/// So many requests are held back at most, however many a log has within [`WINDOW`].
const HELD_MAX: usize = 1 << 20;
/// So many requests that were handed out stay in memory for the sake of their batch.
const USED_MAX: usize = 1 << 17;
/// The time that a log has reached is the median of so many lines, so that a wrong date is no matter.
const CLOCK_LINES: usize = 101;

/// One log, put in order.
pub(crate) struct LogStream {
    pub(crate) name: String,
    chunks: Receiver<io::Result<ParsedChunk>>,
    batches: VecDeque<Batch>,
    /// Batches that were used up and dropped.
    dropped: usize,
    /// In the order of time; the first `ready` of them may be taken.
    held: Vec<HeldRequest>,
    ready: usize,
    next: usize,
    /// Everything before this was handed out.
    begun: Time,
    /// How far the log has come.
    reached: Time,
    is_at_end: bool,
    pub(crate) counts: ReadCounts,
    pub(crate) format: Option<Arc<LogFormat>>,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldRequest {
    pub(crate) time: Time,
    pub(crate) whole_second: bool,
    /// Its batch, counted from the beginning of the log.
    pub(crate) batch: usize,
    pub(crate) request: usize,
}

impl LogStream {
    pub(crate) fn new(name: String, chunks: Receiver<io::Result<ParsedChunk>>) -> Self {
        Self {
            name,
            chunks,
            batches: VecDeque::new(),
            dropped: 0,
            held: Vec::new(),
            ready: 0,
            next: 0,
            begun: Time::EPOCH,
            reached: Time::EPOCH,
            is_at_end: false,
            counts: ReadCounts::default(),
            format: None,
        }
    }

    /// Waits until a request is ready, or the log is at its end.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        while self.next >= self.ready && !(self.is_at_end && self.held.is_empty()) {
            self.take_chunk()?;
        }
        Ok(())
    }

    /// Forgets what was taken, and adds a chunk to the rest.
    fn take_chunk(&mut self) -> io::Result<()> {
        self.drop_used();
        match self.chunks.recv() {
            Ok(chunk) => self.add(chunk?),
            Err(_) => self.is_at_end = true,
        }
        self.release();
        Ok(())
    }

    /// The second of the next request.
    pub(crate) fn next_second(&self) -> Option<Time> {
        (self.next < self.ready).then_some(())?;
        self.held.get(self.next).map(|held| second_of(held.time))
    }

    /// Takes the requests of a second that is not later than the next one's.
    pub(crate) fn take_second(&mut self, second: Time) -> &[HeldRequest] {
        let ready = self.held.get(self.next..self.ready).unwrap_or_default();
        let count = ready.iter().take_while(|held| second_of(held.time) <= second).count();
        self.next += count;
        ready.get(..count).unwrap_or_default()
    }

    /// A request that was taken, as long as the stream is not filled again.
    pub(crate) fn request(&self, held: &HeldRequest) -> Option<(&Batch, &RecordedRequest)> {
        let batch = self.batches.get(held.batch.checked_sub(self.dropped)?)?;
        Some((batch, batch.requests.get(held.request)?))
    }

    fn add(&mut self, chunk: ParsedChunk) {
        let ParsedChunk { batches, counts, format } = chunk;
        self.counts.add(counts);
        self.format = format;
        let last = batches.iter().rev().flat_map(|batch| batch.requests.iter().rev());
        let mut last: Vec<Time> = last.take(CLOCK_LINES).map(|request| request.time).collect();
        last.sort_unstable();
        let median = last.len().saturating_sub(1) / 2;
        self.reached = last.get(median).map_or(self.reached, |time| self.reached.max(*time));
        for batch in batches {
            let place = self.dropped + self.batches.len();
            for (request, RecordedRequest { time, whole_second, .. }) in batch.requests.iter().enumerate() {
                self.counts.late += u64::from(*time < self.begun);
                let time = self.begun.max(*time);
                self.held.push(HeldRequest { time, whole_second: *whole_second, batch: place, request });
            }
            self.batches.push_back(batch);
        }
        self.held.sort_by_key(|held| held.time);
    }

    /// Makes ready what no later line can come before.
    fn release(&mut self) {
        if self.is_at_end || self.held.len() > 2 * HELD_MAX {
            self.ready = self.held.len();
            self.begun = self.held.last().map_or(self.begun, |held| second_of(held.time));
            return;
        }
        let mut until = second_of(self.reached.before(WINDOW));
        if let Some(too_many) = self.held.len().checked_sub(HELD_MAX) {
            until = self.held.get(too_many).map_or(until, |held| until.max(second_of(held.time)));
        }
        self.begun = self.begun.max(until);
        self.ready = self.held.partition_point(|held| held.time < until);
    }

    /// Forgets what was taken.
    fn drop_used(&mut self) {
        self.held.drain(..self.next);
        self.ready -= self.next;
        self.next = 0;
        let used = self.held.iter().map(|held| held.batch).min();
        let used = used.map_or(self.batches.len(), |first| first - self.dropped);
        self.batches.drain(..used);
        self.dropped += used;
        // A few lines with dates far ahead must not keep all batches in memory.
        let kept: usize = self.batches.iter().map(|batch| batch.requests.len()).sum();
        if kept > USED_MAX + 4 * self.held.len() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let mut batch = Batch::default();
        for (place, held) in self.held.iter().enumerate() {
            if let Some((from, request)) = self.request(held) {
                batch.copy(from, request);
            }
            debug_assert_eq!(batch.requests.len(), place + 1, "a request that is held is in a batch");
        }
        self.dropped += self.batches.len();
        for (request, held) in self.held.iter_mut().enumerate() {
            (held.batch, held.request) = (self.dropped, request);
        }
        self.batches = VecDeque::from([batch]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn chunk(seconds: impl IntoIterator<Item = u64>) -> io::Result<ParsedChunk> {
        let mut batch = Batch::default();
        for second in seconds {
            let time = Time::from_secs(second);
            let (route, group) = (batch.add_route("/"), batch.add_group(None, None, |_| true));
            batch.requests.push(RecordedRequest { time, whole_second: true, status: None, route, group });
        }
        Ok(ParsedChunk { batches: vec![batch], ..ParsedChunk::default() })
    }

    /// The seconds of all requests in the order in which they are handed out, and how many were late.
    fn handed_out(chunks: Vec<io::Result<ParsedChunk>>) -> (Vec<u64>, u64) {
        let (sender, receiver) = sync_channel(chunks.len());
        chunks.into_iter().for_each(|chunk| sender.send(chunk).unwrap());
        drop(sender);
        let (mut stream, mut seconds) = (LogStream::new("log".into(), receiver), Vec::new());
        loop {
            stream.fill().unwrap();
            let Some(second) = stream.next_second() else { break };
            let taken = stream.take_second(second).to_vec();
            assert!(taken.iter().all(|held| stream.request(held).is_some()));
            seconds.extend(taken.iter().map(|held| held.time.get() / 1_000_000));
        }
        (seconds, stream.counts.late)
    }

    #[test]
    fn lines_are_sorted_within_a_minute_across_chunks_and_later_ones_are_late() {
        let chunks = [[1_000, 1_030, 1_031], [999, 1_200, 1_200], [900, 1_300, 1_300]];
        let (seconds, late) = handed_out(chunks.map(chunk).into());
        assert_eq!(seconds, [999, 1_000, 1_030, 1_031, 1_140, 1_200, 1_200, 1_300, 1_300]);
        assert_eq!(late, 1, "the one of 900 s came when all before 1,140 s was handed out");
    }

    #[test]
    fn a_date_far_ahead_makes_nobody_late_and_keeps_no_batch() {
        let far = 4_000_000_000;
        let chunks = (0..40_u64).map(|place| {
            let seconds = (0..1_000).map(move |second| 10_000 + place * 1_000 + second);
            chunk(seconds.chain([far]).chain([10_999 + place * 1_000]))
        });
        let (seconds, late) = handed_out(chunks.collect());
        assert_eq!((seconds.len(), late), (40 * 1_002, 0));
        assert!(seconds.is_sorted() && seconds.ends_with(&[far; 40]));
    }

    #[test]
    fn what_is_held_for_long_is_copied_out_of_its_batch() {
        let (sender, receiver) = sync_channel(1);
        let mut stream = LogStream::new("log".into(), receiver);
        let far = 4_000_000_000;
        let count = USED_MAX / 2;
        for place in 0..12 {
            let seconds = std::iter::repeat_n(10_000 + place * 1_000, count);
            sender.send(chunk([far].into_iter().chain(seconds))).unwrap();
            stream.next = stream.ready;
            stream.take_chunk().unwrap();
        }
        let kept: usize = stream.batches.iter().map(|batch| batch.requests.len()).sum();
        assert!(kept < USED_MAX + 6 * count, "{kept} of {}", 12 * count);
        assert_eq!(stream.held.iter().filter(|held| held.time == Time::from_secs(far)).count(), 12);
        assert!(stream.held.iter().all(|held| stream.request(held).is_some()));
    }
}
