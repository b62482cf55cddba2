//! What the head of an HTTP/1 request must look like, and how long its body is.
//!
//! From RFC 9112, with everything refused that it lets a server choose about.

use std::ops::Range;

use http::StatusCode;

use super::REJECTED;
use crate::bounds::{FIELDS_MAX, HEAD_MAX, HEAD_WAIT_MAX};
use crate::fields::is_http_protocol;

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Length(u64),
    Chunked,
}

/// What the stream has to know about a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadShape {
    pub(crate) framing: Framing,
    /// The client wants to speak another protocol, and sends nothing before it is answered.
    pub(crate) is_upgrade: bool,
}

/// Why a request is refused before anybody has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the request line is not METHOD TARGET HTTP/1.1")]
    RequestLine,
    #[error("the request target is not a path, an http URL or *, or has bytes that must be escaped")]
    Target,
    #[error("CONNECT is for forward proxies, and this is none")]
    Connect,
    #[error("a line does not end with CR LF, or has one of them within")]
    LineEnd,
    #[error("a field is not NAME: VALUE")]
    Field,
    #[error("a field goes on in a second line")]
    Folded,
    #[error("a value begins or ends with a space, which belongs to no value over HTTP/2")]
    Space,
    #[error("there must be one Host field")]
    Host,
    #[error("Content-Length is not one number")]
    Length,
    #[error("Transfer-Encoding must be chunked and nothing else, over HTTP/1.1")]
    Coding,
    #[error("Content-Length and Transfer-Encoding are both there")]
    LengthAndCoding,
    #[error("the head is larger than {HEAD_MAX} bytes or has more than {FIELDS_MAX} fields")]
    TooLarge,
    #[error("the head did not arrive within {} s", HEAD_WAIT_MAX.as_secs())]
    TooSlow,
}

impl HeadError {
    const ALL: [Self; 13] = [
        Self::RequestLine,
        Self::Target,
        Self::Connect,
        Self::LineEnd,
        Self::Field,
        Self::Folded,
        Self::Space,
        Self::Host,
        Self::Length,
        Self::Coding,
        Self::LengthAndCoding,
        Self::TooLarge,
        Self::TooSlow,
    ];

    /// The path of the request that stands for it.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::RequestLine => "/request-line",
            Self::Target => "/target",
            Self::Connect => "/connect",
            Self::LineEnd => "/line-end",
            Self::Field => "/field",
            Self::Folded => "/folded",
            Self::Space => "/space",
            Self::Host => "/host",
            Self::Length => "/length",
            Self::Coding => "/coding",
            Self::LengthAndCoding => "/length-and-coding",
            Self::TooLarge => "/too-large",
            Self::TooSlow => "/too-slow",
        }
    }

    pub(crate) fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.code() == code)
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::RequestLine
            | Self::Target
            | Self::LineEnd
            | Self::Field
            | Self::Folded
            | Self::Space
            | Self::Host
            | Self::Length
            | Self::Coding
            | Self::LengthAndCoding => StatusCode::BAD_REQUEST,
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// The head at the beginning of `bytes`: how long it is, and what it says; none if it is not whole yet.
pub(crate) fn whole(bytes: &[u8]) -> Result<Option<(usize, HeadShape)>, HeadError> {
    let Some(end) = end(bytes)? else { return Ok(None) };
    let head = bytes.get(..end).unwrap_or_default();
    Ok(Some((end, read(head)?)))
}

/// How long a head at the beginning of `bytes` is, with the empty line at its end; none if it is
/// not whole yet.
fn end(bytes: &[u8]) -> Result<Option<usize>, HeadError> {
    let mut start = 0;
    for at in memchr::memchr_iter(b'\n', bytes) {
        let line = bytes.get(start..at).and_then(|line| line.strip_suffix(b"\r"));
        if line.ok_or(HeadError::LineEnd)?.is_empty() {
            return Ok(Some(at + 1));
        }
        start = at + 1;
    }
    if bytes.len() > HEAD_MAX { Err(HeadError::TooLarge) } else { Ok(None) }
}

