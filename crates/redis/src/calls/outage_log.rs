//! Logs why a server cannot be asked: the first time in full, repeats as a number.
//!
//! [`super::server`] has one for each server. A line has the words of the server
//! or the system, and what to do. While an outage goes on, only another reason is
//! a new line; afterwards the same reason is, once a minute. What is not logged is
//! counted, and the next line tells how often.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connect::ConnectTarget;
use crate::error::{FailureReport, StoreFailure};

/// How long the same reason is not logged again.
const QUIET: Duration = Duration::from_secs(60);

/// The log of one server.
#[derive(Debug, Default)]
pub(super) struct OutageLog(Mutex<LastLine>);

#[derive(Debug, Default)]
struct LastLine {
    line: Option<(Instant, StoreFailure)>,
    /// What was not logged since.
    repeats: u64,
    /// Whether the outage that goes on was logged.
    is_outage_logged: bool,
}

impl OutageLog {
    /// The circuit breaker opened.
    pub(super) fn began(&self, server: &ConnectTarget, report: &FailureReport) {
        let mut last = self.0.lock();
        let repeats = last.note(report.failure, Instant::now());
        last.is_outage_logged = repeats.is_some();
        drop(last);
        warn_of_outage(server, report, repeats);
    }

    /// The server was asked again, and cannot be asked yet.
    pub(super) fn goes_on(&self, server: &ConnectTarget, report: &FailureReport) {
        let mut last = self.0.lock();
        let repeats = last.note_again(report.failure, Instant::now());
        last.is_outage_logged |= repeats.is_some();
        drop(last);
        warn_of_outage(server, report, repeats);
    }

    /// The circuit breaker closed after so long.
    pub(super) fn ended(&self, server: &ConnectTarget, after: Duration) {
        let mut last = self.0.lock();
        if last.is_outage_logged {
            let repeats = std::mem::take(&mut last.repeats);
            drop(last);
            tracing::info!(%server, after_s = after.as_secs(), repeats, "the store answers again");
        }
    }

    /// A call failed, but others may not.
    pub(super) fn failed(&self, server: &ConnectTarget, report: &FailureReport) {
        let Some(repeats) = self.0.lock().note(report.failure, Instant::now()) else { return };
        tracing::warn!(
            %server,
            reason = report.failure.name(),
            said = &*report.said,
            fix = report.failure.fix(),
            repeats = (repeats > 0).then_some(repeats),
            "the store did not do what it was asked; the request was decided without it"
        );
    }
}

/// Logs it, unless it is a repeat.
fn warn_of_outage(server: &ConnectTarget, report: &FailureReport, repeats: Option<u64>) {
    let Some(repeats) = repeats else { return };
    tracing::warn!(
        %server,
        reason = report.failure.name(),
        said = &*report.said,
        fix = report.failure.fix(),
        repeats = (repeats > 0).then_some(repeats),
        "the store cannot be asked; until it answers again, limits are decided without it"
    );
}

impl LastLine {
    /// The same within an outage, where time alone is no reason to log.
    fn note_again(&mut self, failure: StoreFailure, now: Instant) -> Option<u64> {
        if self.line.is_some_and(|(_, last)| last == failure) {
            self.repeats += 1;
            return None;
        }
        self.note(failure, now)
    }

    /// How often was not logged what is to be logged now; none if it is a repeat.
    fn note(&mut self, failure: StoreFailure, now: Instant) -> Option<u64> {
        if self.line.is_some_and(|(at, last)| last == failure && now < at + QUIET) {
            self.repeats += 1;
            return None;
        }
        self.line = Some((now, failure));
        Some(std::mem::take(&mut self.repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_counted_for_a_minute_and_then_told_with_the_number() {
        let mut last = LastLine::default();
        let begin = Instant::now();
        let mut note = |failure, seconds| last.note(failure, begin + Duration::from_secs(seconds));
        assert_eq!(note(StoreFailure::Lost, 0), Some(0));
        assert_eq!(note(StoreFailure::Lost, 1), None);
        assert_eq!(note(StoreFailure::Lost, 59), None);
        assert_eq!(note(StoreFailure::Lost, 60), Some(2));
        assert_eq!(note(StoreFailure::Loading, 61), Some(0), "another reason is news");
        let later = begin + Duration::from_secs(3600);
        assert_eq!(last.note_again(StoreFailure::Loading, later), None, "time is none in an outage");
        assert_eq!(last.note_again(StoreFailure::Lost, later), Some(1));
    }
}
