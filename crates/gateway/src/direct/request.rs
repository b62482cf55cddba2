//! A request that came whole and has nothing unusual about it.
//!
//! The head is read once, from its first byte to its last, and kept where it is.
//!
//! Invariants: `strict` would let its head pass, with the same length of its body. What is not plain
//! here may still be right: hyper decides that, after `strict`. Whatever this reads, hyper would read
//! alike; that is why hosts and targets with any but the usual characters are left to it.

use http::Method;
use memchr::memchr;
use smallvec::SmallVec;
use tollgate_http::FieldLine;

use crate::bounds::{FIELDS_MAX, HEAD_MAX};
use crate::fields::is_hop_by_hop;
use crate::strict;

/// So many fields fit without an allocation; browsers send about fifteen.
const FIELDS_USUAL: usize = 16;

/// The fields of a request, kept by whoever has it read: what is large is not moved.
pub(super) type Fields<'a> = SmallVec<[FieldLine<'a>; FIELDS_USUAL]>;

/// A request that came whole and has nothing unusual about it.
#[derive(Debug)]
pub(super) struct DirectRequest<'a> {
    pub(super) method: Method,
    /// Path and query as they came.
    pub(super) target: &'a str,
    pub(super) host: &'a str,
    /// All fields but `Host` and `Connection`, by names in lower case.
    pub(super) fields: &'a [FieldLine<'a>],
    pub(super) body: &'a [u8],
    /// Bytes of head and body.
    pub(super) length: usize,
}

impl<'a> DirectRequest<'a> {
    /// The request at the beginning of `input`, whose names are put into lower case; none if it is
    /// not whole, not right, or not plain.
    pub(super) fn read<'i: 'a>(input: &'i mut [u8], fields: &'a mut Fields<'i>) -> Option<Self> {
        let mut lines = HeadLines { rest: input, length: 0 };
        let (method, target) = request_line(lines.next()?)?;
        let (mut host, mut body_length) = ("", None);
        for number in 0.. {
            let Some((name, raw)) = lines.next_field()? else { break };
            let value = strict::trim(raw);
            if number == FIELDS_MAX {
                return None;
            }
            match name {
                b"host" if host.is_empty() => host = usual_host(value)?,
                b"connection" if value.eq_ignore_ascii_case(b"keep-alive") => {}
                b"content-length" => {
                    let is_plain = body_length.is_none() && !raw.contains(&b'\t');
                    body_length = Some(strict::length(value).filter(|_| is_plain)?);
                    fields.push(FieldLine { name, value });
                }
                // Several of them become one.
                b"cookie" if fields.iter().any(|other| other.name == b"cookie") => return None,
                name if is_unusual(name) => return None,
                name => fields.push(FieldLine { name, value }),
            }
        }
        let HeadLines { rest, length } = lines;
        let body_length = usize::try_from(body_length.unwrap_or(0)).ok()?;
        let body = rest.get(..body_length)?;
        if length > HEAD_MAX || host.is_empty() {
            return None;
        }
        Some(Self { method, target, host, fields, body, length: length + body_length })
    }

    /// The first field of that name.
    pub(super) fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value)
    }

    /// The path without its query.
    pub(super) fn path(&self) -> &'a [u8] {
        let target = self.target.as_bytes();
        let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
        target.get(..end).unwrap_or(target)
    }
}

/// The lines of a head.
struct HeadLines<'a> {
    rest: &'a mut [u8],
    /// Bytes of those that were read.
    length: usize,
}

