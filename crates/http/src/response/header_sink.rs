//! Who takes the headers that a caller is told.
//!
//! [`super::CallerView::tell`] says each of them once. Most ways out want names and values
//! ([`ResponseHeaders`]); whoever writes heads by itself wants the bytes ([`HeaderLines`]).
//!
//! A request that passes is told by [`HeaderSink::pass`], all else header by header.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use itoa::Buffer;

use super::policy_text::FOR_SECONDS;
use super::{
    CallerView, LIMIT, LIMIT_RETRY_AFTER, POLICY, PassNumbers, PassText, RATELIMIT, REMAINING,
    ResponseHeaders,
};

/// Most values are no longer.
const USUAL_BYTES: usize = 64;
/// So many headers has a request that passes.
const PASS_HEADERS: usize = 5;
/// Bytes of the numbers that it is told, and of what is between them.
const PASS_BYTES: usize = 128;
/// The end of the line of what is left, and the beginning of the next one.
const LINE_OF_WAIT: &[u8] = b"\r\nx-ratelimit-retry-after: ";
/// Values that need no memory: most waits are over at once.
const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Who takes the headers that a caller is told; their names are in lower case.
pub trait HeaderSink {
    /// A header whose value is a number.
    fn number(&mut self, name: HeaderName, value: u64);

    /// A header whose value is printable ASCII.
    fn text(&mut self, name: HeaderName, value: &str);

    /// The same, whose value `write` appends.
    fn written(&mut self, name: HeaderName, write: &dyn Fn(&mut Vec<u8>));

    /// All that a request that passes is told.
    fn pass(&mut self, text: &PassText, numbers: PassNumbers);

    /// Whether the name of the limit is wanted, too, for a request that is denied or passes.
    fn wants_rule(&self, _is_denied: bool) -> bool {
        true
    }

    /// Takes the name of the limit that lets a request pass, if it has a place of its own for that.
    fn take_rule(&mut self, _name: &str) -> bool {
        false
    }

    /// Takes all that a denial says, body and headers, if it has a way of its own to write that.
    fn take_denial(&mut self, _view: &CallerView<'_>) -> bool {
        false
    }
}

impl HeaderSink for ResponseHeaders {
    fn number(&mut self, name: HeaderName, value: u64) {
        self.push((name, number(value)));
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

    fn pass(&mut self, text: &PassText, numbers: PassNumbers) {
        self.reserve(PASS_HEADERS);
        self.push((LIMIT, text.limit.clone()));
        self.push((REMAINING, number(numbers.remaining)));
        self.push((LIMIT_RETRY_AFTER, number(numbers.retry_after_s)));
        if let Some(policy) = &text.policy {
            self.push((POLICY, policy.clone()));
            let available = HeaderValue::from_maybe_shared(available(text, numbers)).ok();
            self.extend(available.map(|value| (RATELIMIT, value)));
        }
    }
}

/// The value of a number, in as much memory as it takes.
fn number(value: u64) -> HeaderValue {
    let digit = usize::try_from(value).ok().and_then(|value| DIGITS.get(value));
    match digit {
        Some(digit) => HeaderValue::from_static(digit),
        None => HeaderValue::from_str(Buffer::new().format(value)).unwrap_or_else(|_| value.into()),
    }
}

/// The value of [`RATELIMIT`], in as much memory as it takes.
fn available(text: &PassText, numbers: PassNumbers) -> Bytes {
    let (mut left, mut reset) = (Buffer::new(), Buffer::new());
    let left = left.format(numbers.remaining).as_bytes();
    let reset = reset.format(numbers.reset_after_s).as_bytes();
    let parts = [&text.available, left, FOR_SECONDS.as_bytes(), reset];
    let mut value = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        value.extend_from_slice(part);
    }
    value.into()
}

/// Appends a number; most waits have one digit.
fn push_number(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        Ok(_) | Err(_) => out.extend_from_slice(Buffer::new().format(value).as_bytes()),
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

    /// Appends what is a line, or part of one.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn line(&mut self, name: &HeaderName, value: &[u8]) {
        for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
            self.0.extend_from_slice(part);
        }
    }
}

impl HeaderSink for HeaderLines {
    fn number(&mut self, name: HeaderName, value: u64) {
        self.line(&name, Buffer::new().format(value).as_bytes());
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

    fn pass(&mut self, text: &PassText, numbers: PassNumbers) {
        let PassNumbers { remaining, retry_after_s, reset_after_s } = numbers;
        let mut left = Buffer::new();
        let left = left.format(remaining).as_bytes();
        let out = &mut self.0;
        out.reserve(text.lines_start.len() + text.lines_middle.len() + PASS_BYTES);
        // One by one: what has a length that the compiler knows is copied without a call.
        out.extend_from_slice(&text.lines_start);
        out.extend_from_slice(left);
        out.extend_from_slice(LINE_OF_WAIT);
        push_number(out, retry_after_s);
        if text.policy.is_some() {
            out.extend_from_slice(&text.lines_middle);
            out.extend_from_slice(left);
            out.extend_from_slice(FOR_SECONDS.as_bytes());
            push_number(out, reset_after_s);
        }
        out.extend_from_slice(b"\r\n");
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
