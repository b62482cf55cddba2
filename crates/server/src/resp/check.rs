//! `TOLLGATE.CHECK domain key value [key value …] [COST n]`, by the rules.
//!
//! The pairs are the entries of one descriptor, outermost first. The reply is
//! that of the limit that binds: an array in RESP2, a map in RESP3.

use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Micros, Operation, Request, Time, Verdict};
use tollgate_limiter::{Reply, RuleDecision};

use super::from_wire::{self, Excerpt, TextError};
use super::to_wire::{RespVersion, RespWriter};
use crate::bounds::{ENTRIES_MAX, KEY_MAX, RESP_PIPELINE, VALUE_MAX};
use crate::service::{Service, ServiceError};

/// Most descriptors have no more entries; more cost an allocation.
const ENTRIES_USUAL: usize = 4;

type CheckEntries<'a> = SmallVec<[Entry<'a>; ENTRIES_USUAL]>;

/// A `TOLLGATE.CHECK`.
#[derive(Debug)]
pub(super) struct RespCheckRequest<'a> {
    domain: &'a str,
    entries: CheckEntries<'a>,
    cost: u64,
}

/// Why nothing is decided.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RespCheckError {
    #[error("ERR key '{key}' has no value; send TOLLGATE.CHECK domain key value [key value ...] [COST n]")]
    NoValue { key: String },
    #[error("ERR {found} entries are too many; send at most {ENTRIES_MAX}")]
    TooMany { found: usize },
    #[error("ERR COST '{word}' is not a cost; send a whole number of 0 or more")]
    Cost { word: String },
    #[error("ERR {0}")]
    Text(#[from] TextError),
}

impl<'a> RespCheckRequest<'a> {
    /// The request that these words make.
    pub(super) fn new(words: &[&'a [u8]]) -> Result<Self, RespCheckError> {
        let [_, domain, pairs @ ..] = words else {
            return Err(RespCheckError::NoValue { key: String::new() });
        };
        let (pairs, cost) = split_cost(pairs)?;
        let entries = entries(pairs)?;
        Ok(Self { domain: from_wire::text("domain", domain, KEY_MAX)?, entries, cost })
    }

    pub(super) const fn domain(&self) -> &'a str {
        self.domain
    }

    pub(super) async fn decide(&self, service: &Service, now: Time) -> Result<Reply, ServiceError> {
        let descriptors = [Descriptor::new(&self.entries)];
        let request = Request::new(self.domain, &descriptors).with_cost(self.cost);
        service.operate(&request, Operation::Check, now).await
    }

    /// The same where counters are in memory.
    pub(super) fn decide_at_once<T>(
        &self,
        service: &Service,
        now: Time,
        then: impl FnOnce(Result<&Reply, ServiceError>) -> T,
    ) -> Option<T> {
        let descriptors = [Descriptor::new(&self.entries)];
        let request = Request::new(self.domain, &descriptors).with_cost(self.cost);
        service.operate_at_once(&request, Operation::Check, now, then)
    }
}

/// Decides requests together where counters are in memory, and replies.
pub(super) fn answer_at_once(
    checks: &[&RespCheckRequest<'_>],
    service: &Service,
    now: Time,
    writer: &mut RespWriter<'_>,
) {
    let descriptors: SmallVec<[[Descriptor<'_>; 1]; RESP_PIPELINE]> =
        checks.iter().map(|check| [Descriptor::new(&check.entries)]).collect();
    let requests: SmallVec<[Request<'_>; RESP_PIPELINE]> = checks
        .iter()
        .zip(&descriptors)
        .map(|(check, descriptors)| Request::new(check.domain, descriptors).with_cost(check.cost))
        .collect();
    service.check_batch_at_once(&requests, now, |_, decided| write(decided, writer));
}

/// Writes what was decided.
pub(super) fn write(decided: Result<&Reply, ServiceError>, writer: &mut RespWriter<'_>) {
    match decided {
        Ok(decided) => reply(decided, writer),
        Err(error) => writer.error(&format_args!("ERR {error}")),
    }
}

/// The pairs without the cost, and the cost. Only the last of several pairs is a cost.
fn split_cost<'a, 'b>(pairs: &'b [&'a [u8]]) -> Result<(&'b [&'a [u8]], u64), RespCheckError> {
    let [entries @ .., name, cost] = pairs else { return Ok((pairs, 1)) };
    if entries.is_empty() || !name.eq_ignore_ascii_case(b"cost") {
        return Ok((pairs, 1));
    }
    let number = from_wire::integer(cost).and_then(|cost| u64::try_from(cost).ok());
    let number = number.ok_or_else(|| RespCheckError::Cost { word: Excerpt(cost).to_string() })?;
    Ok((entries, number))
}

fn entries<'a>(pairs: &[&'a [u8]]) -> Result<CheckEntries<'a>, RespCheckError> {
    let (pairs, rest) = pairs.as_chunks::<2>();
    if let [key] = rest {
        return Err(RespCheckError::NoValue { key: Excerpt(key).to_string() });
    }
    if pairs.len() > ENTRIES_MAX {
        return Err(RespCheckError::TooMany { found: pairs.len() });
    }
    let entry = |[key, value]: &[&'a [u8]; 2]| {
        Ok(Entry {
            key: from_wire::text("key", key, KEY_MAX)?,
            value: from_wire::text("value", value, VALUE_MAX)?,
        })
    };
    pairs.iter().map(entry).collect()
}

