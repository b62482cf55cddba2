//! Why a level of the rules was chosen, or not.
//!
//! The order of matching in words: exact, then patterns in the order written,
//! then the key alone; the first that fits stays chosen.

use tollgate_core::Entry;
use tollgate_core::ruleset::{Candidate, How};

/// The name of a way to match, in text and JSON.
pub(super) const fn how_name(how: How) -> &'static str {
    match how {
        How::Exact => "exact",
        How::Wildcard => "wildcard",
        How::KeyOnly => "key_only",
    }
}

/// Why this candidate is the one, or is not.
pub(super) fn reason(candidate: &Candidate<'_>, entry: Entry<'_>, chosen: Option<How>) -> &'static str {
    match (candidate.how, chosen) {
        (Some(how), _) if candidate.is_chosen => chosen_because(how),
        (Some(_), Some(How::Exact)) => "matches, but exact wins",
        (Some(How::Wildcard), Some(How::Wildcard)) => "matches, but the pattern tried earlier wins",
        (Some(_), Some(How::Wildcard)) => "matches, but a pattern wins over the key alone",
        (Some(_), Some(How::KeyOnly) | None) => "matches",
        (None, _) => missed_because(candidate.text, entry),
    }
}

const fn chosen_because(how: How) -> &'static str {
    match how {
        How::Exact => "exact: key and value are the ones written",
        How::Wildcard => "wildcard: the value fits the pattern, and none is exact",
        How::KeyOnly => "key only: any value matches, and nothing closer does",
    }
}

/// The text of a level is `key` or `key_value`, and no more is known of it.
fn missed_because(text: &str, entry: Entry<'_>) -> &'static str {
    let rest = text.strip_prefix(entry.key);
    if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_')) {
        "key differs"
    } else if text.contains('*') {
        "does not match: the value does not fit the pattern"
    } else {
        "does not match: the value differs"
    }
}
