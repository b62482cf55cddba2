//! Replies → JSON; errors → problems.
//!
//! The body of a denial is a problem (RFC 9457) that has the members of every
//! other reply, too, so that callers read both the same way.
//!
//! Invariants: times are whole milliseconds, rounded up; a time that there is
//! none of is absent, and `null` if it never comes.

mod problem;
mod reply_text;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::{Serialize, Serializer};
use tollgate_core::ruleset::Free;
use tollgate_core::{Micros, Verdict};
use tollgate_limiter::{Reply, RuleDecision};
use utoipa::ToSchema;

use super::batch::ResponseBody;
use crate::bounds::RESPONSE_PART;
use crate::service::UnknownName;
use tollgate_http::response::{CallerView, HeaderSink, PROBLEM_JSON, QuotaProblem, ResponseHeaders};

pub(crate) use problem::{ProblemBody, error, problem};

/// The type of a body that is no problem.
pub(crate) const JSON: &str = "application/json";
/// A reply with one decision has about this many bytes.
const BODY_USUAL: usize = 512;

/// The answer to one request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reply)]
pub(super) struct ReplyBody<'a> {
    /// `allow`, `delay` (go ahead after `wait_ms`) or `deny`.
    verdict: VerdictName,
    /// For `delay`: how long to hold the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    wait_ms: Option<u64>,
    /// For `deny`: when the same request would pass; `null` if it never would.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retry_after_ms: Option<Option<u64>>,
    /// Which of `decisions` the verdict comes from; absent if no limit is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    binding: Option<usize>,
    /// Why it is so, if no limit is used up: a list or an operator denies or allows the
    /// request (`deny_list`, `allow_list`, `override`), it was denied so often that it is blocked (`penalty`), or a name is probably
    /// misspelt (`unknown_domain`, `unknown_key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
    /// The name that no rules have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    unknown: Option<&'a str>,
    /// The name in the rules that it may have been meant to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    nearest: Option<&'a str>,
    /// One for each limit that the request met.
    #[schema(value_type = Vec<DecisionBody<'_>>)]
    decisions: DecisionList<'a>,
}

/// The answer to one request that is denied: a problem (RFC 9457) with the
/// members of every other reply.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Denied)]
pub(super) struct DeniedBody<'a> {
    /// The kind of problem.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What it is called.
    title: &'static str,
    /// 429.
    status: u16,
    /// The message of the rule that denies it, or else its numbers.
    detail: String,
    /// The names of the rules that deny it.
    #[serde(rename = "violated-policies")]
    violated_policies: Vec<String>,
    #[serde(flatten)]
    reply: ReplyBody<'a>,
}

/// Now, later, or not.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Verdict)]
pub(crate) enum VerdictName {
    Allow,
    Delay,
    Deny,
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Delay { .. } => Self::Delay,
            Verdict::Deny { .. } => Self::Deny,
        }
    }
}

/// What one limit decided.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decision)]
pub(super) struct DecisionBody<'a> {
    /// Which descriptor of the request it is for, from 0.
    descriptor: usize,
    /// The rule's name, or its path if it has none.
    #[schema(nullable = false)]
    rule: Option<&'a str>,
    /// The algorithm that decided.
    algorithm: &'static str,
    /// What this limit alone says.
    verdict: VerdictName,
    /// What it lets through at once.
    limit: u64,
    /// How many of cost 1 would still pass at this instant.
    remaining: u64,
    /// For `delay`: how long to hold the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    wait_ms: Option<u64>,
    /// For `deny`: when the same request would pass; `null` if it never would.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retry_after_ms: Option<Option<u64>>,
    /// When it is as good as new, nothing else happening.
    reset_after_ms: u64,
    /// What it says is not enforced.
    shadow: bool,
    /// It lets this through only because it is soft.
    soft: bool,
    /// It was decided without the store, which could not be asked.
    degraded: bool,
    /// The limit is that of an override and not that of the rule; absent if not.
    #[serde(skip_serializing_if = "is_false")]
    overridden: bool,
    /// For `deny`: why, if the limit is not used up: `penalty` if it was denied so often that it is
    /// blocked, `deny_list` if a list has it, `override` if an operator denies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
    /// For `deny`: the message of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_false(flag: &bool) -> bool {
    !*flag
}

