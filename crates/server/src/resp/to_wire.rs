//! Numbers, texts and maps → bytes, in RESP2 or RESP3.
//!
//! After every command; together with `from_wire` and `frame` the only place
//! that knows the bytes of the protocol.
//!
//! Invariant: an error is one line, whatever was sent: what is not printable
//! is shown as `?`.

use std::fmt::Display;
use std::io::Write as _;

/// The version of the protocol that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Protocol {
    /// What every client understands.
    #[default]
    Resp2,
    /// With maps, nulls and the like.
    Resp3,
}

impl Protocol {
    /// Its number in HELLO.
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Writes answers, one value after the other.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// The same bytes, in another version from here on.
    pub(super) const fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The version it writes in.
    pub(super) const fn protocol(&self) -> Protocol {
        self.protocol
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

    /// A text of several lines, to show as it is.
    pub(super) fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.text(text),
            Protocol::Resp3 => {
                self.size(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Nothing.
    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// So many values follow.
    pub(super) fn array(&mut self, values: usize) {
        self.size(b'*', values);
    }

    /// So many values without an order follow.
    pub(super) fn set(&mut self, values: usize) {
        self.size(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, values);
    }

    /// So many pairs follow.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.size(b'*', pairs * 2),
            Protocol::Resp3 => self.size(b'%', pairs),
        }
    }

    fn size(&mut self, mark: u8, size: usize) {
        self.number(mark, i64::try_from(size).unwrap_or(i64::MAX));
    }

    fn number(&mut self, mark: u8, value: i64) {
        self.out.push(mark);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.end();
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Writer::new(&mut out, protocol));
        String::from_utf8(out).expect("what is written here is text")
    }

    #[test]
    fn the_same_values_look_different_in_the_two_versions() {
        type Case = (fn(&mut Writer<'_>), &'static str, &'static str);
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
            assert_eq!(written(Protocol::Resp2, write), two);
            assert_eq!(written(Protocol::Resp3, write), three);
        }
    }

    #[test]
    fn an_error_stays_on_its_line() {
        let text = written(Protocol::Resp2, |w| w.error(&"ERR a\r\n+OK\tb\u{7f}é"));
        assert_eq!(text, "-ERR a??+OK?b?é\r\n");
    }
}