/// The fields of a reply.
struct RespCheckReply<'a> {
    verdict: &'static str,
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after: Option<Micros>,
    wait: Option<Micros>,
    reset_after: Option<Micros>,
    rule: &'a str,
    reason: Option<&'static str>,
    is_soft: bool,
}

impl<'a> RespCheckReply<'a> {
    fn new(reply: &'a Reply) -> Self {
        let (verdict, retry_after, wait) = match reply.verdict {
            Verdict::Deny { retry_after } => ("deny", retry_after, None),
            Verdict::Delay { wait } => ("delay", None, Some(wait)),
            Verdict::Allow => ("allow", None, None),
        };
        let rule = reply.binding().and_then(|decision| reply.rule(decision)).map_or("", |rule| rule.name());
        let exception = reply.exception();
        // Where no limit denies there are no numbers to tell.
        let decision = reply.binding().filter(|_| exception.is_none());
        Self {
            verdict,
            limit: decision.map(|decision| decision.limit),
            remaining: decision.map(|decision| decision.remaining),
            retry_after,
            wait,
            reset_after: decision.map(|decision| decision.reset_after),
            rule,
            reason: reply.binding().and_then(RuleDecision::reason),
            is_soft: reply.is_soft(),
        }
    }
}

/// Writes the reply.
fn reply(reply: &Reply, writer: &mut RespWriter<'_>) {
    let reply = RespCheckReply::new(reply);
    match writer.version() {
        RespVersion::Resp2 => flat(&reply, writer),
        RespVersion::Resp3 => map(&reply, writer),
    }
}

fn flat(reply: &RespCheckReply<'_>, writer: &mut RespWriter<'_>) {
    writer.array(6);
    writer.text(reply.verdict);
    let mut number = |value: Option<u64>| writer.integer(value.map_or(-1, signed));
    number(reply.limit);
    number(reply.remaining);
    number(reply.wait.or(reply.retry_after).map(Micros::as_millis_ceil));
    number(reply.reset_after.map(Micros::as_millis_ceil));
    writer.text(reply.rule);
}

fn map(reply: &RespCheckReply<'_>, writer: &mut RespWriter<'_>) {
    writer.map(7 + usize::from(reply.reason.is_some()) + usize::from(reply.is_soft));
    writer.text("verdict");
    writer.text(reply.verdict);
    let numbers = [
        ("limit", reply.limit),
        ("remaining", reply.remaining),
        ("retry_after_ms", reply.retry_after.map(Micros::as_millis_ceil)),
        ("wait_ms", reply.wait.map(Micros::as_millis_ceil)),
        ("reset_after_ms", reply.reset_after.map(Micros::as_millis_ceil)),
    ];
    for (name, value) in numbers {
        writer.text(name);
        match value {
            Some(value) => writer.integer(signed(value)),
            None => writer.null(),
        }
    }
    writer.text("rule");
    match reply.rule {
        "" => writer.null(),
        rule => writer.text(rule),
    }
    if let Some(reason) = reply.reason {
        writer.text("reason");
        writer.text(reason);
    }
    if reply.is_soft {
        writer.text("soft");
        writer.boolean(true);
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
