//! `CL.THROTTLE` of redis-cell and `THROTTLE` of throttlecrab.
//!
//! The caller brings the limit: a token bucket with a counter of its own. Both
//! commands share the counter of a key; they differ in how they count the
//! burst, in the order of the reply, and in the words of their errors.
//!
//! Invariants: replies are those of redis-cell 0.5, to the number, and those of
//! throttlecrab where it keeps its own promises. A limit is only built again when
//! a caller sends other words.
//!
//! Deliberately not here: the bucket itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Limit, LimitError, Micros, Refill, Shape, Time, Verdict};
use tollgate_limiter::{CallerCheck, LimitReply};

use super::from_wire::{self, Excerpt, ReadText, TextError};
use super::to_wire::RespWriter;
use crate::bounds::{RESP_PIPELINE, VALUE_MAX};
use crate::service::Service;

/// Whose command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// redis-cell: the burst comes on top of one.
    Cell,
    /// throttlecrab: the burst is all there is.
    Crab,
}

/// The numbers of a limit, as they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThrottleNumbers {
    burst: u32,
    count: u32,
    period_s: u32,
}

/// The limit that a connection used last, and the words that made it: most callers send the same ones each
/// time, and comparing them takes less than reading them.
#[derive(Debug, Default)]
pub(super) struct LimitCache(Option<LastLimit>);

#[derive(Debug)]
struct LastLimit {
    dialect: Dialect,
    words: [SmallVec<[u8; NUMBER_BYTES_KEPT]>; 3],
    limit: Arc<Limit>,
}

/// A limit whose numbers are longer is not found again. None needs to be, and a connection keeps little.
const NUMBER_BYTES_KEPT: usize = 16;

/// The limits of the requests of a pipeline.
#[derive(Debug, Default)]
pub(super) struct PipelineLimits(SmallVec<[Arc<Limit>; 1]>);

impl PipelineLimits {
    /// Where this one is.
    fn place(&mut self, limit: &Arc<Limit>) -> usize {
        if !self.0.last().is_some_and(|last| Arc::ptr_eq(last, limit)) {
            self.0.push(Arc::clone(limit));
        }
        self.0.len() - 1
    }