const fn wait_ms(verdict: Verdict) -> Option<u64> {
    match verdict {
        Verdict::Delay { wait } => Some(wait.as_millis_ceil()),
        Verdict::Allow | Verdict::Deny { .. } => None,
    }
}

/// When a request would pass that is not let through at once; none if it
/// passes now, or never.
pub(crate) const fn next_after_ms(verdict: Verdict) -> Option<u64> {
    match verdict {
        Verdict::Delay { wait: after } | Verdict::Deny { retry_after: Some(after) } => {
            Some(after.as_millis_ceil())
        }
        Verdict::Allow | Verdict::Deny { retry_after: None } => None,
    }
}

/// Outer none: there is no such time; inner none: it never comes.
fn retry_after_ms(verdict: Verdict) -> Option<Option<u64>> {
    match verdict {
        Verdict::Deny { retry_after } => Some(retry_after.map(Micros::as_millis_ceil)),
        Verdict::Allow | Verdict::Delay { .. } => None,
    }
}

impl<'a> ReplyBody<'a> {
    pub(super) fn new(view: &CallerView<'a>) -> Self {
        let verdict = view.reply().verdict;
        let unknown = UnknownName::find(view.request(), view.reply());
        Self {
            verdict: verdict.into(),
            wait_ms: wait_ms(verdict),
            retry_after_ms: retry_after_ms(verdict),
            binding: view.reply().binding_index(),
            reason: reason(view.reply(), unknown),
            unknown: unknown.map(UnknownName::name),
            nearest: unknown.and_then(|unknown| unknown.nearest(view.request(), view.reply())),
            decisions: DecisionList(view.reply()),
        }
    }
}

impl<'a> DeniedBody<'a> {
    fn new(problem: QuotaProblem, view: &CallerView<'a>) -> Self {
        let QuotaProblem { kind, title, status, detail, violated_policies, .. } = problem;
        Self { kind, title, status, detail, violated_policies, reply: ReplyBody::new(view) }
    }
}

/// Why no limit decides a request; none if limits do, or if it simply meets none.
fn reason(reply: &Reply, unknown: Option<UnknownName<'_>>) -> Option<&'static str> {
    let is_free = |why| reply.decisions.is_empty() && reply.free.contains(&Some(why));
    match unknown {
        Some(UnknownName::Domain(_)) => Some("unknown_domain"),
        Some(UnknownName::Key(_)) => Some("unknown_key"),
        None if is_free(Free::Allowed) => Some("allow_list"),
        None if is_free(Free::Overridden) => Some("override"),
        None => reply.binding().and_then(RuleDecision::reason),
    }
}

/// The decisions of a reply.
#[derive(Debug)]
pub(super) struct DecisionList<'a>(&'a Reply);

impl Serialize for DecisionList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.bodies())
    }
}

impl<'a> DecisionList<'a> {
    fn bodies(&self) -> impl Iterator<Item = DecisionBody<'a>> {
        self.0.decisions.iter().map(|decision| self.body(decision))
    }

    fn body(&self, decision: &RuleDecision) -> DecisionBody<'a> {
        let rule = self.0.rule(decision);
        let message = rule.map(|rule| rule.message.as_str());
        DecisionBody {
            descriptor: decision.descriptor,
            rule: rule.map(|rule| rule.name()),
            algorithm: decision.algorithm.name(),
            verdict: decision.verdict.into(),
            limit: decision.limit,
            remaining: decision.remaining,
            wait_ms: wait_ms(decision.verdict),
            retry_after_ms: retry_after_ms(decision.verdict),
            reset_after_ms: decision.reset_after.as_millis_ceil(),
            shadow: self.0.is_shadow(decision),
            soft: decision.soft,
            degraded: decision.degraded,
            overridden: self.0.is_overridden(decision),
            reason: decision.reason(),
            message: message.filter(|text| decision.verdict.is_deny() && !text.is_empty()),
        }
    }
}

