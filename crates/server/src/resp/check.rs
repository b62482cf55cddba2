//! `TOLLGATE.CHECK domain key value [key value …] [COST n]`, by the rules.
//!
//! The pairs are the entries of one descriptor, outermost first. The reply is
//! that of the limit that binds: an array in RESP2, a map in RESP3.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Micros, Operation, Request, Time, Verdict};
use tollgate_limiter::{Reply, RuleDecision};

use super::from_wire::{self, Excerpt, ReadText, TextError};
use super::to_wire::{RespVersion, RespWriter};
use crate::bounds::{ENTRIES_MAX, KEY_MAX, RESP_PIPELINE, VALUE_MAX};
use crate::service::{Service, ServiceError};

/// The entries of the requests of a pipeline, one request after the other: a request is then small, and is
/// moved several times.
pub(super) type PipelineEntries<'a> = SmallVec<[Entry<'a>; ENTRIES_USUAL]>;

/// One request mostly has no more entries; more cost an allocation.
const ENTRIES_USUAL: usize = 4;

/// A `TOLLGATE.CHECK`.
#[derive(Debug)]
pub(super) struct RespCheckRequest<'a> {
    domain: &'a str,
    /// Where its entries are among those of the pipeline.
    entries: Range<usize>,
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
    pub(super) fn new(
        words: &[&'a [u8]],
        text: &ReadText<'a>,
        entries: &mut PipelineEntries<'a>,
    ) -> Result<Self, RespCheckError> {
        let [_, domain, pairs @ ..] = words else {
            return Err(RespCheckError::NoValue { key: String::new() });
        };
        let (pairs, cost) = split_cost(pairs)?;
        let first = entries.len();
        let domain = push_entries(pairs, text, entries)
            .and_then(|()| text.text("domain", domain, KEY_MAX).map_err(RespCheckError::Text));
        if domain.is_err() {
            entries.truncate(first);
        }
        Ok(Self { domain: domain?, entries: first..entries.len(), cost })
    }

    pub(super) const fn domain(&self) -> &'a str {
        self.domain
    }

    fn descriptor<'e>(&self, entries: &'e [Entry<'a>]) -> Descriptor<'e> {
        let own = entries.get(self.entries.clone());
        Descriptor::new(own.expect("the entries of a request are put there when the request is made"))
    }

    pub(super) async fn decide(
        &self,
        entries: &[Entry<'_>],
        service: &Service,
        now: Time,
    ) -> Result<Reply, ServiceError> {
        let descriptors = [self.descriptor(entries)];
        let request = Request::new(self.domain, &descriptors).with_cost(self.cost);
        service.operate(&request, Operation::Check, now).await
    }

    /// The same where counters are in memory.
    pub(super) fn decide_at_once<T>(
        &self,
        entries: &[Entry<'_>],
        service: &Service,
        now: Time,
        then: impl FnOnce(Result<&Reply, ServiceError>) -> T,
    ) -> Option<T> {
        let descriptors = [self.descriptor(entries)];
        let request = Request::new(self.domain, &descriptors).with_cost(self.cost);
        service.operate_at_once(&request, Operation::Check, now, then)
    }
}

/// Decides requests together where counters are in memory, and replies.
pub(super) fn answer_at_once<'r, 'a: 'r>(
    checks: impl Iterator<Item = &'r RespCheckRequest<'a>> + Clone,
    entries: &[Entry<'a>],
    service: &Service,
    now: Time,
    writer: &mut RespWriter<'_>,
) {
    // Filled where they are: a list that is collected is moved with all its room, which is kilobytes.
    let mut descriptors: SmallVec<[[Descriptor<'_>; 1]; RESP_PIPELINE]> = SmallVec::new();
    descriptors.extend(checks.clone().map(|check| [check.descriptor(entries)]));
    let mut requests: SmallVec<[Request<'_>; RESP_PIPELINE]> = SmallVec::new();
    requests.extend(
        checks
            .zip(&descriptors)
            .map(|(check, descriptors)| Request::new(check.domain, descriptors).with_cost(check.cost)),
    );
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

fn push_entries<'a>(
    pairs: &[&'a [u8]],
    text: &ReadText<'a>,
    entries: &mut PipelineEntries<'a>,
) -> Result<(), RespCheckError> {
    let (pairs, rest) = pairs.as_chunks::<2>();
    if let [key] = rest {
        return Err(RespCheckError::NoValue { key: Excerpt(key).to_string() });
    }
    if pairs.len() > ENTRIES_MAX {
        return Err(RespCheckError::TooMany { found: pairs.len() });
    }
    for [key, value] in pairs {
        let key = text.text("key", key, KEY_MAX)?;
        entries.push(Entry { key, value: text.text("value", value, VALUE_MAX)? });
    }
    Ok(())
}

/// The fields of a reply.
struct RespCheckReply<'a> {
    verdict: Verdict,
    /// None where no limit denies: then there are no numbers to tell.
    decision: Option<&'a RuleDecision>,
    rule: &'a str,
    reason: Option<&'static str>,
    is_soft: bool,
}

impl<'a> RespCheckReply<'a> {
    fn new(reply: &'a Reply) -> Self {
        let binding = reply.binding();
        Self {
            verdict: reply.verdict,
            decision: binding.filter(|_| !reply.verdict.is_deny() || reply.exception().is_none()),
            rule: binding.and_then(|decision| reply.rule(decision)).map_or("", |rule| rule.name()),
            reason: binding.and_then(RuleDecision::reason),
            is_soft: reply.is_soft(),
        }
    }

    fn limit(&self) -> Option<u64> {
        self.decision.map(|decision| decision.limit)
    }

    fn remaining(&self) -> Option<u64> {
        self.decision.map(|decision| decision.remaining)
    }

    fn reset_after_ms(&self) -> Option<u64> {
        self.decision.map(|decision| decision.reset_after.as_millis_ceil())
    }

    fn retry_after_ms(&self) -> Option<u64> {
        match self.verdict {
            Verdict::Deny { retry_after } => retry_after.map(Micros::as_millis_ceil),
            Verdict::Allow | Verdict::Delay { .. } => None,
        }
    }

    const fn wait_ms(&self) -> Option<u64> {
        match self.verdict {
            Verdict::Delay { wait } => Some(wait.as_millis_ceil()),
            Verdict::Allow | Verdict::Deny { .. } => None,
        }
    }
}

/// Writes the reply.
fn reply(reply: &Reply, writer: &mut RespWriter<'_>) {
    match writer.version() {
        RespVersion::Resp2 => flat(&RespCheckReply::new(reply), writer),
        RespVersion::Resp3 => map(&RespCheckReply::new(reply), writer),
    }
}

fn flat(reply: &RespCheckReply<'_>, writer: &mut RespWriter<'_>) {
    // An array of six, and the verdict.
    writer.ready(match reply.verdict {
        Verdict::Allow => b"*6\r\n$5\r\nallow\r\n",
        Verdict::Delay { .. } => b"*6\r\n$5\r\ndelay\r\n",
        Verdict::Deny { .. } => b"*6\r\n$4\r\ndeny\r\n",
    });
    let mut number = |value: Option<u64>| match value {
        Some(value) => writer.integer(signed(value)),
        None => writer.ready(b":-1\r\n"),
    };
    number(reply.limit());
    number(reply.remaining());
    number(reply.wait_ms().or_else(|| reply.retry_after_ms()));
    number(reply.reset_after_ms());
    writer.text(reply.rule);
}

fn map(reply: &RespCheckReply<'_>, writer: &mut RespWriter<'_>) {
    writer.map(7 + usize::from(reply.reason.is_some()) + usize::from(reply.is_soft));
    writer.text("verdict");
    writer.text(reply.verdict.word());
    let numbers = [
        ("limit", reply.limit()),
        ("remaining", reply.remaining()),
        ("retry_after_ms", reply.retry_after_ms()),
        ("wait_ms", reply.wait_ms()),
        ("reset_after_ms", reply.reset_after_ms()),
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
