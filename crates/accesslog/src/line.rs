//! What a line of an access log says.
//!
//! Parsers fill one in field by field; replay and import read it.
//!
//! Invariant: a `LogLine` that exists has a time and a request target.

use std::borrow::Cow;

use smallvec::SmallVec;
use tollgate_core::{Micros, Time};

use crate::decimal::duration;
use crate::timestamp::{TimeCache, Timestamp};

/// The header whose first address is the client's where a log has no better one.
pub(crate) const FORWARDED_FOR: &str = "x-forwarded-for";

/// Headers of a request, by lower-case name.
pub type LogHeaders<'a> = SmallVec<[(Cow<'a, str>, Cow<'a, [u8]>); 2]>;

/// One request, as a log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// When it was written, or when the request began: see [`crate::LogFormat::is_written_at_end`].
    pub time: Time,
    /// The log has whole seconds, so that the true time is up to a second later.
    pub whole_second: bool,
    /// How long the request took.
    pub duration: Option<Micros>,
    /// Who asked: an address without a port, or a host name where the server looked it up.
    pub address: Option<Cow<'a, str>>,
    /// The method; `GET` where the log does not say.
    pub method: Cow<'a, str>,
    /// Path and query as they were sent.
    pub target: Cow<'a, [u8]>,
    /// The host that was asked for.
    pub host: Option<Cow<'a, str>>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Headers of the request that the log has, by lower-case name.
    pub headers: LogHeaders<'a>,
}

/// What a field of a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    /// Who asked, with or without a port.
    Address,
    /// A time stamp of any kind.
    Time,
    /// `2024-03-12`, to be followed by [`Field::Clock`].
    Date,
    /// `15:22:28`.
    Clock,
    /// `GET /path HTTP/1.1`.
    Request,
    Method,
    /// Path and query.
    Target,
    /// The query of a target that is already known.
    Query,
    Host,
    Status,
    /// How long it took, in units of so many nanoseconds.
    Duration {
        nanos: u64,
    },
    /// A header of the request, by lower-case name.
    Header(Box<str>),
    Skip,
}

/// A line that is being read.
#[derive(Debug, Default)]
pub(crate) struct LineBuilder<'a> {
    /// The text has no escapes of a log.
    is_plain: bool,
    time: Option<Timestamp>,
    date: Option<Cow<'a, [u8]>>,
    duration: Option<Micros>,
    address: Option<Cow<'a, str>>,
    method: Option<Cow<'a, str>>,
    target: Option<Cow<'a, [u8]>>,
    query: Option<Cow<'a, [u8]>>,
    host: Option<Cow<'a, str>>,
    status: Option<u16>,
    headers: LogHeaders<'a>,
}

impl<'a> LineBuilder<'a> {
    /// For text from which escapes were already removed.
    pub(crate) fn plain_text() -> Self {
        Self { is_plain: true, ..Self::default() }
    }

    /// Takes the text of a field. `None` if it cannot be what the format says that it is.
    pub(crate) fn set(
        &mut self,
        field: &Field,
        text: impl Into<Cow<'a, [u8]>>,
        cache: &mut TimeCache,
    ) -> Option<()> {
        let text = text.into();
        match field {
            Field::Skip => {}
            Field::Time => self.time = Some(cache.parse(&text)?),
            Field::Date => self.date = Some(text),
            Field::Clock => self.time = Some(cache.parse_pair(self.date.as_deref()?, &text)?),
            Field::Request => self.set_request(text)?,
            _ if matches!(&*text, b"" | b"-") => {}
            Field::Status => self.status = Some(status(&text)?),
            Field::Duration { nanos } => self.duration = Some(duration(&text, *nanos)?),
            Field::Query => self.query = Some(self.plain(text)),
            // The whole request, where a log has both, is as it was sent.
            Field::Target if self.target.is_some() => {}
            Field::Target => self.target = Some(self.plain(text)),
            Field::Header(name) => self.set_header(Cow::Owned(name.to_string()), text),
            Field::Address => self.address = Some(without_port(as_text(text)?)),
            Field::Host => self.host = Some(as_text(text)?),
            Field::Method => self.method = Some(as_text(text).filter(|method| is_method(method.as_bytes()))?),
        }
        Some(())
    }

    /// A header of the request.
    pub(crate) fn set_header(&mut self, name: Cow<'a, str>, text: Cow<'a, [u8]>) {
        let text = self.plain(text);
        self.headers.push((name, text));
    }

    fn plain(&self, text: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.is_plain || memchr::memchr(b'\\', &text).is_none() {
            text
        } else {
            Cow::Owned(unescaped(&text))
        }
    }

