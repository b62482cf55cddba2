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
use tollgate_core::Verdict;
use tollgate_limiter::RuleDecision;

use super::policy_text::{available, name, policy};
use super::problem::explained;
use super::{CallerView, HeaderSink, POLICY, RATELIMIT};

/// More policies than this are not told; then it is the tightest alone, which
/// the draft allows. A caller can hardly make use of more.
const POLICIES_MAX: usize = 8;
/// Bytes of a partition key; a longer one is left out.
const PARTITION_MAX: usize = 96;
/// Most replies are about no more decisions than this.
const DECISIONS_USUAL: usize = 4;
/// What stands between the values of a partition key.
const UNIT_SEPARATOR: u8 = 0x1f;
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
