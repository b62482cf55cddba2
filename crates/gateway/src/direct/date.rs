//! The value of the `Date` field, which changes once a second.

use std::time::{Duration, SystemTime};

use httpdate::HttpDate;
use tollgate_core::Time;

/// The value of the `Date` field at some second.
#[derive(Debug, Default)]
pub(super) struct DateHeader {
    seconds: u64,
    text: String,
}

impl DateHeader {
    /// The value at this time of the calendar.
    pub(super) fn at(&mut self, now: Time) -> &[u8] {
        let seconds = now.get() / 1_000_000;
        if seconds != self.seconds || self.text.is_empty() {
            let date = HttpDate::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            *self = Self { seconds, text: date.to_string() };
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_its_second() {
        let mut date = DateHeader::default();
        for (micros, text) in [(0, "00"), (999_999, "00"), (1_000_000, "01")] {
            assert_eq!(date.at(Time::new(micros)), format!("Thu, 01 Jan 1970 00:00:{text} GMT").as_bytes());
        }
    }
}
