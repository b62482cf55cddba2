//! A request that came whole and has nothing unusual about it.
//!
//! The head is read once, from its first byte to its last, and stays where it is. [`HeadSpans`] says where
//! its parts are, so that it can be moved to a buffer of its own if the request takes its time;
//! [`DirectRequest`] shows them.
//!
//! Invariants: `strict` would let its head pass, with the same length of its body. What is not plain
//! here may still be right: hyper decides that, after `strict`. Whatever this reads, hyper would read
//! alike; that is why hosts and targets with any but the usual characters are left to it.

use std::net::IpAddr;
use std::ops::Range;

use http::Method;
use smallvec::SmallVec;
use tollgate_http::{FieldLines, FieldSpan, HeaderFields, HttpRequestFacts};

use crate::bounds::{FIELDS_MAX, HEAD_MAX};
use crate::fields::is_hop_by_hop;
use crate::strict;

/// So many fields fit without an allocation; browsers send about fifteen.
const FIELDS_USUAL: usize = 16;
const LINE_END: &[u8] = b"\r\n";

/// The usual methods, as a line begins with them.
static METHODS: [(&[u8], Method); 7] = [
    (b"GET ", Method::GET),
    (b"POST ", Method::POST),
    (b"HEAD ", Method::HEAD),
    (b"PUT ", Method::PUT),
    (b"PATCH ", Method::PATCH),
    (b"DELETE ", Method::DELETE),
    (b"OPTIONS ", Method::OPTIONS),
];

/// Where the fields of a request are, but for `Host` and `Connection`; kept by whoever has it read, because
/// what is large is not moved.
pub(super) type FieldSpans = SmallVec<[FieldSpan; FIELDS_USUAL]>;

/// Where the other parts of a request are.
#[derive(Debug)]
pub(super) struct HeadSpans {
    method: &'static Method,
    target: Range<usize>,
    host: Range<usize>,
    head_length: usize,
    /// Bytes of head and body.
    pub(super) length: usize,
}

/// A request that came whole and has nothing unusual about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirectRequest<'a> {
    pub(super) method: &'static Method,
    /// Path and query as they came; letters of ASCII alone, as those of the host.
    pub(super) target: &'a [u8],
    pub(super) host: &'a [u8],
    /// All fields but `Host` and `Connection`, by names in lower case.
    pub(super) fields: FieldLines<'a>,
    pub(super) body: &'a [u8],
}

impl HeadSpans {
    /// Those of the request at the beginning of `input`, whose names are put into lower case; none if it
    /// is not whole, not right, or not plain.
    pub(super) fn read(input: &mut [u8], fields: &mut FieldSpans) -> Option<Self> {
        let line = line_end(input)?;
        let (method, target) = request_line(input.get(..line)?)?;
        let (mut host, mut body_length, mut has_cookie) = (0..0, None, false);
        let (mut count, mut start) = (0, line + LINE_END.len());
        loop {
            let rest = input.get_mut(start..)?;
            if rest.starts_with(LINE_END) {
                break;
            }
            let colon = strict::lower_name(rest)?;
            let (name, value) = (rest.get(..colon)?, rest.get(colon + 1..)?);
            let length = line_end(value)?;
            let raw = value.get(..length)?;
            let trimmed = strict::trimmed(raw);
            let (value, value_start) = (raw.get(trimmed.clone())?, start + colon + 1);
            let span = value_start + trimmed.start..value_start + trimmed.end;
            let is_plain = match name {
                b"host" => host.is_empty() && is_usual_host(value),
                b"connection" => value.eq_ignore_ascii_case(b"keep-alive"),
                b"content-length" => {
                    let is_first = body_length.is_none() && !raw.contains(&b'\t');
                    body_length = strict::length(value);
                    is_first && body_length.is_some()
                }
                // Several cookies become one.
                b"cookie" => !std::mem::replace(&mut has_cookie, true),
                name => !is_unusual(name),
            };
            if !is_plain {
                return None;
            }
            match name {
                b"host" => host = span,
                b"connection" => {}
                _ => fields.push(FieldSpan::new(start..start + colon, span)?),
            }
            (start, count) = (value_start + length + LINE_END.len(), count + 1);
        }
        let head_length = start + LINE_END.len();
        let length = head_length.checked_add(usize::try_from(body_length.unwrap_or(0)).ok()?)?;
        let is_short = head_length <= HEAD_MAX && count <= FIELDS_MAX;
        let is_plain = is_short && !host.is_empty() && length <= input.len();
        is_plain.then_some(Self { method, target, host, head_length, length })
    }

