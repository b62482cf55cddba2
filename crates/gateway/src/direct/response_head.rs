//! The head of an answer: what the upstream says, as the client gets it, and answers of our own.
//!
//! Read by httparse, as hyper does, and framed by the same rules.
//!
//! Invariant: hyper would write the same lines.

use std::mem::MaybeUninit;
use std::time::Duration;

use http::StatusCode;
use httparse::{Header, ParserConfig, Status};
use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::Time;
use tollgate_http::response::PROBLEM_JSON;

use super::outgoing_head::line;
use super::relay::BodyFraming;
use super::told_lines::ToldLines;
use super::{buffers, date};
use crate::bounds::{FIELDS_MAX, UPSTREAM_HEAD_MAX};
use crate::fields::{is_hop_by_hop, is_kept, strict_length};
use crate::forward::idle_time;

/// What an upstream's head says about what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UpstreamHead {
    pub(super) status: StatusCode,
    /// Bytes of the head.
    pub(super) length: usize,
    pub(super) framing: BodyFraming,
    /// The connection can have another request afterwards,
    pub(super) is_reusable: bool,
    /// within this time.
    pub(super) idle: Duration,
}

/// The head is none, or can be read in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadHead;

/// What the client is told besides.
pub(super) struct Additions<'a> {
    /// About its limits, instead of what the upstream says about others.
    pub(super) told: &'a ToldLines,
    /// The connection ends with this answer.
    pub(super) is_last: bool,
    /// The calendar, which is only asked where the upstream says no date.
    pub(super) calendar: &'a (dyn Fn() -> Time + Sync),
}

