//! The body of a refusal: `application/problem+json` (RFC 9457), of the type
//! that the IETF's draft on rate limits registers.

use std::cmp::Reverse;

use http::StatusCode;
use serde::Serialize;
use tollgate_core::{Micros, OnStoreError, Rule, Verdict};
use tollgate_limiter::{Exception, RuleDecision};

use super::CallerView;
use crate::request::mapping::MappingDenial;

/// The type of such bodies.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The kind of problem: a limit is used up.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// Its title.
const TITLE: &str = "Quota exceeded";
/// The kind of a denial that is about no quota, so that nothing comes back by waiting.
const NO_QUOTA: &str = "about:blank";
/// The title that goes with it.
const NO_QUOTA_TITLE: &str = "Too Many Requests";
/// Most bodies are no larger.
const USUAL_BYTES: usize = 384;
/// Most sentences are no longer, without the name of the limit.
const USUAL_DETAIL_BYTES: usize = 96;
/// More names than this are not told; the request has met enough by then.
const NAMES_MAX: usize = 64;

/// The body of a refusal.
#[derive(Debug, Clone, Serialize)]
pub struct QuotaProblem {
    /// The kind of problem.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// The status that it is answered with.
    pub status: u16,
    /// The operator's message, or else the numbers of the limit.
    pub detail: String,
    /// The names of the rules that refuse.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<String>,
    /// When the same request would pass; none if it never would.
    pub retry_after_ms: Option<u64>,
    /// Why it is denied, if there is more to say than that a limit is used up: `penalty` if the
    /// caller was denied so often that it is blocked, `deny_list` if a list has it, `override` if an
    /// operator denies it, `max_wait` if it would have to wait for longer than requests are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

impl QuotaProblem {
    pub(super) fn new(view: &CallerView<'_>, status: u16) -> Self {
        let retry_after = match view.reply.verdict {
            Verdict::Deny { retry_after } => retry_after,
            Verdict::Allow | Verdict::Delay { .. } => None,
        };
        let mut violated_policies: Vec<String> = Vec::new();
        for name in view.reply.told().map(|decision| view.name_of(decision)).take(NAMES_MAX) {
            if !violated_policies.iter().any(|known| known == name) {
                violated_policies.push(name.to_owned());
            }
        }
        let exception = view.reply.exception();
        let (kind, title) = match exception {
            None => (QUOTA_EXCEEDED, TITLE),
            Some(_) => (NO_QUOTA, NO_QUOTA_TITLE),
        };
        Self {
            kind,
            title,
            status,
            detail: detail(view),
            violated_policies,
            retry_after_ms: retry_after.map(|span| span.as_millis_ceil()),
            reason: explained(view).and_then(RuleDecision::reason),
        }
    }

    /// The body of a denial by a limit that is not a rule's.
    pub(crate) fn of_level(level: &str, detail: &str, retry_after: Micros) -> Self {
        Self {
            kind: QUOTA_EXCEEDED,
            title: TITLE,
            status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
            detail: detail.to_owned(),
            violated_policies: vec![level.to_owned()],
            retry_after_ms: Some(retry_after.as_millis_ceil()),
            reason: None,
        }
    }

    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(USUAL_BYTES);
        self.write(&mut out);
        out
    }

    /// Appends the bytes to send.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_before_wait(out);
        match self.retry_after_ms {
            Some(millis) => put_number(out, "", millis),
            None => out.extend_from_slice(b"null"),
        }
        if let Some(reason) = self.reason {
            put_text(out, ",\"reason\":", reason);
        }
        out.push(b'}');
    }

    /// Appends them up to the value of `retry_after_ms`.
    pub(super) fn write_before_wait(&self, out: &mut Vec<u8>) {
        let Self { kind, title, status, detail, violated_policies, .. } = self;
        // Words of our own, which need no look at each letter.
        for part in ["{\"type\":\"", kind, "\",\"title\":\"", title, "\",\"status\":"] {
            out.extend_from_slice(part.as_bytes());
        }
        put_number(out, "", u64::from(*status));
        put_text(out, ",\"detail\":", detail);
        out.extend_from_slice(b",\"violated-policies\":[");
        for (place, name) in violated_policies.iter().enumerate() {
            put_text(out, if place > 0 { "," } else { "" }, name);
        }
        out.extend_from_slice(b"],\"retry_after_ms\":");
    }
}

/// A field that is a text. Hardly any has what must be escaped, and every denial has some of them.
fn put_text(out: &mut Vec<u8>, before: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    // Without a way out of the loop, it looks at many letters at once.
    let is_escaped = |found, byte| found | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, is_escaped) {
        return serde_json::to_writer(out, text).expect("a text is always JSON");
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn put_number(out: &mut Vec<u8>, before: &str, number: u64) {
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The body of a refusal that no limit decides.
#[derive(Debug, Serialize)]
struct RefusalProblem<'a> {
    title: &'a str,
    status: u16,
    detail: String,
    fix: &'a str,
}

impl MappingDenial {
    /// The body to answer with, of the type [`PROBLEM_JSON`].
    pub fn problem(&self) -> Vec<u8> {
        let status = self.status();
        let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let (title, detail) = (title.unwrap_or_default(), self.to_string());
        serde_json::to_vec(&RefusalProblem { title, status, detail, fix: self.fix() })
            .expect("texts and numbers are always JSON")
    }
}

/// The decision to explain a reply by. Of a denial it is one of those that deny;
/// the wait may be that of another limit, which would have let the request pass.
pub(super) fn explained<'a>(view: &CallerView<'a>) -> Option<&'a RuleDecision> {
    let reply = view.reply;
    let binding = reply.binding();
    if !reply.verdict.is_deny() || binding.is_some_and(|decision| reply.is_denied_by(decision)) {
        return binding;
    }
    reply.told().min_by_key(|decision| Reverse(decision.verdict.blocked_for()))
}

