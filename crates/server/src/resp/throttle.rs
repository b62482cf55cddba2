//! `CL.THROTTLE` of redis-cell and `THROTTLE` of throttlecrab.
//!
//! The caller brings the limit: a token bucket with a counter of its own. Both
//! commands share the counter of a key; they differ in how they count the
//! burst, in the order of the reply, and in the words of their errors.
//!
//! Invariants: replies are those of redis-cell 0.5, to the number, and those of
//! throttlecrab where it keeps its own promises. A limit is only built again when
//! a caller sends another one.
//!
//! Deliberately not here: the bucket itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Limit, LimitError, Micros, Refill, Shape, Time, Verdict};
use tollgate_limiter::{CallerCheck, LimitReply};

use super::from_wire::{self, Excerpt, TextError};
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

/// The limit that a connection used last.
#[derive(Debug, Default)]
pub(super) struct LimitCache(Option<(ThrottleNumbers, Arc<Limit>)>);

/// A `CL.THROTTLE` or `THROTTLE`.
#[derive(Debug)]
pub(super) struct ThrottleRequest<'a> {
    dialect: Dialect,
    key: &'a str,
    /// Shared, because a request is moved more often than it is made.
    limit: Arc<Limit>,
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
        last: &mut LimitCache,
    ) -> Result<Self, ThrottleError> {
        let (key, numbers, cost) = dialect.read(words)?;
        Ok(Self { dialect, key, limit: last.of(numbers)?, cost })
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) async fn decide(&self, service: &Service, now: Time) -> LimitReply {
        service.check_limit(self.key, &self.limit, self.cost, now).await
    }

    /// The same where counters are in memory.
    pub(super) fn decide_at_once(&self, service: &Service, now: Time) -> Option<LimitReply> {
        service.check_limit_at_once(self.key, &self.limit, self.cost, now)
    }
}

/// Decides requests together where counters are in memory, and replies.
pub(super) fn answer_at_once(
    requests: &[&ThrottleRequest<'_>],
    service: &Service,
    now: Time,
    writer: &mut RespWriter<'_>,
) {
    let checks: SmallVec<[CallerCheck<'_>; RESP_PIPELINE]> = requests
        .iter()
        .map(|request| CallerCheck { name: request.key, limit: &request.limit, cost: request.cost })
        .collect();
    service.check_limits_at_once(&checks, now, |at, reply| {
        if let Some(request) = requests.get(at) {
            request.dialect.reply(reply, writer);
        }
    });
}

impl LimitCache {
    fn of(&mut self, numbers: ThrottleNumbers) -> Result<Arc<Limit>, ThrottleError> {
        if let Some((last, limit)) = &self.0
            && *last == numbers
        {
            return Ok(Arc::clone(limit));
        }
        let ThrottleNumbers { burst, count, period_s } = numbers;
        let shape = Shape::TokenBucket { burst, refill: Refill::Smooth };
        let limit =
            Limit::new(count, Micros::from_secs(u64::from(period_s)), shape).map_err(ThrottleError::Limit)?;
        let limit = Arc::new(limit);
        self.0 = Some((numbers, Arc::clone(&limit)));
        Ok(limit)
    }
}

impl Dialect {
    /// The key, the numbers of the limit, and the cost.
    fn read<'a>(self, words: &[&'a [u8]]) -> Result<(&'a str, ThrottleNumbers, u64), ThrottleError> {
        let (key, burst, count, period, quantity) = match *words {
            [_, key, burst, count, period] => (key, burst, count, period, None),
            [_, key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
            _ => return Err(self.usage()),
        };
        let key = from_wire::text("key", key, VALUE_MAX).map_err(ThrottleError::Key)?;
        let burst = self.integer("max_burst", burst)?;
        let count = self.integer("count_per_period", count)?;
        let period = self.integer("period", period)?;
        let quantity = quantity.map_or(Ok(1), |word| self.integer("quantity", word))?;
        let cost = u64::try_from(quantity).map_err(|_| ThrottleError::Negative { quantity })?;
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
        Ok((key, numbers, cost))
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
