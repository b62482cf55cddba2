//! Reads a number in the body of an answer while it passes.
//!
//! | body | what is read |
//! |---|---|
//! | JSON, lines of JSON | every document; the last that has the number counts |
//! | server-sent events | the data of every event, likewise |
//!
//! Called with every piece of a body by [`super::meter`]. Nothing is kept of it and nothing changed.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use memchr::memchr2;

use super::json_field::JsonField;

/// How a line of an event stream begins that has data.
const DATA: &[u8] = b"data:";

/// Reads a number in the body of an answer.
#[derive(Debug)]
pub(super) enum CostReader {
    Json(JsonField),
    Events(EventReader),
}

/// Reads an event stream, line by line.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    field: JsonField,
    line: EventLine,
    /// The last byte was a CR, so that an LF belongs to it.
    is_after_cr: bool,
}

/// The line that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventLine {
    /// So many bytes of it are those of [`DATA`].
    Start(usize),
    Data,
    Other,
}

impl Default for EventLine {
    fn default() -> Self {
        Self::Start(0)
    }
}

impl CostReader {
    /// What can read a body with these headers.
    ///
    /// # Errors
    /// Why nothing can.
    pub(super) fn new(headers: &HeaderMap) -> Result<Self, &'static str> {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        if text(CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
            return Err("it is compressed");
        }
        let kind = text(CONTENT_TYPE).and_then(|kind| kind.split(';').next()).unwrap_or_default();
        let kind = kind.trim().to_ascii_lowercase();
        match kind.as_str() {
            "text/event-stream" => Ok(Self::Events(EventReader::default())),
            kind if kind.contains("json") => Ok(Self::Json(JsonField::default())),
            _ => Err("its content-type is neither JSON nor text/event-stream"),
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8], path: &[String]) {
        match self {
            Self::Json(field) => field.read(bytes, path),
            Self::Events(events) => events.read(bytes, path),
        }
    }

    /// The last number that was found.
    pub(super) const fn found(&self) -> Option<u64> {
        match self {
            Self::Json(field) => field.found(),
            Self::Events(events) => events.field.found(),
        }
    }
}

impl EventReader {
    fn read(&mut self, mut rest: &[u8], path: &[String]) {
        while let Some((byte, others)) = rest.split_first() {
            if self.is_after_cr && *byte == b'\n' {
                self.is_after_cr = false;
                rest = others;
                continue;
            }
            self.is_after_cr = false;
            let end = match self.line {
                EventLine::Start(_) => 0,
                EventLine::Data | EventLine::Other => memchr2(b'\r', b'\n', rest).unwrap_or(rest.len()),
            };
            let (piece, others) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if self.line == EventLine::Data {
                self.field.read(piece, path);
            }
            let Some((byte, others)) = others.split_first() else { return };
            rest = others;
            self.step(*byte, path);
        }
    }

    /// The first bytes of a line, or its end.
    fn step(&mut self, byte: u8, path: &[String]) {
        let is_end = matches!(byte, b'\r' | b'\n');
        self.is_after_cr = byte == b'\r';
        self.line = match self.line {
            // An empty line ends an event.
            EventLine::Start(0) if is_end => {
                self.field.restart();
                EventLine::Start(0)
            }
            EventLine::Data if is_end => {
                self.field.read(b"\n", path);
                EventLine::Start(0)
            }
            EventLine::Start(_) | EventLine::Other if is_end => EventLine::Start(0),
            EventLine::Start(same) if DATA.get(same) == Some(&byte) => match same + 1 {
                whole if whole == DATA.len() => EventLine::Data,
                more => EventLine::Start(more),
            },
            EventLine::Start(_) | EventLine::Other => EventLine::Other,
            EventLine::Data => EventLine::Data,
        };
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(kind: &'static str, coding: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.extend(coding.map(|coding| (CONTENT_ENCODING, HeaderValue::from_static(coding))));
        headers
    }

    fn found(kind: &'static str, text: &str, size: usize) -> Option<u64> {
        let mut reader = CostReader::new(&headers(kind, None)).unwrap();
        for piece in text.as_bytes().chunks(size) {
            reader.read(piece, &["n".to_owned()]);
        }
        reader.found()
    }

    #[test]
    fn the_last_event_that_has_the_number_counts() {
        let events = "data: {\"n\":1}\n\nevent: x\nid: 3\ndata:{\"n\":2}\n\n: {\"n\":9}\nother: {\"n\":9}\n\ndata: [DONE]\n\n";
        for text in [events.to_owned(), events.replace('\n', "\r\n"), events.replace('\n', "\r")] {
            for size in 1..=text.len() {
                assert_eq!(found("text/event-stream", &text, size), Some(2), "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_event_may_have_several_lines_and_each_begins_anew() {
        for end in ["\n", "\r\n", "\r"] {
            let text = "data: {\"n\":\ndata: 5\ndata: }\n\n".replace('\n', end);
            assert_eq!(found("text/event-stream; charset=utf-8", &text, 3), Some(5), "{end:?}");
            let broken = "data: {\"x\":{\n\ndata: {\"n\":5}\n\n".replace('\n', end);
            assert_eq!(found("text/event-stream", &broken, 3), Some(5), "{end:?}");
        }
    }

    #[test]
    fn only_what_can_be_read_is() {
        for kind in ["application/json", "application/problem+json; charset=utf-8", "APPLICATION/X-NDJSON"] {
            assert_eq!(found(kind, "{\"n\":1}\n{\"n\":2}\n", 4), Some(2), "{kind}");
        }
        assert!(CostReader::new(&headers("text/html", None)).is_err());
        assert!(CostReader::new(&HeaderMap::new()).is_err());
        assert!(CostReader::new(&headers("application/json", Some("gzip"))).is_err());
        assert!(CostReader::new(&headers("application/json", Some("identity"))).is_ok());
    }
}