    /// `GET /path HTTP/1.1`, or without the last part, as HTTP/0.9 was.
    fn set_request(&mut self, request: Cow<'a, [u8]>) -> Option<()> {
        let (method, target) = match request {
            Cow::Borrowed(request) => {
                let (method, target) = split_request(request)?;
                (Cow::Borrowed(method), Cow::Borrowed(target))
            }
            Cow::Owned(request) => {
                let (method, target) = split_request(&request)?;
                (Cow::Owned(method.to_vec()), Cow::Owned(target.to_vec()))
            }
        };
        self.method = Some(as_method(method)?);
        self.target = Some(self.plain(target));
        Some(())
    }

    /// The line, if it has a time and a target.
    pub(crate) fn build(self) -> Option<LogLine<'a>> {
        let Timestamp { time, whole_second } = self.time?;
        let mut target = self.target?;
        let forwarded_for = || {
            let list = &self.headers.iter().find(|(name, _)| name == FORWARDED_FOR)?.1;
            let first = list.split(|byte| *byte == b',').next()?.trim_ascii();
            as_text(Cow::Owned(first.to_vec())).map(without_port)
        };
        // Envoy's own format has no other address than the one that a proxy before it wrote.
        let address = self.address.or_else(forwarded_for);
        if let Some(query) = self.query {
            let query = query.strip_prefix(b"?").unwrap_or(&query);
            target = Cow::Owned([&*target, b"?", query].concat());
        }
        Some(LogLine {
            time,
            whole_second,
            duration: self.duration,
            address,
            method: self.method.unwrap_or(Cow::Borrowed("GET")),
            target,
            host: self.host,
            status: self.status,
            headers: self.headers,
        })
    }
}

/// Method and target.
fn split_request(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let request = request.trim_ascii();
    let (method, rest) = request.split_at_checked(request.iter().position(|byte| *byte == b' ')?)?;
    let rest = rest.trim_ascii_start();
    let target = match rest {
        [target @ .., b' ', b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            target.trim_ascii_end()
        }
        _ => match memchr::memrchr(b' ', rest) {
            Some(at) if rest.get(at + 1..).is_some_and(|version| version.starts_with(b"HTTP/")) => {
                rest.get(..at).unwrap_or_default().trim_ascii_end()
            }
            _ => rest,
        },
    };
    let is_request = is_method(method) && !target.is_empty() && !target.starts_with(b"HTTP/");
    is_request.then_some((method, target))
}

fn is_method(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'))
}

/// A method as text; the usual ones are known.
fn as_method(method: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match &*method {
        b"GET" => Some(Cow::Borrowed("GET")),
        b"POST" => Some(Cow::Borrowed("POST")),
        b"HEAD" => Some(Cow::Borrowed("HEAD")),
        _ => as_text(method),
    }
}

fn as_text(text: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match text {
        Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
        Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
    }
}

fn status(text: &[u8]) -> Option<u16> {
    if let [hundreds @ b'0'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = text {
        let digit = |byte: &u8| u16::from(byte - b'0');
        return Some(digit(hundreds) * 100 + digit(tens) * 10 + digit(ones));
    }
    let status = std::str::from_utf8(text).ok()?.parse().ok()?;
    // HAProxy writes -1 for no answer, others 0 or 000; both are no status.
    (status < 1_000).then_some(status)
}

/// `1.2.3.4:567` and `[::1]:567` without the port; `::1` and host names as they are.
fn without_port(text: Cow<'_, str>) -> Cow<'_, str> {
    if memchr::memchr(b':', text.as_bytes()).is_none() && !text.starts_with('[') {
        return text;
    }
    let end = match text.strip_prefix('[') {
        Some(rest) => return Cow::Owned(rest.split(']').next().unwrap_or_default().to_owned()),
        None => match text.split_once(':') {
            Some((_, port)) if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) => {
                return text;
            }
            Some((address, _)) => address.len(),
            None => return text,
        },
    };
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

/// Text without the escapes that servers write into quotes: `\xHH`, `\"`, `\\` and those of C.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (unescaped, length) = match rest {
            [b'x' | b'X', high, low, ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high * 16 + low, 3),
                _ => (b'\\', 0),
            },
            [quoted @ (b'"' | b'\\'), ..] => (*quoted, 1),
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'r', ..] => (b'\r', 1),
            _ => (b'\\', 0),
        };
        out.push(unescaped);
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_go_and_addresses_stay() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:44740", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("in24.example.net", "in24.example.net"),
        ] {
            assert_eq!(without_port(text.into()), address, "{text}");
        }
    }

    #[test]
    fn escapes_of_servers_are_undone() {
        for (text, plain) in [
            (r"/a\x22b", "/a\"b"),
            (r#"/\"x\""#, "/\"x\""),
            (r"\\", "\\"),
            (r"a\qb\x2", r"a\qb\x2"),
            (r"\", r"\"),
            (r"\x4", r"\x4"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), plain.as_bytes(), "{text}");
        }
    }
}
