//! How people are told about their limits: headers, and the body of a refusal.
//!
//! An adapter has a [`Reply`] and wants to hand it on to whoever asked:
//! `/v1`, forward-auth, the gateway, and Envoy by way of gRPC all say the same,
//! because all of them say it from here.
//!
//! | module | what it holds |
//! |---|---|
//! | `denial_text` | what denials of one limit have in common, kept for the next one |
//! | `fields` | the IETF's `RateLimit` and `RateLimit-Policy` |
//! | `grpc_text` | what callers of gRPC are told |
//! | `header_sink` | who takes the headers: names and values, or bytes |
//! | `pass_text` | what requests that pass are told alike, kept for the next one |
//! | `policy_text` | the name of a policy and its numbers |
//! | `problem` | the body of a refusal, `application/problem+json` |
//!
//! Invariants: a time is rounded up and chance only adds to it, so that nobody
//! who waits it out comes too early; what is in the shadow is told to nobody.
//!
//! Deliberately not here: the status code, and how headers travel.

mod denial_text;
mod fields;
mod grpc_text;
mod header_sink;
mod pass_text;
mod policy_text;
mod problem;

use std::time::Duration;

use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_core::{Micros, Request, Verdict};
use tollgate_limiter::{Reply, RuleDecision};

pub use denial_text::{DenialParts, DenialTexts};
pub use grpc_text::grpc_message;
pub use header_sink::{HeaderLines, HeaderSink};
pub use pass_text::{PassNumbers, PassText};
pub use problem::{PROBLEM_JSON, QUOTA_EXCEEDED, QuotaProblem};

/// What the limit lets through at once.
pub const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// How many more would pass now.
pub const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// In how many seconds the next one passes.
pub const LIMIT_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
/// Present and `true` if a request passes only because a limit is soft.
pub const SOFT: HeaderName = HeaderName::from_static("x-ratelimit-soft");
/// Present and `true` if a limit was decided without the store, which could
/// not be asked.
pub const DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
/// How many milliseconds to hold a request that passes later.
pub const WAIT: HeaderName = HeaderName::from_static("x-ratelimit-wait-ms");
/// What was decided, for whoever forwards the request: `allow`, `delay` (held, and let through now) or `deny`.
pub const VERDICT: HeaderName = HeaderName::from_static("x-tollgate-verdict");
/// The IETF's field of policies.
pub const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The IETF's field of what is left.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The name of a limit that came with the request.
const BROUGHT: &str = "request";

/// Response headers, in the order in which they are sent.
pub type ResponseHeaders = Vec<(HeaderName, HeaderValue)>;

/// What an operator sets about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseSettings {
    /// Which form of the IETF's fields `RateLimit` and `RateLimit-Policy`.
    pub ratelimit_fields: RateLimitFields,
    /// They name the counter, too.
    pub partition_keys: bool,
    /// Up to so many whole seconds are added to `Retry-After`, at random.
    pub retry_after_jitter: Duration,
}

/// The draft's fields without the counter, and no chance.
impl Default for ResponseSettings {
    fn default() -> Self {
        let ratelimit_fields = RateLimitFields::Draft11;
        Self { ratelimit_fields, partition_keys: false, retry_after_jitter: Duration::ZERO }
    }
}

/// Which form the IETF's fields have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitFields {
    /// As in draft-ietf-httpapi-ratelimit-headers-11.
    Draft11,
    /// They are not sent.
    Off,
}

/// What a caller is told about one reply.
#[derive(Debug)]
pub struct CallerView<'a> {
    settings: &'a ResponseSettings,
    request: &'a Request<'a>,
    reply: &'a Reply,
    /// When to come again, with what chance adds to it.
    retry_after_s: Option<u64>,
}

impl<'a> CallerView<'a> {
    /// What people are told about `reply`, which decided `request`.
    pub fn new(settings: &'a ResponseSettings, request: &'a Request<'a>, reply: &'a Reply) -> Self {
        let retry_after = match reply.verdict {
            Verdict::Deny { retry_after } => retry_after,
            Verdict::Allow | Verdict::Delay { .. } => None,
        };
        let retry_after_s = retry_after.map(|span| later(span, settings.retry_after_jitter));
        Self { settings, request, reply, retry_after_s }
    }

    /// The reply.
    pub const fn reply(&self) -> &'a Reply {
        self.reply
    }

    /// The request.
    pub const fn request(&self) -> &'a Request<'a> {
        self.request
    }

    /// The headers.
    pub fn headers<H: HeaderSink + Default>(&self) -> H {
        let mut headers = H::default();
        if let Verdict::Delay { wait } = self.reply.verdict {
            headers.number(WAIT, wait.as_millis_ceil());
        }
        self.tell(&mut headers);
        headers
    }

    /// The headers but for [`WAIT`]: whoever holds requests has waited for that.
    pub fn tell(&self, headers: &mut impl HeaderSink) {
        if !pass_text::with(self, |text, numbers| headers.pass(text, numbers)) {
            self.tell_all(headers);
        }
    }

    fn tell_all(&self, headers: &mut impl HeaderSink) {
        let Some(chosen) = self.reply.binding() else { return };
        // No limit denies it, so that there are no numbers to tell.
        if self.reply.exception().is_some() {
            return;
        }
        if let Some(seconds) = self.retry_after_s {
            headers.number(RETRY_AFTER, seconds);
        }
        headers.number(LIMIT, chosen.limit);
        headers.number(REMAINING, chosen.remaining);
        if let Some(seconds) = self.limit_retry_after_s(chosen) {
            headers.number(LIMIT_RETRY_AFTER, seconds);
        }
        if self.reply.is_soft() {
            headers.text(SOFT, "true");
        }
        if self.reply.is_degraded() {
            headers.text(DEGRADED, "true");
        }
        match self.settings.ratelimit_fields {
            RateLimitFields::Draft11 => fields::draft_11(self, headers),
            RateLimitFields::Off => {}
        }
    }

    /// The body of a refusal that is answered with `status`.
    pub fn problem(&self, status: u16) -> QuotaProblem {
        QuotaProblem::new(self, status)
    }

    /// What the rule of a decision is called.
    fn name_of(&self, decision: &RuleDecision) -> &'a str {
        match (self.reply.rule(decision), decision.exception) {
            (Some(rule), _) => rule.name(),
            (None, Some(exception)) => exception.reason(),
            (None, None) => BROUGHT,
        }
    }

    /// In how many seconds the next request passes: at once where something is
    /// left, and otherwise when the limit is as good as new, which is never too
    /// early. None if a refused request can never pass.
    fn limit_retry_after_s(&self, chosen: &RuleDecision) -> Option<u64> {
        match chosen.verdict {
            _ if self.reply.verdict.is_deny() => self.retry_after_s,
            _ if chosen.remaining > 0 => Some(0),
            Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. } => {
                Some(chosen.reset_after.as_secs_ceil())
            }
        }
    }
}

/// The span in whole seconds, rounded up, and by chance up to `jitter` more.
fn later(span: Micros, jitter: Duration) -> u64 {
    let seconds = span.as_secs_ceil();
    match jitter.as_secs() {
        0 => seconds,
        most => seconds + fastrand::u64(..=most),
    }
}
