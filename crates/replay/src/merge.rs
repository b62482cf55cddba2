//! Several logs → one second after the other.
//!
//! Streams hand out whole seconds, so that the earliest second of all is complete as soon as each has
//! its next batch. The requests of a second are put in order here, those of logs with whole seconds
//! spread over it or not.

use std::io;

use tollgate_core::Time;

use crate::batch::{Batch, RecordedRequest, second_of};
use crate::stream::{HeldRequest, LogStream};

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
pub(crate) struct MergedLogs {
    streams: Vec<LogStream>,
    spread: Spread,
    /// The requests of a second; kept for its memory.
    order: Vec<PlacedRequest>,
    /// Time goes on, even where a second is too full to be held at once.
    last: Time,
}

/// A request of one of the logs.
#[derive(Debug, Clone, Copy)]
struct PlacedRequest {
    held: HeldRequest,
    stream: usize,
}

impl MergedLogs {
    pub(crate) const fn new(streams: Vec<LogStream>, spread: Spread) -> Self {
        Self { streams, spread, order: Vec::new(), last: Time::EPOCH }
    }

    /// The logs.
    pub(crate) fn streams(&self) -> &[LogStream] {
        &self.streams
    }

    /// Hands the requests of the next second to `decide`, in their order; whether there was one.
    ///
    /// # Errors
    /// If a log cannot be read; with its name.
    pub(crate) fn next_second(
        &mut self,
        mut decide: impl FnMut(&Batch, &RecordedRequest, Time),
    ) -> Result<bool, (String, io::Error)> {
        for stream in &mut self.streams {
            stream.fill().map_err(|error| (stream.name.clone(), error))?;
        }
        let Some(second) = self.streams.iter().filter_map(LogStream::next_second).min() else {
            return Ok(false);
        };
        self.order.clear();
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let taken = stream.take_second(second);
            self.order.extend(taken.iter().map(|held| PlacedRequest { held: *held, stream: index }));
        }
        if self.order.len() > 1 {
            if self.spread == Spread::Even {
                spread_evenly(&mut self.order);
            }
            self.order.sort_by_key(|placed| placed.held.time);
        }
        for PlacedRequest { held, stream } in &self.order {
            let found = self.streams.get(*stream).and_then(|stream| stream.request(held));
            if let Some((batch, request)) = found {
                self.last = self.last.max(held.time);
                decide(batch, request, self.last);
            }
        }
        Ok(true)
    }
}

/// Gives the requests of which only the second is known times at equal distances in it.
fn spread_evenly(order: &mut [PlacedRequest]) {
    let is_whole = |placed: &&mut PlacedRequest| placed.held.whole_second;
    let count = u64::try_from(order.iter_mut().filter(is_whole).count()).unwrap_or(u64::MAX).max(1);
    for (place, placed) in (0_u64..).zip(order.iter_mut().filter(is_whole)) {
        placed.held.time = Time::new(second_of(placed.held.time).get() + place * 1_000_000 / count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_whole_second_is_spread_over_it_and_the_rest_stays() {
        let at = |us: u64| Time::new(7_000_000 + us);
        let placed = |us, whole_second| {
            let held = HeldRequest { time: at(us), whole_second, ..HeldRequest::default() };
            PlacedRequest { held, stream: 0 }
        };
        let mut order = [placed(0, true), placed(300, false), placed(0, true), placed(0, true)];
        spread_evenly(&mut order);
        assert_eq!(order.map(|placed| placed.held.time), [at(0), at(300), at(333_333), at(666_666)]);
    }
}