    /// The request in these bytes, which have not changed since.
    pub(super) fn of<'a>(&self, bytes: &'a [u8], fields: &'a FieldSpans) -> DirectRequest<'a> {
        let part = |span: Range<usize>| bytes.get(span).unwrap_or_default();
        DirectRequest {
            method: self.method,
            target: part(self.target.clone()),
            host: part(self.host.clone()),
            fields: FieldLines::new(bytes, fields),
            body: part(self.head_length..self.length),
        }
    }
}

impl<'a> DirectRequest<'a> {
    /// The first field of that name.
    pub(super) fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value)
    }

    /// The path without its query.
    pub(super) fn path(&self) -> &'a [u8] {
        let target = self.target;
        let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
        target.get(..end).unwrap_or(target)
    }

    /// Whether only the head of the answer is wanted.
    pub(super) fn is_head(&self) -> bool {
        *self.method == Method::HEAD
    }

    /// What a mapping can pick from; whoever does not want the host need not have it as text.
    pub(super) fn facts(&self, peer: Option<IpAddr>, wants_host: bool) -> HttpRequestFacts<'a> {
        HttpRequestFacts {
            peer,
            peer_name: None,
            method: self.method.as_str(),
            target: self.target,
            host: if wants_host { std::str::from_utf8(self.host).ok() } else { None },
            headers: HeaderFields::Lines(self.fields),
        }
    }
}

/// Where the first line ends: with CR LF, before any other control character.
fn line_end(input: &[u8]) -> Option<usize> {
    let length = strict::text_length(input);
    input.get(length..)?.starts_with(LINE_END).then_some(length)
}

/// The method, and where the target is.
fn request_line(line: &[u8]) -> Option<(&'static Method, Range<usize>)> {
    let (word, method) = METHODS.iter().find(|(word, _)| line.starts_with(word))?;
    let target = line.get(word.len()..)?.strip_suffix(b" HTTP/1.1")?;
    let has_nul = || target.windows(3).any(|escape| escape == b"%00");
    if !target.starts_with(b"/") || !strict::is_usual_target(target) {
        return None;
    }
    if target.contains(&b'%') && has_nul() {
        return None;
    }
    Some((method, word.len()..word.len() + target.len()))
}

/// Whether a field with this name, which is in lower case, makes a request unusual.
fn is_unusual(name: &[u8]) -> bool {
    name == b"expect" || is_hop_by_hop(name)
}

