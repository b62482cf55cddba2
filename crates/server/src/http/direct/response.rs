//! A response → bytes of HTTP/1.1, as hyper writes them.

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use httpdate::HttpDate;
use tollgate_core::Time;
use tollgate_http::response::HeaderLines;

use super::super::v1::{JSON, ResponseBody, V1Response};

/// What most responses begin with.
const OK_LINES: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

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

/// Appends the head of a response.
pub(super) fn append_head(response: &V1Response<HeaderLines>, date: &str, out: &mut Vec<u8>) {
    let V1Response { status, kind, headers, body } = response;
    let mut length = itoa::Buffer::new();
    let framing = match body {
        ResponseBody::Whole(bytes) => ["content-length: ", length.format(bytes.len())],
        ResponseBody::Parts(_) => ["transfer-encoding: ", "chunked"],
    };
    if *status == StatusCode::OK && *kind == JSON {
        out.extend_from_slice(OK_LINES);
    } else {
        let reason = status.canonical_reason().unwrap_or_default();
        for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\ncontent-type: ", kind, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(headers.as_bytes());
    for part in framing.into_iter().chain(["\r\ndate: ", date, "\r\n\r\n"]) {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends a part of a body that is sent in chunks.
pub(super) fn append_chunk(part: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:X}\r\n", part.len()).as_bytes());
    out.extend_from_slice(part);
    out.extend_from_slice(b"\r\n");
}

/// What ends a body that is sent in chunks.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

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
