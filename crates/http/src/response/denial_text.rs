//! What denials of one limit have in common, kept for the next one.
//!
//! A flood is denied by one limit, thousands of times a second, and all that changes within a second are
//! the milliseconds at the end of the body. Putting together headers and body took a third of such a
//! denial, so whoever writes bytes keeps the last ones of a few limits here and copies them.
//!
//! Before: a [`CallerView`] of a denial. After: the lines and the body that [`CallerView::tell`] and
//! [`super::QuotaProblem::write`] would have written, byte for byte; `tests/it/denials.rs` compares.
//!
//! Invariants: texts are told apart by everything that they are made of ([`TextKey`]); a denial with
//! anything else to say, such as a penalty, a partition key or a second limit, is not kept. Rules that were
//! replaced are not kept alive, and no others can take their place: of a `Weak` the address is not given
//! away again.

use std::sync::{Arc, Weak};

use tollgate_core::{Micros, RuleId, RuleSet, Verdict};

use super::{CallerView, HeaderLines, RateLimitFields};

/// So many limits have their texts kept; those of others take their places.
const LIMITS_KEPT: usize = 8;

/// Texts of denials, one for each of a few limits, and with each what whoever writes them has made of it.
#[derive(Debug, Default)]
pub struct DenialTexts<K = ()>([Option<DenialText<K>>; LIMITS_KEPT]);

#[derive(Debug)]
struct DenialText<K> {
    rules: Weak<RuleSet>,
    key: TextKey,
    lines: Vec<u8>,
    /// Up to the milliseconds.
    body: Vec<u8>,
    kept: K,
}

/// What a text is made of, besides the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextKey {
    rule: RuleId,
    count: u32,
    window: Micros,
    limit: u64,
    remaining: u64,
    cost: u64,
    retry_after_s: u64,
    is_degraded: bool,
    fields: RateLimitFields,
    status: u16,
}

/// What a denial says: the lines of its head, and its body in two parts.
#[derive(Debug)]
pub struct DenialParts<'a, K = ()> {
    /// About limits, each with its end.
    pub lines: &'a [u8],
    /// The body, up to the milliseconds.
    pub body: &'a [u8],
    /// The milliseconds, which [`DenialParts::END`] follows.
    pub retry_after_ms: u64,
    /// What was made of lines and body the last time; as new whenever one of them is.
    pub kept: &'a mut K,
}

impl DenialParts<'_> {
    /// What ends every body.
    pub const END: &'static [u8] = b"}";
}

impl<K: Default> DenialTexts<K> {
    /// What a denial says that is answered with `status`; none if that is for others to put together.
    pub fn find(&mut self, view: &CallerView<'_>, status: u16) -> Option<DenialParts<'_, K>> {
        let (key, retry_after) = key(view, status)?;
        let rules = view.reply.shared_rules();
        let place = self.0.get_mut(key.rule.index() % LIMITS_KEPT)?;
        let is_known = |text: &&mut DenialText<K>| {
            text.key == key && std::ptr::eq(text.rules.as_ptr(), Arc::as_ptr(rules))
        };
        if place.as_mut().filter(is_known).is_none() {
            *place = Some(DenialText::new(view, Arc::downgrade(rules), key));
        }
        let DenialText { lines, body, kept, .. } = place.as_mut()?;
        Some(DenialParts { lines, body, retry_after_ms: retry_after.as_millis_ceil(), kept })
    }
}

impl<K: Default> DenialText<K> {
    fn new(view: &CallerView<'_>, rules: Weak<RuleSet>, key: TextKey) -> Self {
        let (mut lines, mut body) = (HeaderLines::default(), Vec::new());
        view.tell(&mut lines);
        view.problem(key.status).write_before_wait(&mut body);
        Self { rules, key, lines: lines.0, body, kept: K::default() }
    }
}

/// What the text is made of, and the wait that ends it; none if there is more to it.
#[inline]
fn key(view: &CallerView<'_>, status: u16) -> Option<(TextKey, Micros)> {
    let CallerView { settings, reply, retry_after_s, .. } = view;
    let mut told = reply.told();
    let (decision, None) = (told.next()?, told.next()) else { return None };
    let Verdict::Deny { retry_after: Some(retry_after) } = reply.verdict else { return None };
    let is_plain = decision.verdict == reply.verdict
        && decision.reason().is_none()
        && !decision.soft
        && !settings.partition_keys
        && settings.retry_after_jitter.is_zero();
    let key = TextKey {
        rule: decision.rule?,
        count: decision.count,
        window: decision.window,
        limit: decision.limit,
        remaining: decision.remaining,
        cost: decision.cost,
        retry_after_s: (*retry_after_s)?,
        is_degraded: reply.is_degraded(),
        fields: settings.ratelimit_fields,
        status,
    };
    is_plain.then_some((key, retry_after))
}