fn detail(view: &CallerView<'_>) -> String {
    let Some(chosen) = explained(view) else { return TITLE.to_owned() };
    if let Some(rule) = view.reply.rule(chosen)
        && !rule.message.is_empty()
    {
        return rule.message.clone();
    }
    match chosen.exception {
        Some(Exception::DenyList) => {
            return "this caller is on a deny list; waiting does not help".to_owned();
        }
        Some(Exception::Override) => return "an operator denies this caller for now".to_owned(),
        None => {}
    }
    let (name, count, window) = (view.name_of(chosen), chosen.count, chosen.window);
    match chosen.verdict {
        _ if chosen.is_blocked => {
            let text =
                format!("blocked by the penalty of the limit '{name}', which denied too many requests");
            with_retry(text, view)
        }
        Verdict::Deny { .. } if is_for_want_of_store(view, chosen) => {
            let text = format!(
                "the limit '{name}' of {count} per {window} denies everything while its store cannot be asked"
            );
            with_retry(text, view)
        }
        Verdict::Deny { retry_after: None } if chosen.limit == 0 => {
            format!("the limit '{name}' lets nothing through")
        }
        Verdict::Deny { retry_after: None } => format!(
            "a cost of {} is more than the limit '{name}' of {count} per {window} ever lets through; send less",
            chosen.cost
        ),
        // Each of its charges would fit, but not all of them at once.
        Verdict::Deny { .. } if view.reply.verdict == (Verdict::Deny { retry_after: None }) => format!(
            "this request takes more at once than the limit '{name}' of {count} per {window} ever lets through; \
             send less"
        ),
        Verdict::Deny { .. } | Verdict::Allow | Verdict::Delay { .. } => {
            with_retry(state(name, chosen), view)
        }
    }
}

/// Whether a limit denies only because its counters cannot be read.
fn is_for_want_of_store(view: &CallerView<'_>, decision: &RuleDecision) -> bool {
    let denies = |rule: &Rule| rule.limit.on_store_error() == OnStoreError::Deny;
    decision.degraded && view.reply.rule(decision).is_some_and(denies)
}

/// What is left of a limit. Nearly every denial says this, so that it does without formatting.
fn state(name: &str, decision: &RuleDecision) -> String {
    let (mut text, mut digits) =
        (String::with_capacity(USUAL_DETAIL_BYTES + name.len()), itoa::Buffer::new());
    for part in ["the limit '", name, "' of ", digits.format(decision.count), " per "] {
        text.push_str(part);
    }
    match decision.window.whole_unit() {
        Some((count, unit)) => {
            text.push_str(digits.format(count));
            text.push_str(unit);
        }
        None => text.push_str(&decision.window.to_string()),
    }
    match (decision.remaining, decision.cost) {
        (left @ 1.., cost) if cost > left => {
            text.push_str(" has ");
            text.push_str(digits.format(left));
            text.push_str(" left and this takes ");
            text.push_str(digits.format(cost));
        }
        _ if decision.is_wait_too_long => {
            text.push_str(" has a line in which this would wait longer than requests are held");
        }
        _ => text.push_str(" is used up"),
    }
    text
}

fn with_retry(mut text: String, view: &CallerView<'_>) -> String {
    if let Some(seconds) = view.retry_after_s {
        for part in ["; try again in ", itoa::Buffer::new().format(seconds), " s"] {
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_serde_makes_of_it() {
        let plain = QuotaProblem {
            kind: QUOTA_EXCEEDED,
            title: TITLE,
            status: 429,
            detail: "the limit 'a' of 1 per 1h is used up".to_owned(),
            violated_policies: vec!["a".to_owned(), "b".to_owned()],
            retry_after_ms: Some(u64::MAX),
            reason: None,
        };
        let odd = QuotaProblem {
            detail: "\"q\" \\ \u{0}\u{7}\u{8}\u{c}\n\r\t\u{1f}\u{7f} \u{fc}\u{1f600}".to_owned(),
            violated_policies: vec!["\n".to_owned()],
            retry_after_ms: None,
            reason: Some("penalty"),
            ..plain.clone()
        };
        let none = QuotaProblem { violated_policies: Vec::new(), ..plain.clone() };
        for problem in [plain, odd, none] {
            let (own, serde) = (problem.to_bytes(), serde_json::to_vec(&problem).unwrap());
            assert_eq!(String::from_utf8_lossy(&own), String::from_utf8_lossy(&serde));
        }
    }
}
