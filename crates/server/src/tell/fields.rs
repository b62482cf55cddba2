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

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::HeaderValue;
use smallvec::SmallVec;
use tollgate_core::{Micros, Verdict};
use tollgate_limiter::Ruling;

use super::{RULINGS_USUAL, Told};

/// More policies than this are not told; then it is the tightest alone, which
/// the draft allows. A caller can hardly make use of more.
const POLICIES_MAX: usize = 8;
/// Characters of a policy's name; a longer one is cut.
const NAME_MAX: usize = 128;
/// Bytes of a partition key; a longer one is left out.
const PARTITION_MAX: usize = 96;
/// What stands between the values of a partition key.
const UNIT_SEPARATOR: u8 = 0x1f;
/// The name of a limit that came with the request.
const BROUGHT: &str = "request";

/// `RateLimit-Policy` and `RateLimit`.
pub(super) fn draft_11(told: &Told<'_>) -> [Option<HeaderValue>; 2] {
    let listed = listed(told);
    if listed.is_empty() {
        return [None, None];
    }
    let (mut policies, mut left) = (String::with_capacity(64), String::with_capacity(64));
    for ruling in &listed {
        if !policies.is_empty() {
            policies.push_str(", ");
            left.push_str(", ");
        }
        let from = policies.len();
        name(&mut policies, told.name_of(ruling));
        left.push_str(policies.get(from..).unwrap_or_default());
        policy(&mut policies, ruling);
        available(&mut left, ruling);
        if told.telling.partition_keys {
            partition(&mut policies, &mut left, told, ruling);
        }
    }
    [HeaderValue::try_from(policies).ok(), HeaderValue::try_from(left).ok()]
}

/// The rulings to list: one for each rule, the tightest of it.
fn listed<'a>(told: &Told<'a>) -> SmallVec<[&'a Ruling; RULINGS_USUAL]> {
    let is_late = |ruling: &Ruling| match (ruling.decision.verdict, told.answer.reply.verdict) {
        (Verdict::Deny { retry_after: Some(one) }, Verdict::Deny { retry_after: Some(all) }) => one > all,
        (Verdict::Deny { retry_after: None }, Verdict::Deny { retry_after: Some(_) }) => true,
        _ => false,
    };
    let mut listed: SmallVec<[&Ruling; RULINGS_USUAL]> = SmallVec::new();
    for &ruling in told.rulings.iter().filter(|ruling| !(told.answer.is_refused && is_late(ruling))) {
        let same = |other: &&mut &Ruling| {
            (other.rule, other.count, other.window) == (ruling.rule, ruling.count, ruling.window)
        };
        if let Some(other) = listed.iter_mut().find(same) {
            if other.decision.remaining > ruling.decision.remaining {
                *other = ruling;
            }
        } else if listed.len() == POLICIES_MAX {
            return told.chosen.into_iter().collect();
        } else {
            listed.push(ruling);
        }
    }
    listed
}

/// A String of RFC 9651: printable ASCII in quotes. What it cannot hold is
/// written as in a URL.
fn name(out: &mut String, name: &str) {
    out.push('"');
    for byte in name.bytes().take(NAME_MAX) {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => put(out, format_args!("%{byte:02X}")),
        }
    }
    out.push('"');
}

/// What fits at once, and the seconds in which it comes back.
fn policy(out: &mut String, ruling: &Ruling) {
    let window = u128::from(ruling.window.get());
    let back_us = match (ruling.count, ruling.decision.limit) {
        (0, _) | (_, 0) => window,
        (count, limit) => window * u128::from(limit) / u128::from(count),
    };
    let seconds = Micros::new(u64::try_from(back_us).unwrap_or(u64::MAX)).as_secs_ceil();
    put(out, format_args!(";q={};w={}", ruling.decision.limit, seconds.max(1)));
}

/// What is left, and for how long.
fn available(out: &mut String, ruling: &Ruling) {
    put(out, format_args!(";r={}", ruling.decision.remaining));
    let span = match ruling.decision.verdict {
        Verdict::Deny { retry_after } => retry_after,
        Verdict::Allow | Verdict::Delay { .. } => Some(ruling.decision.reset_after),
    };
    if let Some(span) = span {
        put(out, format_args!(";t={}", span.as_secs_ceil()));
    }
}

/// Which counter it is: the values that the request was counted by.
fn partition(policies: &mut String, left: &mut String, told: &Told<'_>, ruling: &Ruling) {
    let Some(descriptor) = told.request.descriptors.get(ruling.descriptor) else { return };
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
    for out in [policies, left] {
        out.push_str(";pk=:");
        BASE64_STANDARD.encode_string(&key, out);
        out.push(':');
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string cannot fail");
}

impl<'a> Told<'a> {
    /// What the rule of a ruling is called.
    pub(super) fn name_of(&self, ruling: &Ruling) -> &'a str {
        self.answer.reply.rule(ruling).map_or(BROUGHT, |rule| rule.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_always_a_string_of_rfc_9651() {
        let written = |text: &str| {
            let mut out = String::new();
            name(&mut out, text);
            out
        };
        assert_eq!(written("burst"), r#""burst""#);
        assert_eq!(written(r#"a "b" \c"#), r#""a \"b\" \\c""#);
        assert_eq!(written("grün\r\n"), r#""gr%C3%BCn%0D%0A""#);
        assert_eq!(written(&"x".repeat(1_000)).len(), NAME_MAX + 2);
    }
}
