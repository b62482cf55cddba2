//! The texts of one policy: its name, what it lets through, and what is left of it.
//!
//! `fields` lists them for any reply; `pass_text` keeps what of them stays the same.

use tollgate_core::{Micros, Verdict};
use tollgate_limiter::RuleDecision;

/// Characters of a policy's name; a longer one is cut.
const NAME_MAX: usize = 128;
/// The parameter of what is left.
pub(super) const LEFT: &str = ";r=";
/// The parameter of how long to make do with it.
pub(super) const FOR_SECONDS: &str = ";t=";

/// A String of RFC 9651: printable ASCII in quotes. What it cannot hold is
/// written as in a URL.
pub(super) fn name(out: &mut Vec<u8>, name: &str) {
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
pub(super) fn policy(out: &mut Vec<u8>, decision: &RuleDecision) {
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
pub(super) fn available(out: &mut Vec<u8>, decision: &RuleDecision) {
    parameter(out, LEFT, decision.remaining);
    let span = match decision.verdict {
        Verdict::Deny { retry_after } => retry_after,
        Verdict::Allow | Verdict::Delay { .. } => Some(decision.reset_after),
    };
    if let Some(span) = span {
        parameter(out, FOR_SECONDS, span.as_secs_ceil());
    }
}

/// A number, without the machinery of formatting: every request that passes has some.
fn parameter(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
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
