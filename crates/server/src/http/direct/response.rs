//! A response → bytes of HTTP/1.1, as hyper writes them.

use std::time::{Duration, SystemTime};

use httpdate::HttpDate;
use tollgate_core::Time;

use super::super::v1::V1Response;

/// The value of the `date` header, which changes once a second.
#[derive(Debug, Default)]
pub(super) struct DateHeader {
    seconds: u64,
    text: String,
}

impl DateHeader {
    pub(super) fn at(&mut self, now: Time) -> &str {
        let seconds = now.get() / 1_000_000;
        if seconds != self.seconds || self.text.is_empty() {
            let date = HttpDate::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            *self = Self { seconds, text: date.to_string() };
        }
        &self.text
    }
}

/// Appends a response.
pub(super) fn append(response: &V1Response, date: &str, out: &mut Vec<u8>) {
    let V1Response { status, kind, headers, body } = response;
    let mut length = itoa::Buffer::new();
    let reason = status.canonical_reason().unwrap_or_default();
    for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\ncontent-type: ", kind] {
        out.extend_from_slice(part.as_bytes());
    }
    for (name, value) in headers {
        for part in [b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()] {
            out.extend_from_slice(part);
        }
    }
    for part in ["\r\ncontent-length: ", length.format(body.len()), "\r\ndate: ", date, "\r\n\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_its_second() {
        let mut date = DateHeader::default();
        assert_eq!(date.at(Time::EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date.at(Time::new(999_999)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date.at(Time::new(1_000_000)), "Thu, 01 Jan 1970 00:00:01 GMT");
    }
}