/// What a head says, that `end` found the end of.
fn read(head: &[u8]) -> Result<HeadShape, HeadError> {
    if head.len() > HEAD_MAX {
        return Err(HeadError::TooLarge);
    }
    let mut start = 0;
    // `end` saw that every LF has its CR.
    let mut lines = memchr::memchr_iter(b'\n', head)
        .map(|at| head.get(std::mem::replace(&mut start, at + 1)..at.saturating_sub(1)).unwrap_or_default());
    let is_http_11 = request_line(lines.next().unwrap_or_default())?;
    let mut fields = FramingFields::default();
    for (number, line) in lines.take_while(|line| !line.is_empty()).enumerate() {
        if number == FIELDS_MAX {
            return Err(HeadError::TooLarge);
        }
        fields.add(line)?;
    }
    fields.shape(is_http_11)
}

/// Whether it is HTTP/1.1 and not 1.0.
fn request_line(line: &[u8]) -> Result<bool, HeadError> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(HeadError::RequestLine);
    };
    let is_http_11 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(HeadError::RequestLine),
    };
    if !is_token(method) || method == REJECTED.as_bytes() {
        return Err(HeadError::RequestLine);
    }
    if method == b"CONNECT" {
        return Err(HeadError::Connect);
    }
    let is_absolute = [&b"http://"[..], b"https://"]
        .iter()
        .any(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let is_form = target.starts_with(b"/") || is_absolute || (target == b"*" && method == b"OPTIONS");
    // What hyper would refuse is refused here, where it gets an answer that says why and a line in the log.
    let is_read = (!is_absolute && is_usual_target(target)) || is_uri(target);
    if is_form && is_read { Ok(is_http_11) } else { Err(HeadError::Target) }
}

/// What needs a closer look: a URL, or a path with unusual bytes, which hyper's own reader must take.
fn is_uri(target: &[u8]) -> bool {
    // A fragment stays with the client; it would be cut off in silence.
    !target.contains(&b'#') && http::Uri::try_from(target).is_ok()
}

/// The fields that say where a request ends and whom it is for.
#[derive(Default)]
struct FramingFields {
    hosts: usize,
    length: Option<u64>,
    is_chunked: bool,
    has_upgrade: bool,
    /// What it wants to speak is HTTP, which it is answered in anyway.
    has_http_upgrade: bool,
    asks_upgrade: bool,
}

impl FramingFields {
    fn add(&mut self, line: &[u8]) -> Result<(), HeadError> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(HeadError::Folded);
        }
        let colon = memchr::memchr(b':', line).ok_or(HeadError::Field)?;
        let (name, value) = line.split_at_checked(colon).ok_or(HeadError::Field)?;
        let value = trim(value.get(1..).unwrap_or_default());
        let has_control = has_control(value);
        if has_control && value.contains(&b'\r') {
            return Err(HeadError::LineEnd);
        }
        if has_control || !is_token(name) {
            return Err(HeadError::Field);
        }
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts += 1;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = length(value).filter(|_| self.length.is_none() && !line.contains(&b'\t'));
            self.length = Some(length.ok_or(HeadError::Length)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.is_chunked || line.contains(&b'\t') || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(HeadError::Coding);
            }
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.has_upgrade = true;
            let mut elements = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            self.has_http_upgrade |= elements.any(is_http_protocol);
        } else if name.eq_ignore_ascii_case(b"connection") {
            let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            self.asks_upgrade |= options.any(|option| option.eq_ignore_ascii_case(b"upgrade"));
        }
        Ok(())
    }

    fn shape(self, is_http_11: bool) -> Result<HeadShape, HeadError> {
        let Self { hosts, length, is_chunked, has_upgrade, has_http_upgrade, asks_upgrade } = self;
        // HTTP/1.0 knew no Host.
        if hosts > 1 || (hosts == 0 && is_http_11) {
            return Err(HeadError::Host);
        }
        let framing = match (length, is_chunked) {
            (Some(_), true) => return Err(HeadError::LengthAndCoding),
            (None, true) if !is_http_11 => return Err(HeadError::Coding),
            (None, true) => Framing::Chunked,
            (length, false) => Framing::Length(length.unwrap_or(0)),
        };
        let has_body = framing != Framing::Length(0);
        let is_upgrade = has_upgrade && !has_http_upgrade && asks_upgrade && is_http_11 && !has_body;
        Ok(HeadShape { framing, is_upgrade })
    }
}

/// A length is digits alone: no sign, no list, nothing that overflows.
pub(crate) fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok().filter(|length| *length < u64::MAX / 2)
}

