//! A request that came whole and has nothing unusual about it.
//!
//! Invariants: `strict` has let its head pass. What is not plain here may still be right: hyper
//! decides that. Whatever this reads, hyper would read alike; that is why hosts and targets with
//! any but the usual characters are left to it.

use http::Method;
use memchr::memchr;
use smallvec::SmallVec;
use tollgate_http::FieldLine;

use crate::strict::{self, Framing};

/// So many fields fit without an allocation; browsers send about fifteen.
const FIELDS_USUAL: usize = 16;

/// What a target of the usual kind is made of, besides letters and digits.
const TARGET_OTHERS: &[u8] = b"-._~!$&'()*+,;=:@%/?";

/// A request that came whole and has nothing unusual about it.
#[derive(Debug)]
pub(super) struct DirectRequest<'a> {
    pub(super) method: Method,
    /// Path and query as they came.
    pub(super) target: &'a str,
    pub(super) host: &'a str,
    /// All fields but `Host` and `Connection`, by names in lower case.
    pub(super) fields: SmallVec<[FieldLine<'a>; FIELDS_USUAL]>,
    pub(super) body: &'a [u8],
    /// Bytes of head and body.
    pub(super) length: usize,
}

impl<'a> DirectRequest<'a> {
    /// The request at the beginning of `input`, whose names are put into lower case; none if it is
    /// not whole, not right, or not plain.
    pub(super) fn read(input: &'a mut [u8]) -> Option<Self> {
        let (end, shape) = strict::whole_head(input).ok()??;
        let Framing::Length(body_length) = shape.framing else { return None };
        let length = end.checked_add(usize::try_from(body_length).ok()?)?;
        if shape.is_upgrade || input.len() < length {
            return None;
        }
        let (head, rest) = input.split_at_mut_checked(end)?;
        let body = rest.get(..length - end)?;
        let mut lines = HeadLines(head);
        let (method, target) = request_line(lines.next()?)?;
        let mut request = Self { method, target, host: "", fields: SmallVec::new(), body, length };
        for line in lines {
            let colon = memchr(b':', line)?;
            let (name, value) = line.split_at_mut_checked(colon)?;
            name.make_ascii_lowercase();
            request.add(FieldLine { name, value: strict::trim(value.get(1..)?) })?;
        }
        (!request.host.is_empty()).then_some(request)
    }

    /// None if the field makes the request unusual.
    fn add(&mut self, field: FieldLine<'a>) -> Option<()> {
        match field.name {
            b"host" => self.host = usual_host(field.value)?,
            b"connection" if field.value.eq_ignore_ascii_case(b"keep-alive") => {}
            b"connection"
            | b"expect"
            | b"keep-alive"
            | b"proxy-authenticate"
            | b"proxy-authorization"
            | b"proxy-connection"
            | b"te"
            | b"upgrade" => return None,
            // Several of them become one.
            b"cookie" if self.fields.iter().any(|other| other.name == b"cookie") => return None,
            _ => self.fields.push(field),
        }
        Some(())
    }

    /// The first field of that name.
    pub(super) fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value)
    }

    /// The path without its query.
    pub(super) fn path(&self) -> &'a [u8] {
        self.target.split('?').next().unwrap_or_default().as_bytes()
    }
}

/// The lines of a head without their ends, up to the empty one.
struct HeadLines<'a>(&'a mut [u8]);

impl<'a> Iterator for HeadLines<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        let end = memchr(b'\n', self.0)?;
        let (line, rest) = std::mem::take(&mut self.0).split_at_mut_checked(end + 1)?;
        self.0 = rest;
        let text = line.len().saturating_sub(2);
        line.get_mut(..text).filter(|line| !line.is_empty())
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
    let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || TARGET_OTHERS.contains(byte);
    let has_nul = || target.windows(3).any(|escape| escape == b"%00");
    if !target.starts_with(b"/") || !target.iter().all(is_usual) || has_nul() {
        return None;
    }
    Some((method, std::str::from_utf8(target).ok()?))
}

/// A name or an IPv4 address, and perhaps a port.
fn usual_host(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    let (name, port) = text.split_once(':').unwrap_or((text, "80"));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_port && !name.is_empty() && name.bytes().all(is_name)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_is_read_in_place() {
        let mut bytes =
            b"POST /a?b=%20 HTTP/1.1\r\nHost: h:80\r\nConnection: Keep-Alive\r\nX-One:  1 \r\nContent-Length: 2\r\n\r\nhiGET"
                .to_vec();
        let request = DirectRequest::read(&mut bytes).unwrap();
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
        ] {
            assert!(DirectRequest::read(&mut bytes.clone().into_bytes()).is_none(), "{bytes:?}");
        }
    }
}
