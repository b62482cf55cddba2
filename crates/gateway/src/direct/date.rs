//! The end of a head: the `Date` field, which changes once a second, and the empty line.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use httpdate::HttpDate;
use tokio::time::Instant;
use tollgate_core::Time;

/// A second in µs, as times of the calendar are counted.
const SECOND_US: u64 = 1_000_000;

thread_local! {
    static DATE: RefCell<DateHeader> = const { RefCell::new(DateHeader::new()) };
}

/// Ends a head with the date. The calendar is asked once a second.
pub(super) fn end_head(out: &mut Vec<u8>, now: Instant, calendar: impl FnOnce() -> Time) {
    DATE.with_borrow_mut(|date| out.extend_from_slice(date.lines(now, calendar)));
}

/// Which date heads end with: another number, another date.
pub(super) fn number(now: Instant, calendar: impl FnOnce() -> Time) -> u64 {
    DATE.with_borrow_mut(|date| {
        date.lines(now, calendar);
        date.number
    })
}

/// The `Date` field at some second.
#[derive(Debug)]
struct DateHeader {
    /// With the empty line.
    lines: Vec<u8>,
    /// How many there were before.
    number: u64,
    /// When the next second of the calendar begins; none before the first one.
    fresh_until: Option<Instant>,
}

impl DateHeader {
    const fn new() -> Self {
        Self { lines: Vec::new(), number: 0, fresh_until: None }
    }

    fn lines(&mut self, now: Instant, calendar: impl FnOnce() -> Time) -> &[u8] {
        if self.fresh_until.is_none_or(|until| until <= now) {
            let time_us = calendar().get();
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(time_us / SECOND_US);
            self.number += 1;
            self.lines = format!("date: {}\r\n\r\n", HttpDate::from(date)).into_bytes();
            self.fresh_until = Some(now + Duration::from_micros(SECOND_US - time_us % SECOND_US));
        }
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_its_second() {
        let (mut date, start) = (DateHeader::new(), Instant::now());
        for (at_us, second) in [(300_000, "00"), (999_999, "00"), (1_000_000, "01"), (62_000_000, "02")] {
            let now = start + Duration::from_micros(at_us);
            let minute = at_us / 60_000_000;
            let lines = date.lines(now, || Time::new(at_us));
            assert_eq!(lines, format!("date: Thu, 01 Jan 1970 00:0{minute}:{second} GMT\r\n\r\n").as_bytes());
        }
    }

    #[test]
    fn the_calendar_is_asked_once_a_second() {
        let (mut date, start, mut asked) = (DateHeader::new(), Instant::now(), 0);
        for at_us in (0..3_000_000).step_by(1_000) {
            date.lines(start + Duration::from_micros(at_us), || {
                asked += 1;
                Time::new(at_us)
            });
        }
        assert_eq!(asked, 3);
    }
}
