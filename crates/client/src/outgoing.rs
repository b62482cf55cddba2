//! Keeps calls to any HTTP server within what that server says: a tower layer for outgoing calls.
//!
//! A call is answered from the cache if HTTP allows it. Otherwise it waits for its turn at its host,
//! goes out, and what comes back is learnt from. A 429 or 503 is tried again after the time that was
//! told, if the request may be sent twice and the retry budget has something left.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | what callers choose |
//! | [`service`] | [`OutgoingLayer`], [`OutgoingService`]: one call from end to end |
//! | `response_limits` | what a response says about limits, in every usual form |
//! | `paces` | whose turn it is at each host |
//! | `budget` | how many retries there may be |
//! | `cache` | answers that may be used again |
//! | [`body`] | bodies as they come, kept along the way, or from the cache |
//!
//! Invariants: nothing goes to a host before the time that it told; a call waits no longer than
//! `max_wait` in all; however many calls are refused, retries stay within the budget.
//!
//! Deliberately not here: retries after errors of the connection, which are the inner service's.

pub mod body;
mod budget;
mod cache;
mod paces;
mod response_limits;
pub mod service;
pub mod settings;

#[cfg(test)]
mod tests;

pub use body::OutgoingBody;
pub use service::{NotSent, OutgoingLayer, OutgoingService};
pub use settings::{CacheSettings, OutgoingSettings, RetryBudget};