impl<'a> HeadLines<'a> {
    /// The next one without its end, which is CR LF; none if it has a control character, another end, or
    /// none yet.
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = strict::text_length(self.rest);
        self.take_line(end).map(|line| &*line)
    }

    /// The name of the next field, which is put into lower case, and its value with the spaces around it, or
    /// the end of the head; none if it is no such line.
    fn next_field(&mut self) -> Option<Option<(&'a [u8], &'a [u8])>> {
        if self.rest.first() == Some(&b'\r') {
            return self.take_line(0).map(|_| None);
        }
        let name_length = strict::lower_name(self.rest)?;
        let value_length = strict::text_length(self.rest.get(name_length + 1..)?);
        let line = self.take_line(name_length + 1 + value_length)?;
        let (name, value) = line.split_at_checked(name_length)?;
        Some(Some((name, value.get(1..)?)))
    }

    /// The next bytes, which CR LF must follow.
    fn take_line(&mut self, length: usize) -> Option<&'a mut [u8]> {
        if self.rest.get(length..length + 2)? != b"\r\n" {
            return None;
        }
        let (line, rest) = std::mem::take(&mut self.rest).split_at_mut_checked(length + 2)?;
        self.rest = rest;
        self.length += length + 2;
        line.get_mut(..length)
    }
}

fn request_line(line: &[u8]) -> Option<(Method, &str)> {
    let line = line.strip_suffix(b" HTTP/1.1")?;
    let (method, target) = line.split_at_checked(memchr(b' ', line)?)?;
    let method = match method {
        b"GET" => Method::GET,
        b"HEAD" => Method::HEAD,
        b"POST" => Method::POST,
        b"PUT" => Method::PUT,
        b"PATCH" => Method::PATCH,
        b"DELETE" => Method::DELETE,
        b"OPTIONS" => Method::OPTIONS,
        _ => return None,
    };
    let target = target.get(1..)?;
    let has_nul = || target.windows(3).any(|escape| escape == b"%00");
    if !target.starts_with(b"/") || !strict::is_usual_target(target) {
        return None;
    }
    if target.contains(&b'%') && has_nul() {
        return None;
    }
    Some((method, std::str::from_utf8(target).ok()?))
}

/// Whether a field with this name, which is in lower case, makes a request unusual.
fn is_unusual(name: &[u8]) -> bool {
    matches!(name, b"expect" | b"host") || is_hop_by_hop(name)
}

/// A name or an IPv4 address, and perhaps a port.
fn usual_host(value: &[u8]) -> Option<&str> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let end = value.iter().position(|byte| !is_name(byte)).unwrap_or(value.len());
    let is_usual = match value.get(end..)? {
        [] => true,
        [b':', port @ ..] => (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    std::str::from_utf8(value).ok().filter(|_| is_usual && end > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_is_read_in_place() {
        let mut bytes =
            b"POST /a?b=%20 HTTP/1.1\r\nHost: h:80\r\nConnection: Keep-Alive\r\nX-One:  1 \r\nContent-Length: 2\r\n\r\nhiGET"
                .to_vec();
        let mut fields = Fields::new();
        let request = DirectRequest::read(&mut bytes, &mut fields).unwrap();
        assert_eq!((&request.method, request.target, request.host), (&Method::POST, "/a?b=%20", "h:80"));
        assert_eq!((request.path(), request.body, request.length), (&b"/a"[..], &b"hi"[..], 95));
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
            format!("{line}b: {}\r\n\r\n", "c".repeat(HEAD_MAX)),
        ] {
            assert!(
                DirectRequest::read(&mut bytes.clone().into_bytes(), &mut Fields::new()).is_none(),
                "{bytes:?}"
            );
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
            let mut fields = Fields::new();
            let Some(request) = DirectRequest::read(&mut bytes, &mut fields) else { continue };
            read += 1;
            let (end, shape) = strict::whole_head(&given).unwrap().expect("a whole head");
            let body = strict::Framing::Length(u64::try_from(request.body.len()).unwrap());
            assert_eq!((shape.framing, shape.is_upgrade), (body, false), "{}", given.escape_ascii());
            assert_eq!(request.length, end + request.body.len(), "{}", given.escape_ascii());
        }
        assert!(read > 1_000, "{read}");
    }
}
