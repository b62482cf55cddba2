//! Numbers, texts and maps → bytes, in RESP2 or RESP3.
//!
//! Every reply goes through it. With `from_wire` and `frame` it is the only place
//! that knows the bytes of the protocol.
//!
//! Invariant: an error is one line, whatever was sent; control characters are
//! shown as `?`.

use std::fmt::Display;
use std::io::Write as _;

use crate::bounds::{BODY_WAIT_MAX, OPENING_MAX};
use crate::listen::lifetime::CloseReason;

/// The version of the protocol that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RespVersion {
    /// What every client understands.
    #[default]
    Resp2,
    /// With maps, nulls and the like.
    Resp3,
}

impl RespVersion {
    /// Its number in HELLO.
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// The mark, a sign, 19 digits and the end of the longest line with a number.
const NUMBER_LINE_MAX: usize = 23;

/// Writes replies, one value after the other.
#[derive(Debug)]
pub(super) struct RespWriter<'a> {
    out: &'a mut Vec<u8>,
    version: RespVersion,
}

impl<'a> RespWriter<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>, version: RespVersion) -> Self {
        Self { out, version }
    }

    /// Goes on in another version.
    pub(super) const fn switch_to(&mut self, version: RespVersion) {
        self.version = version;
    }

    /// The version it writes in.
    pub(super) const fn version(&self) -> RespVersion {
        self.version
    }

    /// Values that are already in the form of the wire, in both versions.
    pub(super) fn ready(&mut self, bytes: &'static [u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A short text of our own.
    pub(super) fn simple(&mut self, text: &'static str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end();
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// An error, with its code in front: `ERR …`.
    pub(super) fn error(&mut self, message: &dyn Display) {
        self.out.push(b'-');
        let from = self.out.len();
        // Writing to memory does not fail.
        drop(write!(self.out, "{message}"));
        for byte in self.out.iter_mut().skip(from).filter(|byte| byte.is_ascii_control()) {
            *byte = b'?';
        }
        self.end();
    }

    pub(super) fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.size(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// A text of several lines.
    pub(super) fn verbatim(&mut self, text: &str) {
        match self.version {
            RespVersion::Resp2 => self.text(text),
            RespVersion::Resp3 => {
                self.size(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// True or false; 1 or 0 where there is no such type.
    pub(super) fn boolean(&mut self, value: bool) {
        match self.version {
            RespVersion::Resp2 => self.integer(i64::from(value)),
            RespVersion::Resp3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// Nothing.
    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            RespVersion::Resp2 => b"$-1\r\n",
            RespVersion::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array.
    pub(super) fn array(&mut self, values: usize) {
        self.size(b'*', values);
    }

    /// The head of a set.
    pub(super) fn set(&mut self, values: usize) {
        self.size(if self.version == RespVersion::Resp3 { b'~' } else { b'*' }, values);
    }

    /// The head of a map.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Resp2 => self.size(b'*', pairs * 2),
            RespVersion::Resp3 => self.size(b'%', pairs),
        }
    }

    fn size(&mut self, mark: u8, size: usize) {
        self.number(mark, i64::try_from(size).unwrap_or(i64::MAX));
    }

    /// A line of a mark and a number, put together from its end and appended at once.
    #[expect(clippy::indexing_slicing, reason = "a line has room for every number, and begins within it")]
    fn number(&mut self, mark: u8, value: i64) {
        if let Ok(digit @ 0..=9) = u8::try_from(value) {
            return self.out.extend_from_slice(&[mark, b'0' + digit, b'\r', b'\n']);
        }
        let mut line = [b'\n'; NUMBER_LINE_MAX];
        let mut at = NUMBER_LINE_MAX - 2;
        line[at] = b'\r';
        let mut rest = value.unsigned_abs();
        while rest > 0 {
            at -= 1;
            line[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        if value < 0 {
            at -= 1;
            line[at] = b'-';
        }
        at -= 1;
        line[at] = mark;
        self.out.extend_from_slice(&line[at..]);
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// What a caller is told whose connection is closed.
pub(super) fn close_message(reason: CloseReason, needs_password: bool) -> String {
    match reason {
        CloseReason::NotOpened if needs_password => {
            format!("NOAUTH no password within {} s; send AUTH password", OPENING_MAX.as_secs())
        }
        CloseReason::SlowRequest => format!(
            "ERR Protocol error: the command did not arrive within {} s; send it faster",
            BODY_WAIT_MAX.as_secs()
        ),
        CloseReason::Crowded => "ERR too many connections; come back when you have a command".to_owned(),
        CloseReason::NotOpened
        | CloseReason::SlowReader
        | CloseReason::Idle
        | CloseReason::Age
        | CloseReason::Overdue => "ERR the connection is closed; connect again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: RespVersion, write: impl FnOnce(&mut RespWriter<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut RespWriter::new(&mut out, version));
        String::from_utf8(out).expect("what is written here is text")
    }

    #[test]
    fn the_same_values_look_different_in_the_two_versions() {
        type Case = (fn(&mut RespWriter<'_>), &'static str, &'static str);
        let cases: [Case; 8] = [
            (|w| w.ok(), "+OK\r\n", "+OK\r\n"),
            (|w| w.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|w| w.text("é"), "$2\r\né\r\n", "$2\r\né\r\n"),
            (|w| w.null(), "$-1\r\n", "_\r\n"),
            (|w| w.array(0), "*0\r\n", "*0\r\n"),
            (|w| w.map(3), "*6\r\n", "%3\r\n"),
            (|w| w.set(3), "*3\r\n", "~3\r\n"),
            (|w| w.verbatim("a\n"), "$2\r\na\n\r\n", "=6\r\ntxt:a\n\r\n"),
        ];
        for (write, two, three) in cases {
            assert_eq!(written(RespVersion::Resp2, write), two);
            assert_eq!(written(RespVersion::Resp3, write), three);
        }
    }

    #[test]
    fn a_number_is_written_as_the_standard_library_has_it() {
        let edges = (0..19).map(|digits| 10_i64.pow(digits)).flat_map(|power| [power - 1, power, power + 1]);
        for value in edges.flat_map(|value| [value, -value]).chain([i64::MIN, i64::MIN + 1, i64::MAX]) {
            assert_eq!(written(RespVersion::Resp2, |w| w.integer(value)), format!(":{value}\r\n"));
        }
        assert_eq!(written(RespVersion::Resp3, |w| w.array(10)), "*10\r\n");
    }

    #[test]
    fn an_error_stays_on_its_line() {
        let text = written(RespVersion::Resp2, |w| w.error(&"ERR a\r\n+OK\tb\u{7f}é"));
        assert_eq!(text, "-ERR a??+OK?b?é\r\n");
    }
}
