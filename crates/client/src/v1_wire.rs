//! Requests and replies as JSON of `/v1`.
//!
//! Entries are always sent as a list, which holds a key twice and a descriptor's own cost.

use serde::{Deserialize, Serialize};
use tollgate_core::{Algorithm, Micros, Operation, Request, Verdict};

use crate::reply::{MisspeltName, ReplyOrigin, ServerDecision, ServerReply, WireReply};

#[derive(Serialize)]
struct SentRequest<'a> {
    domain: &'a str,
    descriptors: Vec<SentDescriptor<'a>>,
    cost: u64,
}

#[derive(Serialize)]
struct SentDescriptor<'a> {
    entries: Vec<SentEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

#[derive(Serialize)]
struct SentEntry<'a> {
    key: &'a str,
    value: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReceivedVerdict {
    Allow,
    Delay,
    Deny,
}

#[derive(Deserialize)]
struct ReceivedReply {
    verdict: ReceivedVerdict,
    wait_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    binding: Option<usize>,
    reason: Option<String>,
    unknown: Option<String>,
    nearest: Option<String>,
    decisions: Vec<ReceivedDecision>,
}

#[derive(Deserialize)]
struct ReceivedDecision {
    descriptor: usize,
    rule: Option<String>,
    algorithm: String,
    verdict: ReceivedVerdict,
    wait_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
    shadow: bool,
    soft: bool,
    degraded: bool,
    reason: Option<String>,
    message: Option<String>,
}

/// What an error says of itself (RFC 9457).
#[derive(Deserialize)]
struct ReceivedProblem {
    detail: Option<String>,
    fix: Option<String>,
    pointer: Option<String>,
}

/// Where an operation is asked for.
pub(crate) const fn path(operation: Operation) -> &'static str {
    match operation {
        Operation::Check => "/v1/check",
        Operation::Peek => "/v1/peek",
        Operation::Report => "/v1/report",
        Operation::Refund => "/v1/refund",
    }
}

/// The body to send.
pub(crate) fn encode(request: &Request<'_>) -> Vec<u8> {
    let descriptors = request.descriptors.iter().map(|descriptor| SentDescriptor {
        entries: descriptor
            .entries
            .iter()
            .map(|entry| SentEntry { key: entry.key, value: entry.value })
            .collect(),
        cost: descriptor.cost,
    });
    let sent = SentRequest { domain: request.domain, descriptors: descriptors.collect(), cost: request.cost };
    serde_json::to_vec(&sent).expect("texts and numbers are always JSON")
}

/// The reply of a body.
pub(crate) fn decode(body: &[u8]) -> Result<WireReply, serde_json::Error> {
    let received: ReceivedReply = serde_json::from_slice(body)?;
    let reply = ServerReply {
        verdict: verdict(&received.verdict, received.wait_ms, received.retry_after_ms),
        binding: received.binding,
        decisions: received.decisions.into_iter().map(decision).collect(),
        reason: received.reason,
        origin: ReplyOrigin::Server,
        unknown: received.unknown.map(|name| MisspeltName { name, nearest: received.nearest }),
    };
    Ok(WireReply { reply, tells_retry: true })
}

fn decision(received: ReceivedDecision) -> ServerDecision {
    ServerDecision {
        descriptor: received.descriptor,
        rule: received.rule,
        algorithm: Algorithm::from_name(&received.algorithm),
        verdict: verdict(&received.verdict, received.wait_ms, received.retry_after_ms),
        limit: received.limit,
        remaining: received.remaining,
        reset_after: Micros::from_millis(received.reset_after_ms),
        shadow: received.shadow,
        soft: received.soft,
        degraded: received.degraded,
        reason: received.reason,
        message: received.message,
    }
}

fn verdict(name: &ReceivedVerdict, wait_ms: Option<u64>, retry_after_ms: Option<u64>) -> Verdict {
    match name {
        ReceivedVerdict::Allow => Verdict::Allow,
        ReceivedVerdict::Delay => Verdict::Delay { wait: Micros::from_millis(wait_ms.unwrap_or_default()) },
        ReceivedVerdict::Deny => Verdict::Deny { retry_after: retry_after_ms.map(Micros::from_millis) },
    }
}

/// The most of a body that is no problem to show.
const SHOWN_MAX: usize = 200;

/// What the body of an error says, in one line.
pub(crate) fn problem(body: &[u8]) -> String {
    let problem: Option<ReceivedProblem> = serde_json::from_slice(body).ok();
    let Some(ReceivedProblem { detail: Some(detail), fix, pointer }) = problem else {
        return String::from_utf8_lossy(body.get(..SHOWN_MAX).unwrap_or(body)).into_owned();
    };
    let place = pointer.filter(|at| !at.is_empty()).map(|at| format!(" at {at}")).unwrap_or_default();
    let fix = fix.map(|fix| format!("; {fix}")).unwrap_or_default();
    format!("{detail}{place}{fix}")
}

#[derive(Deserialize)]
struct RetryMember {
    retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
struct ReasonMember {
    reason: Option<String>,
}

/// Why a problem says that it is so.
pub(crate) fn problem_reason(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<ReasonMember>(body).ok()?.reason
}

/// When a problem says that the same passes; the inner none is never.
pub(crate) fn problem_retry(body: &[u8]) -> Option<Option<Micros>> {
    let member: RetryMember = serde_json::from_slice(body).ok()?;
    Some(member.retry_after_ms.map(Micros::from_millis))
}
