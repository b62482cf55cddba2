//! Who takes the headers that a caller is told.
//!
//! [`super::CallerView::tell`] says each of them once. Most ways out want names and values
//! ([`ResponseHeaders`]); whoever writes heads by itself wants the bytes ([`HeaderLines`]).

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};

use super::{CallerView, ResponseHeaders};

/// Most values are no longer.
const USUAL_BYTES: usize = 64;

/// Who takes the headers that a caller is told; their names are in lower case.
pub trait HeaderSink {
    /// A header whose value is a number.
    fn number(&mut self, name: HeaderName, value: u64);

    /// A header whose value is printable ASCII.
    fn text(&mut self, name: HeaderName, value: &str);

    /// The same, whose value `write` appends.
    fn written(&mut self, name: HeaderName, write: &dyn Fn(&mut Vec<u8>));

    /// Takes all that a denial says, body and headers, if it has a way of its own to write that.
    fn take_denial(&mut self, _view: &CallerView<'_>) -> bool {
        false
    }
}

impl HeaderSink for ResponseHeaders {
    fn number(&mut self, name: HeaderName, value: u64) {
        self.push((name, value.into()));
    }

    fn text(&mut self, name: HeaderName, value: &str) {
        let value = HeaderValue::from_str(value).ok();
        self.extend(value.map(|value| (name, value)));
    }

    fn written(&mut self, name: HeaderName, write: &dyn Fn(&mut Vec<u8>)) {
        let mut value = Vec::with_capacity(USUAL_BYTES);
        write(&mut value);
        let value = HeaderValue::from_maybe_shared(Bytes::from(value)).ok();
        self.extend(value.map(|value| (name, value)));
    }
}

/// Headers as HTTP/1.1 sends them: `name: value`, each with the end of its line.
#[derive(Debug, Clone, Default)]
pub struct HeaderLines(pub(super) Vec<u8>);

/// Made of a buffer that others have used, and made into one.
impl From<Vec<u8>> for HeaderLines {
    fn from(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self(buffer)
    }
}

impl From<HeaderLines> for Vec<u8> {
    fn from(lines: HeaderLines) -> Self {
        lines.0
    }
}

impl HeaderLines {
    /// The lines.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether one of the lines has this name, in lower case.
    pub fn has(&self, name: &[u8]) -> bool {
        let mut lines = self.0.split(|byte| *byte == b'\n');
        lines.any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(b": ")))
    }

    fn line(&mut self, name: &HeaderName, value: &[u8]) {
        for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }
}

impl HeaderSink for HeaderLines {
    fn number(&mut self, name: HeaderName, value: u64) {
        self.line(&name, itoa::Buffer::new().format(value).as_bytes());
    }

    fn text(&mut self, name: HeaderName, value: &str) {
        self.line(&name, value.as_bytes());
    }

    fn written(&mut self, name: HeaderName, write: &dyn Fn(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_str().as_bytes());
        self.0.extend_from_slice(b": ");
        write(&mut self.0);
        self.0.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{LIMIT, POLICY, RATELIMIT};

    #[test]
    fn lines_say_what_the_headers_say() {
        let (mut headers, mut lines) = (ResponseHeaders::new(), HeaderLines::default());
        let sinks: [&mut dyn HeaderSink; 2] = [&mut headers, &mut lines];
        for sink in sinks {
            sink.number(LIMIT, u64::MAX);
            sink.text(POLICY, "\"a\";q=1");
            sink.written(RATELIMIT, &|out| out.extend_from_slice(b"\"a\";r=0"));
        }
        let written: String =
            headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap())).collect();
        assert_eq!(written.as_bytes(), lines.as_bytes());
        assert!(
            [&b"ratelimit-policy"[..], b"ratelimit", b"x-ratelimit-limit"].iter().all(|name| lines.has(name))
        );
        assert!(!lines.has(b"ratelimit-") && !lines.has(b"x-ratelimit"));
    }
}