/// Without the spaces and tabs around it, and those alone: `trim_ascii` takes CR and form feed, too.
fn trim(value: &[u8]) -> &[u8] {
    value.get(trimmed(value)).unwrap_or_default()
}

/// Where that is.
pub(crate) fn trimmed(value: &[u8]) -> Range<usize> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    start..end
}

/// Whether a value has what no value may have. Without a way out of the loop, it looks at many
/// bytes at once.
fn has_control(value: &[u8]) -> bool {
    value.iter().fold(false, |found, byte| found | is_control(*byte))
}

/// The bytes that a token is made of, in lower case, and 0 for all others: every byte of every name
/// is looked up here.
static TOKEN_BYTES: [u8; 256] = letters_digits_and(b"!#$%&'*+-.^_`|~");

/// The bytes that a path and its query are made of nearly always, and 0 for all others; every reader
/// takes them anywhere.
static USUAL_TARGET: [u8; 256] = letters_digits_and(b"-._~!$&'()*+,;=:@%/?");

/// The bytes that names of hosts and IPv4 addresses are made of, and 0 for all others.
static HOST_BYTES: [u8; 256] = letters_digits_and(b".-_");

#[expect(clippy::indexing_slicing, clippy::as_conversions, reason = "it is run by the compiler")]
const fn letters_digits_and(others: &[u8]) -> [u8; 256] {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = others[at];
        at += 1;
    }
    table
}

fn lower(byte: u8) -> u8 {
    TOKEN_BYTES.get(usize::from(byte)).copied().unwrap_or(0)
}

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| lower(*byte) != 0)
}

/// Whether a target has only what every reader takes anywhere.
pub(crate) fn is_usual_target(target: &[u8]) -> bool {
    target.iter().all(|byte| USUAL_TARGET.get(usize::from(*byte)).is_some_and(|usual| *usual != 0))
}

/// How many bytes there are before the first that is in no name of a host.
pub(crate) fn host_name_length(host: &[u8]) -> usize {
    let is_odd = |byte: &u8| HOST_BYTES.get(usize::from(*byte)).is_none_or(|own| *own == 0);
    host.iter().position(is_odd).unwrap_or(host.len())
}

/// Eight bytes that are all the same.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Puts the token before a colon into lower case; how long it is, or none if there is no token or no colon.
pub(crate) fn lower_name(line: &mut [u8]) -> Option<usize> {
    let mut start = 0;
    // Eight at once, for as long as there are only letters, digits and dashes before the colon.
    while let Some(bytes) = line.get_mut(start..start + 8).and_then(|bytes| bytes.first_chunk_mut::<8>()) {
        let word = u64::from_le_bytes(*bytes);
        let no_colon = word ^ eight(b':');
        let colons = no_colon.wrapping_sub(eight(1)) & !no_colon & eight(0x80);
        // The bits of all bytes before the first colon.
        let before = colons.wrapping_sub(1) & !colons;
        let (letters, others) = (letters(word), digits_and_dashes(word));
        if !(letters | others) & before & eight(0x80) != 0 {
            break;
        }
        *bytes = (word | ((letters >> 2) & before)).to_le_bytes();
        if colons != 0 {
            let length = start + usize::try_from(colons.trailing_zeros() / 8).unwrap_or_default();
            return (length > 0).then_some(length);
        }
        start += 8;
    }
    let rest = line.get_mut(start..).unwrap_or_default();
    let length = start + lower_rest(rest)?;
    (length > 0).then_some(length)
}

/// The high bits of the bytes that are letters.
const fn letters(word: u64) -> u64 {
    // Without their high bits no byte carries over into the next one.
    let low = (word & !eight(0x80)) | eight(0x20);
    let from_a = low + eight(0x80 - b'a');
    let above_z = low + eight(0x80 - b'z' - 1);
    from_a & !above_z & !word & eight(0x80)
}

/// The same of digits and dashes.
const fn digits_and_dashes(word: u64) -> u64 {
    let low = word & !eight(0x80);
    let from_0 = low + eight(0x80 - b'0');
    let above_9 = low + eight(0x80 - b'9' - 1);
    let no_dash = (low ^ eight(b'-')) + eight(0x7f);
    ((from_0 & !above_9) | !no_dash) & !word & eight(0x80)
}