/// Whether it is a name or an IPv4 address, and perhaps a port.
fn is_usual_host(value: &[u8]) -> bool {
    let end = strict::host_name_length(value);
    let is_usual = match value.get(end..) {
        Some([]) => true,
        Some([b':', port @ ..]) => (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_usual && end > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_is_read_in_place() {
        let mut bytes =
            b"POST /a?b=%20 HTTP/1.1\r\nHost: h:80\r\nConnection: Keep-Alive\r\nX-One:  1 \r\nContent-Length: 2\r\n\r\nhiGET"
                .to_vec();
        let mut fields = FieldSpans::new();
        let spans = HeadSpans::read(&mut bytes, &mut fields).unwrap();
        let request = spans.of(&bytes, &fields);
        assert_eq!(
            (request.method, request.target, request.host),
            (&Method::POST, &b"/a?b=%20"[..], &b"h:80"[..])
        );
        assert_eq!((request.path(), request.body, spans.length), (&b"/a"[..], &b"hi"[..], 95));
        assert_eq!((request.field(b"x-one"), request.field(b"host")), (Some(&b"1"[..]), None));
    }

    #[test]
    fn what_is_not_plain_is_left_to_hyper() {
        let line = "GET / HTTP/1.1\r\nHost: a\r\n";
        for bytes in [
            "GET / HTTP/1.1\r\nHost: a\r\n".to_owned(),
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n".to_owned(),
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "get / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "GET /{a} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: a:\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost:\r\n\r\n".to_owned(),
            format!("\r\n{line}\r\n"),
            format!("{line}Connection: close\r\n\r\n"),
            format!("{line}Connection: keep-alive, x\r\n\r\n"),
            format!("{line}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
            format!("{line}Upgrade: websocket\r\n\r\n"),
            format!("{line}TE: trailers\r\n\r\n"),
            format!("{line}Expect: 100-continue\r\n\r\n"),
            format!("{line}Proxy-Authorization: a\r\n\r\n"),
            format!("{line}Cookie: a=b\r\nCookie: c=d\r\n\r\n"),
            format!("{line}Content-Length: 3\r\n\r\nhi"),
            format!("{line}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            format!("{line}B : c\r\n\r\n"),
            format!("{line}Host: a\r\n\r\n"),
            format!("{line}Content-Length: 0\r\nContent-Length: 0\r\n\r\n"),
            format!("{line}Content-Length: 0\t\r\n\r\n"),
            format!("{line}Content-Length: +0\r\n\r\n"),
            format!("{line} b: c\r\n\r\n"),
            format!("{line}b: c\n\r\n"),
            format!("{line}b: c\rd\r\n\r\n"),
            format!("{line}b: \0\r\n\r\n"),
            format!("{line}: c\r\n\r\n"),
            format!("{line}b\r\n\r\n"),
            format!("{line}{}\r\n", "b: c\r\n".repeat(FIELDS_MAX)),
            format!("{line}{}\r\n", "Connection: keep-alive\r\n".repeat(FIELDS_MAX)),
            format!("{line}b: {}\r\n\r\n", "c".repeat(HEAD_MAX)),
        ] {
            let read = HeadSpans::read(&mut bytes.clone().into_bytes(), &mut FieldSpans::new());
            assert!(read.is_none(), "{bytes:?}");
        }
    }

    /// Whatever is read here has passed `strict`, with the same end: heads that are right, with a few
    /// bytes that are not.
    #[test]
    fn nothing_is_read_here_that_strict_refuses() {
        let parts: [&[u8]; 16] = [
            b"GET / HTTP/1.1\r\n",
            b"POST /a%20b?c=d HTTP/1.1\r\n",
            b"Host: a\r\n",
            b"host:b:80\r\n",
            b"Content-Length: 2\r\n",
            b"content-length:0\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Connection: keep-alive\r\n",
            b"Connection: upgrade\r\n",
            b"Upgrade: h2c\r\n",
            b"X-Key: user \t 1 \r\n",
            b"Cookie: a=b\r\n",
            b"X-Empty:\r\n",
            b"\r\n",
            b"\r\nhi",
            b"\n",
        ];
        let odd = b"\0\t\n\r :,;#\x7f\xff0Hh";
        let mut random = fastrand::Rng::with_seed(9112);
        let mut read = 0;
        for _ in 0..100_000 {
            let mut bytes = parts[random.usize(..2)].to_vec();
            for _ in 0..random.usize(..6) {
                bytes.extend_from_slice(parts[random.usize(..parts.len())]);
            }
            bytes.extend_from_slice(b"\r\nhi");
            for _ in 0..random.usize(..3) {
                let at = random.usize(..bytes.len());
                bytes[at] = odd[random.usize(..odd.len())];
            }
            let given = bytes.clone();
            let mut fields = FieldSpans::new();
            let Some(spans) = HeadSpans::read(&mut bytes, &mut fields) else { continue };
            let body_length = spans.of(&bytes, &fields).body.len();
            read += 1;
            let (end, shape) = strict::whole_head(&given).unwrap().expect("a whole head");
            let body = strict::Framing::Length(u64::try_from(body_length).unwrap());
            assert_eq!((shape.framing, shape.is_upgrade), (body, false), "{}", given.escape_ascii());
            assert_eq!(spans.length, end + body_length, "{}", given.escape_ascii());
        }
        assert!(read > 1_000, "{read}");
    }
}
