//! What is told about requests that pass, as far as one limit says the same every time.
//!
//! Of what a request that passes is told, only what is left and for how long differs from the one before.
//! Putting the rest together again took longer than the decision, so each thread keeps it by limit.
//!
//! Before: [`super::CallerView::tell`] with a reply of one limit. After: a sink that copies the texts, with
//! the [`PassNumbers`] in between; the bytes are those that the long way writes, as `tests/it/passes.rs` shows.
//!
//! Invariants: texts are told apart by everything that they are made of ([`PassKey`]); a reply with anything
//! else to say, such as a second limit or a partition key, takes the long way. Rules that were replaced are
//! not kept alive, and no others can take their place: of a `Weak` the address is not given away again.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use http::HeaderValue;
use tollgate_core::{Micros, RuleId, RuleSet};
use tollgate_limiter::RuleDecision;

use super::{CallerView, LIMIT, POLICY, RATELIMIT, REMAINING, RateLimitFields, policy_text};

/// So many limits have their texts kept by each thread; those of others take their places.
const LIMITS_KEPT: usize = 64;

thread_local! {
    static TEXTS: RefCell<Vec<Option<PassText>>> = const { RefCell::new(Vec::new()) };
}

/// What one limit tells about every request that passes.
#[derive(Debug)]
pub struct PassText {
    rules: Weak<RuleSet>,
    key: PassKey,
    /// The value of [`LIMIT`].
    pub(super) limit: HeaderValue,
    /// The value of [`POLICY`]; none if the IETF's fields are not sent.
    pub(super) policy: Option<HeaderValue>,
    /// The value of [`RATELIMIT`], up to what is left.
    pub(super) available: Vec<u8>,
    /// The lines of a head up to what is left.
    pub(super) lines_start: Vec<u8>,
    /// The lines after the wait, up to what is left once more.
    pub(super) lines_middle: Vec<u8>,
}

/// What a request that passes is told besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassNumbers {
    /// How many more would pass now.
    pub remaining: u64,
    /// In how many seconds the next one passes.
    pub retry_after_s: u64,
    /// In how many seconds the limit is as good as new.
    pub reset_after_s: u64,
}

/// What a text is made of, besides the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PassKey {
    rule: RuleId,
    count: u32,
    window: Micros,
    limit: u64,
    fields: RateLimitFields,
}

/// Shows the text of a reply to `tell`; false if there is more to tell than one limit has, and then nothing
/// was done.
pub(super) fn with(view: &CallerView<'_>, tell: impl FnOnce(&PassText, PassNumbers)) -> bool {
    let Some((key, decision)) = key(view) else { return false };
    let rules = view.reply.shared_rules();
    let reset_after_s = decision.reset_after.as_secs_ceil();
    let retry_after_s = if decision.remaining > 0 { 0 } else { reset_after_s };
    let numbers = PassNumbers { remaining: decision.remaining, retry_after_s, reset_after_s };
    TEXTS.with_borrow_mut(|texts| {
        if texts.is_empty() {
            texts.resize_with(LIMITS_KEPT, || None);
        }
        let Some(place) = texts.get_mut(key.rule.index() % LIMITS_KEPT) else { return false };
        let is_known =
            |text: &&mut PassText| text.key == key && std::ptr::eq(text.rules.as_ptr(), Arc::as_ptr(rules));
        let text = match place.as_mut().filter(is_known) {
            Some(text) => text,
            None => match PassText::new(view, decision, key) {
                Some(text) => place.insert(text),
                None => return false,
            },
        };
        tell(text, numbers);
        true
    })
}

impl PassText {
    fn new(view: &CallerView<'_>, decision: &RuleDecision, key: PassKey) -> Option<Self> {
        let (limit, mut policy, mut available) = (decision.limit.to_string(), Vec::new(), Vec::new());
        let lines_start = format!("{LIMIT}: {limit}\r\n{REMAINING}: ").into_bytes();
        let mut lines_middle = Vec::new();
        let is_told = key.fields == RateLimitFields::Draft11;
        if is_told {
            policy_text::name(&mut policy, view.name_of(decision));
            policy_text::policy(&mut policy, decision);
            policy_text::name(&mut available, view.name_of(decision));
            available.extend_from_slice(policy_text::LEFT.as_bytes());
            for part in [
                b"\r\n",
                POLICY.as_str().as_bytes(),
                b": ",
                &policy,
                b"\r\n",
                RATELIMIT.as_str().as_bytes(),
                b": ",
                &available,
            ] {
                lines_middle.extend_from_slice(part);
            }
        }
        let policy = match is_told {
            true => Some(HeaderValue::from_bytes(&policy).ok()?),
            false => None,
        };
        let (rules, limit) = (Arc::downgrade(view.reply.shared_rules()), HeaderValue::from_str(&limit).ok()?);
        Some(Self { rules, key, limit, policy, available, lines_start, lines_middle })
    }
}

/// What the text of a reply is made of, and its one decision; none if there is more to tell.
fn key<'a>(view: &CallerView<'a>) -> Option<(PassKey, &'a RuleDecision)> {
    let CallerView { settings, reply, .. } = view;
    let [decision] = reply.decisions.as_slice() else { return None };
    let is_plain = !reply.verdict.is_deny()
        && !decision.verdict.is_deny()
        && !reply.is_shadow(decision)
        && !decision.soft
        && !decision.degraded
        && decision.exception.is_none()
        && !settings.partition_keys;
    let key = PassKey {
        rule: decision.rule?,
        count: decision.count,
        window: decision.window,
        limit: decision.limit,
        fields: settings.ratelimit_fields,
    };
    is_plain.then_some((key, decision))
}