/// An answer, ready to be sent: by hyper, which wants names and values, or by `direct`, which wants lines.
#[derive(Debug)]
pub(crate) struct V1Response<H = ResponseHeaders> {
    pub(crate) status: StatusCode,
    /// The type of its body.
    pub(crate) kind: &'static str,
    /// Besides those that every answer has.
    pub(crate) headers: H,
    pub(crate) body: ResponseBody,
}

impl<H> V1Response<H> {
    fn new(status: StatusCode, kind: &'static str, headers: H, body: &impl Serialize) -> Self {
        Self::written(status, kind, headers, |bytes| {
            serde_json::to_writer(bytes, body).expect("texts and numbers are always JSON");
        })
    }

    fn written(status: StatusCode, kind: &'static str, headers: H, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::with_capacity(BODY_USUAL);
        write(&mut bytes);
        Self { status, kind, headers, body: ResponseBody::Whole(bytes) }
    }
}

impl From<V1Response> for Response {
    fn from(response: V1Response) -> Self {
        let V1Response { status, kind, headers, body } = response;
        let body = match body {
            ResponseBody::Whole(bytes) => Body::from(bytes),
            ResponseBody::Parts(parts) => Body::new(parts),
        };
        let mut response = Self::new(body);
        *response.status_mut() = status;
        let map = response.headers_mut();
        map.reserve(headers.len() + 1);
        map.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in headers {
            map.insert(name, value);
        }
        response
    }
}

/// The answer to one request.
pub(super) fn one<H: HeaderSink + Default>(view: &CallerView<'_>) -> V1Response<H> {
    if !view.reply().verdict.is_deny() {
        return V1Response::written(StatusCode::OK, JSON, view.headers(), |out| {
            ReplyBody::new(view).write(out);
        });
    }
    let status = StatusCode::TOO_MANY_REQUESTS;
    let denied = DeniedBody::new(view.problem(status.as_u16()), view);
    V1Response::written(status, PROBLEM_JSON, view.headers(), |out| denied.write(out))
}

/// A response with a body that is JSON already.
pub(super) fn whole(
    status: StatusCode,
    kind: &'static str,
    headers: ResponseHeaders,
    body: Vec<u8>,
) -> Response {
    V1Response { status, kind, headers, body: ResponseBody::Whole(body) }.into()
}

/// A response with a JSON body.
pub(crate) fn respond(body: &impl Serialize) -> Response {
    V1Response::new(StatusCode::OK, JSON, ResponseHeaders::new(), body).into()
}

/// The answer to a batch.
pub(super) fn batch<H: Default>(body: ResponseBody) -> V1Response<H> {
    V1Response { status: StatusCode::OK, kind: JSON, headers: H::default(), body }
}

/// The replies to a batch, as they come.
pub(super) struct BatchBody {
    /// What was not taken yet.
    bytes: Vec<u8>,
    is_empty: bool,
}

impl BatchBody {
    pub(super) fn new() -> Self {
        Self { bytes: vec![b'['], is_empty: true }
    }

    /// Adds a reply; returns how many decisions it has.
    pub(super) fn add(&mut self, view: &CallerView<'_>) -> usize {
        if !std::mem::take(&mut self.is_empty) {
            self.bytes.push(b',');
        }
        ReplyBody::new(view).write(&mut self.bytes);
        view.reply().decisions.len()
    }

    /// Bytes that were not taken yet.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What was added since the last time.
    pub(super) fn take_part(&mut self) -> Vec<u8> {
        // With room for the reply that ends a part, so that it is not moved to twice the room.
        std::mem::replace(&mut self.bytes, Vec::with_capacity(RESPONSE_PART + RESPONSE_PART / 8))
    }

    /// The last part.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b']');
        self.bytes
    }
}