    fn get(&self, place: usize) -> &Limit {
        self.0.get(place).expect("the limit of a request is put there when the request is made")
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A `CL.THROTTLE` or `THROTTLE`.
#[derive(Debug)]
pub(super) struct ThrottleRequest<'a> {
    dialect: Dialect,
    key: &'a str,
    /// Where its limit is among those of the pipeline.
    limit: usize,
    cost: u64,
}

/// Why nothing is decided. The texts are those of the peers where they have any.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ThrottleError {
    #[error(
        "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
    )]
    CellUsage,
    #[error("Cell error: Store error: Couldn't parse as integer: {word}")]
    CellInteger { word: String },
    #[error("Cell error: Store error: Zero rates are not supported")]
    CellZeroRate,
    #[error(
        "ERR wrong number of arguments for 'throttle' command; \
         send THROTTLE key max_burst count period [quantity]"
    )]
    CrabUsage,
    #[error("ERR invalid {what}; send a whole number instead of '{word}'")]
    CrabInteger { what: &'static str, word: String },
    #[error("ERR invalid rate limit parameters; send max_burst, count and period of 1 or more")]
    CrabRate,
    #[error("ERR {what} {value} is out of range; send {least} to {most}")]
    Range { what: &'static str, value: i64, least: u32, most: u32 },
    #[error("ERR negative quantity: {quantity}; send 0 to peek, or 1 and more to take")]
    Negative { quantity: i64 },
    #[error("ERR {0}")]
    Key(TextError),
    #[error("ERR these numbers make no limit: {0}")]
    Limit(LimitError),
}

impl<'a> ThrottleRequest<'a> {
    /// The request that these words make.
    pub(super) fn new(
        dialect: Dialect,
        words: &[&'a [u8]],
        text: &ReadText<'a>,
        last: &mut LimitCache,
        limits: &mut PipelineLimits,
    ) -> Result<Self, ThrottleError> {
        let (key, numbers, quantity) = match *words {
            [_, key, burst, count, period] => (key, [burst, count, period], None),
            [_, key, burst, count, period, quantity] => (key, [burst, count, period], Some(quantity)),
            _ => return Err(dialect.usage()),
        };
        let key = text.text("key", key, VALUE_MAX).map_err(ThrottleError::Key)?;
        if let Some(limit) = last.find(dialect, numbers) {
            let cost = dialect.cost(quantity)?;
            return Ok(Self { dialect, key, limit: limits.place(limit), cost });
        }
        let (read, cost) = dialect.read(numbers, quantity)?;
        let limit = Arc::new(read.limit()?);
        last.keep(dialect, numbers, &limit);
        Ok(Self { dialect, key, limit: limits.place(&limit), cost })
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) async fn decide(&self, limits: &PipelineLimits, service: &Service, now: Time) -> LimitReply {
        service.check_limit(self.key, limits.get(self.limit), self.cost, now).await
    }

    /// The same where counters are in memory.
    pub(super) fn decide_at_once(
        &self,
        limits: &PipelineLimits,
        service: &Service,
        now: Time,
    ) -> Option<LimitReply> {
        service.check_limit_at_once(self.key, limits.get(self.limit), self.cost, now)
    }
}

/// Decides requests together where counters are in memory, and replies.
pub(super) fn answer_at_once<'r, 'a: 'r>(
    requests: impl Iterator<Item = &'r ThrottleRequest<'a>>,
    limits: &PipelineLimits,
    service: &Service,
    now: Time,
    writer: &mut RespWriter<'_>,
) {
    let (mut dialects, mut checks) =
        (SmallVec::<[Dialect; RESP_PIPELINE]>::new(), SmallVec::<[CallerCheck<'_>; RESP_PIPELINE]>::new());
    for request in requests {
        dialects.push(request.dialect);
        checks.push(CallerCheck { name: request.key, limit: limits.get(request.limit), cost: request.cost });
    }
    service.check_limits_at_once(&checks, now, |at, reply| {
        if let Some(dialect) = dialects.get(at) {
            dialect.reply(reply, writer);
        }
    });
}

impl LimitCache {
    /// The limit that these words made last.
    fn find(&self, dialect: Dialect, numbers: [&[u8]; 3]) -> Option<&Arc<Limit>> {
        let last = self.0.as_ref().filter(|last| last.dialect == dialect)?;
        last.words.iter().zip(numbers).all(|(own, word)| own.as_slice() == word).then_some(&last.limit)
    }

    /// Keeps the limit that these words made.
    fn keep(&mut self, dialect: Dialect, words: [&[u8]; 3], limit: &Arc<Limit>) {
        if words.iter().all(|word| word.len() <= NUMBER_BYTES_KEPT) {
            let words = words.map(SmallVec::from_slice);
            self.0 = Some(LastLimit { dialect, words, limit: Arc::clone(limit) });
        }
    }
}

impl ThrottleNumbers {
    fn limit(self) -> Result<Limit, ThrottleError> {
        let Self { burst, count, period_s } = self;
        let shape = Shape::TokenBucket { burst, refill: Refill::Smooth };
        Limit::new(count, Micros::from_secs(u64::from(period_s)), shape).map_err(ThrottleError::Limit)
    }
}

impl Dialect {
    /// The numbers of the limit, and the cost.
    fn read(
        self,
        [burst, count, period]: [&[u8]; 3],
        quantity: Option<&[u8]>,
    ) -> Result<(ThrottleNumbers, u64), ThrottleError> {
        let burst = self.integer("max_burst", burst)?;
        let count = self.integer("count_per_period", count)?;
        let period = self.integer("period", period)?;
        let cost = self.cost(quantity)?;
        let is_zero = match self {
            Self::Cell => count == 0 || period == 0,
            Self::Crab => burst <= 0 || count <= 0 || period <= 0,
        };
        if is_zero {
            return Err(if self == Self::Cell {
                ThrottleError::CellZeroRate
            } else {
                ThrottleError::CrabRate
            });
        }
        let extra = u32::from(self == Self::Cell);
        let numbers = ThrottleNumbers {
            burst: ranged("max_burst", burst, 1 - extra, u32::MAX - extra)? + extra,
            count: ranged("count", count, 1, u32::MAX)?,
            period_s: ranged("period", period, 1, u32::MAX)?,
        };
        Ok((numbers, cost))
    }

    fn cost(self, quantity: Option<&[u8]>) -> Result<u64, ThrottleError> {
        let quantity = quantity.map_or(Ok(1), |word| self.integer("quantity", word))?;
        u64::try_from(quantity).map_err(|_| ThrottleError::Negative { quantity })
    }

    const fn usage(self) -> ThrottleError {
        match self {
            Self::Cell => ThrottleError::CellUsage,
            Self::Crab => ThrottleError::CrabUsage,
        }
    }

    fn integer(self, what: &'static str, word: &[u8]) -> Result<i64, ThrottleError> {
        from_wire::integer(word).ok_or_else(|| {
            let word = Excerpt(word).to_string();
            match self {
                Self::Cell => ThrottleError::CellInteger { word },
                Self::Crab => ThrottleError::CrabInteger { what, word },
            }
        })
    }

    /// Writes the reply.
    pub(super) fn reply(self, reply: &LimitReply, writer: &mut RespWriter<'_>) {
        let decision = &reply.decision;
        let is_denied = reply.verdict.is_deny();
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let retry_after = match reply.verdict {
            Verdict::Deny { retry_after } => Some(retry_after),
            Verdict::Allow | Verdict::Delay { .. } => None,
        };
        let values = match self {
            Self::Cell => [
                i64::from(is_denied),
                number(decision.limit),
                number(decision.remaining),
                // Neither a wait that is not needed nor one without end is a number.
                retry_after.flatten().map_or(-1, cell_seconds),
                cell_seconds(decision.reset_after),
            ],
            Self::Crab => [
                i64::from(!is_denied),
                number(decision.limit),
                number(decision.remaining),
                number(decision.reset_after.as_secs_ceil()),
                retry_after.map_or(0, |wait| wait.map_or(-1, |wait| number(wait.as_secs_ceil()))),
            ],
        };
        writer.array(values.len());
        values.into_iter().for_each(|value| writer.integer(value));
    }
}

/// Seconds as redis-cell has them: up if any whole millisecond is left over.
fn cell_seconds(span: Micros) -> i64 {
    i64::try_from((span.get() / 1_000).div_ceil(1_000)).unwrap_or(i64::MAX)
}

fn ranged(what: &'static str, value: i64, least: u32, most: u32) -> Result<u32, ThrottleError> {
    let ranged = u32::try_from(value).ok().filter(|value| (least..=most).contains(value));
    ranged.ok_or(ThrottleError::Range { what, value, least, most })
}
