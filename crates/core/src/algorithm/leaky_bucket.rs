//! A queue that drains at a rate: departures evenly spaced, first in, first out.
//! Page: `spec/algorithms/leaky_bucket.md`.
//!
//! State: the instant at which the next request may leave at once, to the
//! fraction of a microsecond. It is a token bucket seen from the other side:
//! what is missing there is the wait here, and `burst` waiting requests behind
//! one that leaves at once are a bucket of `burst + 1`.

use super::Ask;
use super::UsageStep;
use super::token_bucket::{is_soft, span_change, step_missing};
use crate::algorithm::Change;
use crate::decision::{Decision, Verdict};
use crate::pace::Span;
use crate::state::Cell;
use crate::time::Micros;

pub(super) fn decide<S: From<Cell>>(
    cell: Option<Cell>,
    ask: &Ask<'_>,
    max_wait: Option<Micros>,
) -> (Decision, Change<S>) {
    let pace = ask.limit.pace;
    let longest = max_wait.map(Span::of);
    let take = ask.limit.cost_span(ask.cost);
    let queue = pace.until(cell, ask.now);
    let joinable = joinable(ask, ask.limit.most_missing(take), longest);
    let step = ask.step(queue <= joinable && ask.can_ever_fit());
    let after = step_missing(ask, step, queue, take);
    let verdict = match step {
        UsageStep::GiveBack => Verdict::Allow,
        UsageStep::Take => leaves_after(ask, queue),
        UsageStep::Deny | UsageStep::CountDenied => {
            let wait = pace.sub(after, joinable).ceil();
            Verdict::Deny { retry_after: ask.can_ever_fit().then_some(wait) }
        }
    };
    let decision = Decision {
        reset_after: after.ceil(),
        soft: is_soft(ask, verdict, after),
        ..ask.decision(verdict, ask.limit.missing_tokens(after))
    };
    let remaining = longest.map_or(decision.remaining, |longest| remaining(ask, after, longest));
    let decision = Decision { remaining, ..decision };
    (decision, span_change(ask, step, after))
}

/// The longest queue that a request may join: there is room behind it, and it
/// drains in time. A cost of zero takes no place and does not wait.
fn joinable(ask: &Ask<'_>, with_room: Span, longest: Option<Span>) -> Span {
    match longest {
        Some(longest) if ask.cost > 0 => with_room.min(longest),
        Some(_) | None => with_room,
    }
}

/// A report has already happened, and a cost of zero takes no place.
fn leaves_after(ask: &Ask<'_>, queue: Span) -> Verdict {
    match queue.ceil() {
        Micros::ZERO => Verdict::Allow,
        _ if ask.cost == 0 || ask.operation == super::Operation::Report => Verdict::Allow,
        wait => Verdict::Delay { wait },
    }
}

/// How many requests of cost 1 still find a place, and leave in time.
fn remaining(ask: &Ask<'_>, queue: Span, longest: Span) -> u64 {
    let pace = ask.limit.pace;
    let places = pace.sub(ask.limit.base_span, queue);
    if queue > longest {
        return 0;
    }
    // The last one may wait as long as that, and those before it leave one token's time apart.
    pace.tokens(places.min(pace.add(pace.sub(longest, queue), ask.limit.cost_span(1))))
}