/// [`lower_name`] byte by byte: how many there are before a colon.
fn lower_rest(line: &mut [u8]) -> Option<usize> {
    for (length, byte) in line.iter_mut().enumerate() {
        if *byte == b':' {
            return Some(length);
        }
        let own = lower(*byte);
        if own == 0 {
            return None;
        }
        *byte = own;
    }
    None
}

/// How many bytes there are before the first that no value may have, which is the end of its line at the latest.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let mut length: usize = 0;
    // Eight at once: the first byte whose high bit is set is below a space, or DEL.
    for eight in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let no_del = word ^ (ONES * 0x7f);
        let del = no_del.wrapping_sub(ONES) & !no_del;
        let found = (below | del) & HIGH;
        if found != 0 {
            length += usize::try_from(found.trailing_zeros() / 8).unwrap_or_default();
            break;
        }
        length += 8;
    }
    // It may be a tab, or among the last few.
    let rest = bytes.get(length..).unwrap_or_default();
    length + rest.iter().position(|byte| is_control(*byte)).unwrap_or(rest.len())
}

/// What no value may have.
const fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\t' || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_the_first_control_character_wherever_that_is() {
        let mut random = fastrand::Rng::with_seed(1309);
        let odd = [0, 9, 10, 13, 0x1f, b' ', b'~', 0x7f, 0x80, 0x9f, 0xff];
        for _ in 0..20_000 {
            let mut bytes = vec![b'a'; random.usize(..40)];
            for _ in 0..random.usize(..4).min(bytes.len()) {
                let at = random.usize(..bytes.len());
                bytes[at] = odd[random.usize(..odd.len())];
            }
            let expected = bytes.iter().position(|byte| has_control(&[*byte])).unwrap_or(bytes.len());
            assert_eq!(text_length(&bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_name_is_read_alike_in_words_and_byte_by_byte() {
        let mut random = fastrand::Rng::with_seed(7230);
        let odd = b"AZaz09-_:@[`{/: \x00\x2e\x7f\x80\xad\xba\xff!~";
        for _ in 0..50_000 {
            let mut bytes = vec![b'x'; random.usize(..28)];
            for _ in 0..random.usize(..6).min(bytes.len()) {
                let at = random.usize(..bytes.len());
                bytes[at] = odd[random.usize(..odd.len())];
            }
            let (mut words, mut single) = (bytes.clone(), bytes.clone());
            let expected = lower_rest(&mut single).filter(|length| *length > 0);
            assert_eq!(lower_name(&mut words), expected, "{}", bytes.escape_ascii());
            if expected.is_some() {
                assert_eq!(words, single, "{}", bytes.escape_ascii());
            }
        }
    }

    fn shape(head: &str) -> Result<HeadShape, HeadError> {
        let end = end(head.as_bytes())?.expect("a whole head");
        read(&head.as_bytes()[..end])
    }

    /// hyper answers what it cannot read with a bare 400 that no log has.
    #[test]
    fn every_target_that_passes_is_one_that_hyper_reads() {
        let (mut passed, mut refused) = (0, 0);
        for byte in 0..=u8::MAX {
            for around in ["/{}", "/a?{}", "http://h/{}", "http://h{}/", "http://{}", "*{}", "{}"] {
                let (before, after) = around.split_once("{}").unwrap();
                let target = [before.as_bytes(), &[byte], after.as_bytes()].concat();
                let line = [b"OPTIONS ", &target[..], b" HTTP/1.1"].concat();
                match request_line(&line) {
                    Ok(_) => {
                        passed += 1;
                        assert!(http::Uri::try_from(&target[..]).is_ok(), "{target:?}");
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(passed > 250 && refused > 250, "{passed} and {refused}");
        for target in ["/\u{e4}", "/{a}", "/a|b^c", "//x", "http://[::1]:8/", "http://h"] {
            assert_eq!(request_line(format!("GET {target} HTTP/1.1").as_bytes()), Ok(true), "{target}");
        }
        for target in ["/<script>", "/`id`", "http://", "http://[::1/", "/a#b", "http://h/#b"] {
            let line = format!("GET {target} HTTP/1.1");
            assert_eq!(request_line(line.as_bytes()), Err(HeadError::Target), "{target}");
        }
    }

    #[test]
    fn ordinary_heads_say_how_long_their_body_is() {
        let plain = HeadShape { framing: Framing::Length(0), is_upgrade: false };
        for (head, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", plain),
            ("GET / HTTP/1.0\r\n\r\n", plain),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", plain),
            ("GET HTTP://b/?q HTTP/1.1\r\nhost:a\r\nX-Empty:\r\n\r\n", plain),
            (
                "POST /\u{e4} HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n",
                HeadShape { framing: Framing::Length(12), ..plain },
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n",
                HeadShape { framing: Framing::Chunked, ..plain },
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
                HeadShape { is_upgrade: true, ..plain },
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: a, H2C\r\n\r\n",
                plain,
            ),
        ] {
            assert_eq!(shape(head), Ok(expected), "{head}");
        }
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None), "not whole");
    }

    #[test]
    fn what_two_programs_could_read_differently_is_refused() {
        let host = "Host: a\r\n";
        for (head, expected) in [
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadError::RequestLine),
            ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned(), HeadError::RequestLine),
            ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadError::RequestLine),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), HeadError::RequestLine),
            (format!("{REJECTED} /host HTTP/1.0\r\n\r\n"), HeadError::RequestLine),
            ("GET a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadError::Target),
            ("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadError::Target),
            ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadError::Target),
            ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), HeadError::Connect),
            ("GET / HTTP/1.1\nHost: a\r\n\r\n".to_owned(), HeadError::LineEnd),
            ("GET / HTTP/1.1\r\nHost: a\r\nA: b\rC: d\r\n\r\n".to_owned(), HeadError::LineEnd),
            (format!("GET / HTTP/1.1\r\n{host} b: c\r\n\r\n"), HeadError::Folded),
            (format!("GET / HTTP/1.1\r\n{host}B : c\r\n\r\n"), HeadError::Field),
            (format!("GET / HTTP/1.1\r\n{host}: c\r\n\r\n"), HeadError::Field),
            (format!("GET / HTTP/1.1\r\n{host}B\r\n\r\n"), HeadError::Field),
            (format!("GET / HTTP/1.1\r\n{host}B: \0\r\n\r\n"), HeadError::Field),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), HeadError::Host),
            (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), HeadError::Host),
            (
                format!("GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
                HeadError::Length,
            ),
            (
                format!("GET / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
                HeadError::Length,
            ),
            (format!("GET / HTTP/1.1\r\n{host}Content-Length: +1\r\n\r\n"), HeadError::Length),
            (format!("GET / HTTP/1.1\r\n{host}Content-Length: 1, 1\r\n\r\n"), HeadError::Length),
            (format!("GET / HTTP/1.1\r\n{host}Content-Length: 0x1\r\n\r\n"), HeadError::Length),
            (
                format!("GET / HTTP/1.1\r\n{host}Content-Length: 18446744073709551616\r\n\r\n"),
                HeadError::Length,
            ),
            (format!("GET / HTTP/1.1\r\n{host}Content-Length:\r\n\r\n"), HeadError::Length),
            (format!("GET / HTTP/1.1\r\n{host}Content-Length: 1\t\r\n\r\n"), HeadError::Length),
            (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding:\tchunked\r\n\r\n"), HeadError::Coding),
            (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: \x0cchunked\r\n\r\n"), HeadError::Field),
            (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\r\n\r\n"), HeadError::LineEnd),
            (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n"), HeadError::Coding),
            (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n"), HeadError::Coding),
            (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: \"chunked\"\r\n\r\n"), HeadError::Coding),
            (
                format!(
                    "GET / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"
                ),
                HeadError::Coding,
            ),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), HeadError::Coding),
            (
                format!("POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
                HeadError::LengthAndCoding,
            ),
            (
                format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
                HeadError::LengthAndCoding,
            ),
            (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "a: b\r\n".repeat(FIELDS_MAX)), HeadError::TooLarge),
        ] {
            assert_eq!(shape(&head), Err(expected), "{head}");
        }
        assert_eq!(end(&[b'a'; HEAD_MAX + 1]), Err(HeadError::TooLarge));
    }

    #[test]
    fn a_code_stands_for_one_error() {
        for error in HeadError::ALL {
            assert_eq!(HeadError::from_code(error.code()), Some(error));
        }
    }
}