/// What a head says about its connection and its body.
#[derive(Default)]
struct FramingFields<'b> {
    is_http_11: bool,
    is_chunked: bool,
    has_coding: bool,
    length: Option<u64>,
    closes: bool,
    keeps: bool,
    /// What it says about how long.
    keep_alive: SmallVec<[&'b [u8]; 1]>,
    /// Fields that are about the connection alone.
    named: SmallVec<[&'b [u8]; 2]>,
}

impl<'b> FramingFields<'b> {
    fn read(is_http_11: bool, fields: &[Header<'b>]) -> Result<Self, BadHead> {
        let mut found = Self { is_http_11, ..Self::default() };
        for Header { name, value } in fields {
            if name.eq_ignore_ascii_case("content-length") {
                let length = strict_length(value).ok_or(BadHead)?;
                if found.length.is_some_and(|other| other != length) {
                    return Err(BadHead);
                }
                found.length = Some(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                // Nobody asked for another coding, and the client would take its bytes for those of the answer.
                found.is_chunked = !found.has_coding && value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                found.has_coding = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    found.closes |= option.eq_ignore_ascii_case(b"close");
                    found.keeps |= option.eq_ignore_ascii_case(b"keep-alive");
                    found.named.push(option);
                }
            } else if name.eq_ignore_ascii_case("keep-alive") {
                found.keep_alive.push(value);
            }
        }
        Ok(found)
    }

    fn framing(&self, has_body: bool) -> Result<BodyFraming, BadHead> {
        match (self.has_coding, self.length) {
            _ if !has_body => Ok(BodyFraming::Length(0)),
            (true, Some(_)) => Err(BadHead),
            (true, None) if !self.is_http_11 || !self.is_chunked => Err(BadHead),
            (true, None) => Ok(BodyFraming::Chunked),
            (false, Some(length)) => Ok(BodyFraming::Length(length)),
            (false, None) => Ok(BodyFraming::UntilClosed),
        }
    }
}

/// Passes the head at the beginning of `bytes` on; none if it is not whole yet. One with a status
/// below 200 is read and not passed on.
pub(super) fn pass_on(
    bytes: &[u8],
    is_head_request: bool,
    additions: &Additions<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<UpstreamHead>, BadHead> {
    // To fill in a hundred empty fields took longer than to read the few that there are.
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    let Status::Complete(length) = parsed.map_err(|_| BadHead)? else { return Ok(None) };
    if length > UPSTREAM_HEAD_MAX {
        return Err(BadHead);
    }
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(BadHead)?;
    let is_http_11 = response.version == Some(1);
    let found = FramingFields::read(is_http_11, response.headers)?;
    let is_empty = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = found.framing(!is_head_request && !is_empty)?;
    let is_reusable = !found.closes && (is_http_11 || found.keeps) && framing != BodyFraming::UntilClosed;
    let idle = idle_time(found.keep_alive.iter().copied());
    let head = UpstreamHead { status, length, framing, is_reusable, idle };
    if status.is_informational() {
        return Ok(Some(head));
    }
    out.reserve(length + additions.told.limits().len() + OWN_BYTES);
    // Part by part: what has a length that the compiler knows is copied without a call.
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(response.reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    let (mut has_date, mut has_length) = (false, false);
    for Header { name, value } in response.headers.iter() {
        let is_told = |name: &[u8]| {
            name.starts_with(b"x-ratelimit-")
                || matches!(name, b"retry-after" | b"ratelimit" | b"ratelimit-policy")
        };
        let start = out.len();
        out.extend_from_slice(name.as_bytes());
        let own = out.get_mut(start..).unwrap_or_default();
        own.make_ascii_lowercase();
        let is_named = || found.named.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes()));
        let stays = is_hop_by_hop(own)
            || (*own == *b"content-length" && (has_length || is_empty))
            || (!found.named.is_empty() && is_named() && !is_kept(own))
            || (is_told(own) && additions.told.has(own));
        if stays {
            out.truncate(start);
            continue;
        }
        has_date |= *own == *b"date";
        has_length |= *own == *b"content-length";
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(additions.told.limits());
    if matches!(framing, BodyFraming::Chunked | BodyFraming::UntilClosed) {
        line(out, b"transfer-encoding", &[b"chunked"]);
    }
    additions.end(has_date, out);
    Ok(Some(head))
}

/// Bytes that we add to a head, besides what is told.
const OWN_BYTES: usize = 128;

impl Additions<'_> {
    fn end(&self, has_date: bool, out: &mut Vec<u8>) {
        if self.is_last {
            line(out, b"connection", &[b"close"]);
        }
        match has_date {
            true => out.extend_from_slice(b"\r\n"),
            false => date::end_head(out, Instant::now(), self.calendar),
        }
    }
}

/// The beginning of a denial, which is what we answer most.
const DENIAL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\n";
/// What follows the lines about limits.
const VERDICT_AND_LENGTH: &[u8] = b"x-tollgate-verdict: deny\r\ncontent-length: ";

/// An answer of our own: a problem.
pub(super) struct OwnAnswer<'a> {
    /// What was decided is told with a 429.
    pub(super) status: StatusCode,
    /// Lines about limits.
    pub(super) told: &'a [u8],
    /// The body, in parts.
    pub(super) body: [&'a [u8]; 3],
}

/// Who writes them.
pub(super) struct OwnAnswers<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// The connection ends with this answer.
    pub(super) is_last: bool,
    /// The request was a HEAD: bodies are only told of, by their length.
    pub(super) is_head_request: bool,
    pub(super) calendar: &'a (dyn Fn() -> Time + Sync),
    /// When the last one was written, for whoever wants to know the time, too.
    pub(super) written_at: &'a mut Option<Instant>,
}

impl OwnAnswers<'_> {
    /// Writes one; how many bytes its body has on the wire.
    pub(super) fn write(&mut self, answer: &OwnAnswer<'_>) -> usize {
        let OwnAnswer { status, told, body } = answer;
        let out = &mut *self.out;
        if out.capacity() == 0 {
            *out = buffers::take();
        }
        let length: usize = body.iter().map(|part| part.len()).sum();
        out.reserve(length + told.len() + 2 * OWN_BYTES);
        if *status == StatusCode::TOO_MANY_REQUESTS {
            out.extend_from_slice(DENIAL);
            out.extend_from_slice(told);
            out.extend_from_slice(VERDICT_AND_LENGTH);
        } else {
            let reason = status.canonical_reason().unwrap_or_default();
            for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
            line(out, b"content-type", &[PROBLEM_JSON.as_bytes()]);
            out.extend_from_slice(told);
            out.extend_from_slice(b"content-length: ");
        }
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n");
        if self.is_last {
            line(out, b"connection", &[b"close"]);
        }
        let now = *self.written_at.insert(Instant::now());
        date::end_head(out, now, self.calendar);
        if self.is_head_request {
            return 0;
        }
        for part in body {
            out.extend_from_slice(part);
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Verdict;
    use tollgate_http::response::VERDICT;

    use super::*;

    #[test]
    fn a_denial_begins_as_every_other_answer() {
        let reason = StatusCode::TOO_MANY_REQUESTS.canonical_reason().unwrap();
        let written = format!("HTTP/1.1 429 {reason}\r\ncontent-type: {PROBLEM_JSON}\r\n");
        assert_eq!(written.as_bytes(), DENIAL);
        let verdict = Verdict::Deny { retry_after: None }.word();
        assert_eq!(format!("{VERDICT}: {verdict}\r\ncontent-length: ").as_bytes(), VERDICT_AND_LENGTH);
    }
}
