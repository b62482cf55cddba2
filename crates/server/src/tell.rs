//! How people are told about their limits: headers, and the body of a refusal.
//!
//! An adapter has an [`Answer`] and wants to hand it on to whoever asked:
//! `/v1`, forward-auth, the gateway, and Envoy by way of gRPC all say the same,
//! because all of them say it from here.
//!
//! | module | what it holds |
//! |---|---|
//! | `fields` | the IETF's `RateLimit` and `RateLimit-Policy` |
//! | `problem` | the body of a refusal, `application/problem+json` |
//!
//! Invariants: a time is rounded up and chance only adds to it, so that nobody
//! who waits it out comes too early; what is in the shadow is told to nobody.
//!
//! Deliberately not here: the status code, and how headers travel.

mod fields;
mod problem;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use smallvec::SmallVec;
use tollgate_core::{Micros, Request, Verdict};
use tollgate_limiter::RuleDecision;

use crate::service::{Answer, is_denying};
use tollgate_settings::{Answers, RateLimitFields, Telling};

pub use problem::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED};

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
/// The IETF's field of policies.
pub const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The IETF's field of what is left.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Headers, in the order in which they are sent.
pub type Headers = SmallVec<[(HeaderName, HeaderValue); 8]>;

/// Most answers are about no more decisions than this.
const DECISIONS_USUAL: usize = 4;

/// What people are told about one answer.
#[derive(Debug)]
pub struct Told<'a> {
    telling: &'a Telling,
    request: &'a Request<'a>,
    answer: &'a Answer,
    /// Nothing at all is enforced.
    all_shadow: bool,
    /// The decisions to tell about: those that refuse, or else all that are enforced.
    decisions: SmallVec<[&'a RuleDecision; DECISIONS_USUAL]>,
    /// The one of them that matters most.
    chosen: Option<&'a RuleDecision>,
    /// When to come again, with what chance adds to it.
    retry_after_s: Option<u64>,
}

impl<'a> Told<'a> {
    /// What people are told about `answer`, which decided `request`.
    pub fn new(answers: &'a Answers, request: &'a Request<'a>, answer: &'a Answer) -> Self {
        let decisions: SmallVec<[&RuleDecision; DECISIONS_USUAL]> = match answer.is_refused {
            true => violated(answer).collect(),
            // Where nothing is enforced, there is nothing to tell.
            false if answers.shadow => SmallVec::new(),
            false => answer.reply.decisions.iter().filter(|decision| !decision.mode.is_shadow()).collect(),
        };
        let chosen = match answer.is_refused {
            true => answer.reply.binding(),
            false => decisions.iter().copied().min_by_key(|decision| decision.remaining),
        };
        let jitter = answers.telling.retry_after_jitter;
        let retry_after_s = refusal_of(answer).flatten().map(|span| later(span, jitter));
        let (telling, all_shadow) = (&answers.telling, answers.shadow);
        Self { telling, request, answer, all_shadow, decisions, chosen, retry_after_s }
    }

    /// The answer.
    pub const fn answer(&self) -> &'a Answer {
        self.answer
    }

    /// The verdict as the caller is to obey it.
    pub const fn verdict(&self) -> Verdict {
        match self.answer.reply.verdict {
            Verdict::Deny { .. } if !self.answer.is_refused => Verdict::Allow,
            verdict @ (Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. }) => verdict,
        }
    }

    /// Whether nothing at all is enforced.
    pub const fn is_all_shadow(&self) -> bool {
        self.all_shadow
    }

    /// The headers.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        if let Verdict::Delay { wait } = self.answer.reply.verdict {
            headers.push((WAIT, wait.as_millis_ceil().into()));
        }
        let Some(chosen) = self.chosen else { return headers };
        if let Some(seconds) = self.retry_after_s {
            headers.push((RETRY_AFTER, seconds.into()));
        }
        headers.push((LIMIT, chosen.limit.into()));
        headers.push((REMAINING, chosen.remaining.into()));
        if let Some(seconds) = self.limit_retry_after_s(chosen) {
            headers.push((LIMIT_RETRY_AFTER, seconds.into()));
        }
        if self.answer.reply.is_soft() {
            headers.push((SOFT, HeaderValue::from_static("true")));
        }
        if self.answer.reply.is_degraded() {
            headers.push((DEGRADED, HeaderValue::from_static("true")));
        }
        match self.telling.ratelimit_fields {
            RateLimitFields::Draft11 => {
                let [policy, ratelimit] = fields::draft_11(self);
                headers.extend(policy.map(|value| (POLICY, value)));
                headers.extend(ratelimit.map(|value| (RATELIMIT, value)));
            }
            RateLimitFields::Off => {}
        }
        headers
    }

    /// The body of a refusal that is answered with `status`.
    pub fn problem(&self, status: u16) -> Problem<'a> {
        Problem::new(self, status)
    }

    /// In how many seconds the next request passes: at once where something is
    /// left, and otherwise when the limit is as good as new, which is never too
    /// early. None if a refused request can never pass.
    fn limit_retry_after_s(&self, chosen: &RuleDecision) -> Option<u64> {
        match chosen.verdict {
            _ if self.answer.is_refused => self.retry_after_s,
            _ if chosen.remaining > 0 => Some(0),
            Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. } => {
                Some(chosen.reset_after.as_secs_ceil())
            }
        }
    }
}

/// The decisions that refuse a request: every enforced limit that denies, and
/// the quotas if none of them passes.
fn violated(answer: &Answer) -> impl Iterator<Item = &RuleDecision> {
    let decisions = &answer.reply.decisions;
    let quotas_refuse = decisions.iter().filter(|decision| decision.mode.is_quota()).all(is_denying);
    decisions
        .iter()
        .filter(move |decision| is_denying(decision) && (quotas_refuse || !decision.mode.is_quota()))
}

/// When a refused request would pass, if ever; none if it was not refused.
fn refusal_of(answer: &Answer) -> Option<Option<Micros>> {
    match answer.reply.verdict {
        Verdict::Deny { retry_after } if answer.is_refused => Some(retry_after),
        Verdict::Deny { .. } | Verdict::Allow | Verdict::Delay { .. } => None,
    }
}

/// The span in whole seconds, rounded up, and by chance up to `jitter` more.
fn later(span: Micros, jitter: Duration) -> u64 {
    let seconds = span.as_secs_ceil();
    match jitter.as_secs() {
        0 => seconds,
        most => seconds + random() % (most + 1),
    }
}

/// A number that nobody can foresee.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
