//! The IETF's `RateLimit` and `RateLimit-Policy`, in the form of draft 11.
//!
//! A policy is a rule: its name, `q` for what it lets through at once, and `w`
//! for the seconds in which that comes back. `RateLimit` tells what is left of
//! each (`r`) and for how long to make do with it (`t`).
//!
//! Invariants: both fields are structured fields (RFC 9651); a refusal lists
//! no policy whose `t` is later than `Retry-After`; both are short, whatever
//! the rules are called and however many there are.
//!
//! Deliberately not here: the forms of older drafts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use smallvec::SmallVec;
use tollgate_core::{Micros, Verdict};
use tollgate_limiter::RuleDecision;

use super::problem::explained;
use super::{CallerView, HeaderSink, POLICY, RATELIMIT};

/// More policies than this are not told; then it is the tightest alone, which
/// the draft allows. A caller can hardly make use of more.
const POLICIES_MAX: usize = 8;
/// Characters of a policy's name; a longer one is cut.
const NAME_MAX: usize = 128;
/// Bytes of a partition key; a longer one is left out.
const PARTITION_MAX: usize = 96;
/// Most replies are about no more decisions than this.
const DECISIONS_USUAL: usize = 4;
/// What stands between the values of a partition key.
const UNIT_SEPARATOR: u8 = 0x1f;
/// The parameter of what is left.
const LEFT: &str = ";r=";
/// The parameter of how long to make do with it.
pub(super) const FOR_SECONDS: &str = ";t=";
/// The name of a limit that came with the request.
const BROUGHT: &str = "request";

/// `RateLimit-Policy` and `RateLimit`.
pub(super) fn draft_11(view: &CallerView<'_>, headers: &mut impl HeaderSink) {
    let listed = listed(view);
    if listed.is_empty() {
        return;
    }
    let list = |out: &mut Vec<u8>, parameters: fn(&mut Vec<u8>, &RuleDecision)| {
        for (place, decision) in listed.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(b", ");
            }
            name(out, view.name_of(decision));
            parameters(out, decision);
            if view.settings.partition_keys {
                partition(out, view, decision);
            }
        }
    };
    headers.written(POLICY, &|out| list(out, policy));
    headers.written(RATELIMIT, &|out| list(out, available));
}

/// The policy of a decision that is told alone, without a partition key.
pub(super) fn start_of_policy(out: &mut Vec<u8>, view: &CallerView<'_>, decision: &RuleDecision) {
    name(out, view.name_of(decision));
    policy(out, decision);
}

/// What is left of it, up to the number.
pub(super) fn start_of_available(out: &mut Vec<u8>, view: &CallerView<'_>, decision: &RuleDecision) {
    name(out, view.name_of(decision));
    out.extend_from_slice(LEFT.as_bytes());
}

/// The decisions to list: one for each rule, the tightest of it.
fn listed<'a>(view: &CallerView<'a>) -> SmallVec<[&'a RuleDecision; DECISIONS_USUAL]> {
    let is_late = |decision: &RuleDecision| match (decision.verdict, view.reply.verdict) {
        (Verdict::Deny { retry_after: Some(one) }, Verdict::Deny { retry_after: Some(all) }) => one > all,
        (Verdict::Deny { retry_after: None }, Verdict::Deny { retry_after: Some(_) }) => true,
        _ => false,
    };
    let mut listed: SmallVec<[&RuleDecision; DECISIONS_USUAL]> = SmallVec::new();
    for decision in view.reply.told().filter(|decision| !is_late(decision)) {
        let same = |other: &&mut &RuleDecision| {
            (other.rule, other.count, other.window) == (decision.rule, decision.count, decision.window)
        };
        if let Some(other) = listed.iter_mut().find(same) {
            if other.remaining > decision.remaining {
                *other = decision;
            }
        } else if listed.len() == POLICIES_MAX {
            return explained(view).into_iter().collect();
        } else {
            listed.push(decision);
        }
    }
    listed
}

/// A String of RFC 9651: printable ASCII in quotes. What it cannot hold is
/// written as in a URL.
fn name(out: &mut Vec<u8>, name: &str) {
    let name = name.as_bytes().get(..NAME_MAX).unwrap_or(name.as_bytes());
    out.push(b'"');
    // Without a way out of the loop, it looks at many letters at once.
    let is_odd = |found, byte: &u8| found | !matches!(byte, b' '..=b'~') | matches!(byte, b'"' | b'\\');
    if !name.iter().fold(false, is_odd) {
        out.extend_from_slice(name);
    } else {
        for byte in name {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                b' '..=b'~' => out.push(*byte),
                _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
    }
    out.push(b'"');
}

/// What fits at once, and the seconds in which it comes back.
fn policy(out: &mut Vec<u8>, decision: &RuleDecision) {
    let window = u128::from(decision.window.get());
    let back_us = match (decision.count, decision.limit) {
        (0, _) | (_, 0) => window,
        // Nearly every limit; a division of 128 bits takes long.
        (count, limit) if u64::from(count) == limit => window,
        (count, limit) => window * u128::from(limit) / u128::from(count),
    };
    let seconds = Micros::new(u64::try_from(back_us).unwrap_or(u64::MAX)).as_secs_ceil();
    parameter(out, ";q=", decision.limit);
    parameter(out, ";w=", seconds.max(1));
}

/// What is left, and for how long.
fn available(out: &mut Vec<u8>, decision: &RuleDecision) {
    parameter(out, LEFT, decision.remaining);
    let span = match decision.verdict {
        Verdict::Deny { retry_after } => retry_after,
        Verdict::Allow | Verdict::Delay { .. } => Some(decision.reset_after),
    };
    if let Some(span) = span {
        parameter(out, FOR_SECONDS, span.as_secs_ceil());
    }
}

/// Which counter it is: the values that the request was counted by.
fn partition(out: &mut Vec<u8>, view: &CallerView<'_>, decision: &RuleDecision) {
    let Some(descriptor) = view.request.descriptors.get(decision.descriptor) else { return };
    let mut key: Vec<u8> = Vec::new();
    for (index, entry) in descriptor.entries.iter().enumerate() {
        if index > 0 {
            key.push(UNIT_SEPARATOR);
        }
        key.extend_from_slice(entry.value.as_bytes());
        if key.len() > PARTITION_MAX {
            return;
        }
    }
    for part in [";pk=:", &BASE64_STANDARD.encode(&key), ":"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// A number, without the machinery of formatting: every request that passes has some.
fn parameter(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

impl<'a> CallerView<'a> {
    /// What the rule of a decision is called.
    pub(super) fn name_of(&self, decision: &RuleDecision) -> &'a str {
        match (self.reply.rule(decision), decision.exception) {
            (Some(rule), _) => rule.name(),
            (None, Some(exception)) => exception.reason(),
            (None, None) => BROUGHT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_always_a_string_of_rfc_9651() {
        let written = |text: &str| {
            let mut out = Vec::new();
            name(&mut out, text);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("burst"), r#""burst""#);
        assert_eq!(written(r#"a "b" \c"#), r#""a \"b\" \\c""#);
        assert_eq!(written("grün\r\n"), r#""gr%C3%BCn%0D%0A""#);
        assert_eq!(written(&"x".repeat(1_000)).len(), NAME_MAX + 2);
    }
}
