//! Several logs → one second after the other.
//!
//! Streams hand out whole seconds, so that the earliest second of all is complete as soon as each has
//! its next batch. The requests of a second are put in order here, those of logs with whole seconds
//! spread over it or not.

use std::io;

use tollgate_core::Time;

use crate::batch::{Batch, RecordedRequest};
use crate::stream::{LogStream, second_of};

/// Where in a second its requests are, if the log has whole seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spread {
    /// At equal distances: a busy second is no burst at its start.
    #[default]
    Even,
    /// All at its start.
    None,
}

impl Spread {
    /// The word on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::None => "none",
        }
    }
}

/// Logs that are read side by side.
pub(crate) struct MergedLogs<'m> {
    streams: Vec<MergedStream<'m>>,
    spread: Spread,
}

struct MergedStream<'m> {
    stream: LogStream<'m>,
    batch: Batch,
    next: usize,
}

impl MergedStream<'_> {
    fn next_second(&self) -> Option<Time> {
        self.batch.requests.get(self.next).map(|request| second_of(request.time))
    }

    /// Where the requests of a second end.
    fn end_of(&self, second: Time) -> usize {
        let rest = self.batch.requests.get(self.next..).unwrap_or_default();
        self.next + rest.partition_point(|request| second_of(request.time) <= second)
    }
}

impl<'m> MergedLogs<'m> {
    pub(crate) fn new(streams: Vec<LogStream<'m>>, spread: Spread) -> Self {
        let streams =
            streams.into_iter().map(|stream| MergedStream { stream, batch: Batch::default(), next: 0 });
        Self { streams: streams.collect(), spread }
    }

    /// The logs.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &LogStream<'m>> {
        self.streams.iter().map(|merged| &merged.stream)
    }

    /// Hands the requests of the next second to `decide`, in their order; whether there was one.
    ///
    /// # Errors
    /// If a log cannot be read; with its name.
    pub(crate) fn next_second(
        &mut self,
        mut decide: impl FnMut(&Batch, &RecordedRequest, Time),
    ) -> Result<bool, (String, io::Error)> {
        for merged in &mut self.streams {
            if merged.next >= merged.batch.requests.len() {
                let batch = merged.stream.next_batch();
                merged.batch =
                    batch.map_err(|error| (merged.stream.name.clone(), error))?.unwrap_or_default();
                merged.next = 0;
            }
        }
        let Some(second) = self.streams.iter().filter_map(MergedStream::next_second).min() else {
            return Ok(false);
        };
        let mut order = Vec::new();
        for (index, merged) in self.streams.iter_mut().enumerate() {
            let end = merged.end_of(second);
            for (place, request) in merged.batch.requests.iter().enumerate().take(end).skip(merged.next) {
                order.push((request.time, request.whole_second, index, place));
            }
            merged.next = end;
        }
        if self.spread == Spread::Even {
            spread_evenly(&mut order);
        }
        order.sort_by_key(|(time, ..)| *time);
        for (time, _, index, place) in order {
            let batch = self.streams.get(index).map(|merged| &merged.batch);
            if let Some((batch, request)) = batch.and_then(|batch| Some((batch, batch.requests.get(place)?)))
            {
                decide(batch, request, time);
            }
        }
        Ok(true)
    }
}

/// Gives the requests of which only the second is known times at equal distances in it.
fn spread_evenly(order: &mut [(Time, bool, usize, usize)]) {
    let is_whole = |(_, whole, ..): &&mut (Time, bool, usize, usize)| *whole;
    let count = u64::try_from(order.iter_mut().filter(is_whole).count()).unwrap_or(u64::MAX).max(1);
    for (place, (time, ..)) in (0_u64..).zip(order.iter_mut().filter(is_whole)) {
        *time = Time::new(second_of(*time).get() + place * 1_000_000 / count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_whole_second_is_spread_over_it_and_the_rest_stays() {
        let at = |us: u64| Time::new(7_000_000 + us);
        let mut order =
            [(at(0), true, 0, 0), (at(300), false, 0, 1), (at(0), true, 0, 2), (at(0), true, 1, 0)];
        spread_evenly(&mut order);
        assert_eq!(order.map(|(time, ..)| time), [at(0), at(300), at(333_333), at(666_666)]);
    }
}
