//! The vocabulary, the rules and the maths of Tollgate.
//!
//! A [`Request`] is matched against a [`RuleSet`], which yields [`Charge`]s.
//! A store decides each charge with [`decide`] over the key's [`State`], and
//! the [`Decision`]s make up the reply to the request.
//! The files follow that order:
//!
//! | module | what it holds |
//! |---|---|
//! | [`time`] | [`Time`] and [`Micros`], whole microseconds below 2^53 |
//! | `duration` | `1m30s` → [`Micros`] |
//! | [`request`] | [`Request`], [`Descriptor`], [`Entry`], [`Override`] |
//! | `pace` | the time that tokens take, to the fraction of a microsecond |
//! | `plain_bucket`, `reciprocal` | [`PlainBucket`]: the short way of a check of cost 1; divisions without dividing |
//! | [`limit`] | [`Limit`]: the numbers of a rule, checked once |
//! | [`list`] | [`list::ExceptionLists`]: who is let pass or denied whatever is counted |
//! | [`rule`] | [`Rule`] and the specification a [`RuleSet`] is built from |
//! | [`ruleset`] | [`RuleSet`]: which rules a request meets |
//! | [`key`] | [`Key`]: the identity of one counter |
//! | [`limit_builder`] | [`LimitBuilder`]: `Limit::per_second(10).burst(20)` |
//! | [`charge`] | [`Charge`]: rule + key + limit + cost |
//! | [`decision`] | [`Verdict`] and [`Decision`] |
//! | [`outcome`] | [`Outcome`]: how a request or a decision is counted |
//! | [`state`] | [`State`]: what a store keeps per key, packed |
//! | [`algorithm`] | [`decide`], one file per algorithm |
//! | `secret` | [`Secret`]: a text that nobody prints by accident |
//! | `short_text` | whether two short texts are the same |
//! | [`penalty`], [`strikes`] | who is denied too often is blocked: the numbers, and what is known of a key |
//! | `packed_log`, `varint` | [`Log`]: the entries of a window in bits |
//! | `state_bytes`, `state_text`, `written_log` | a state as stores write it |
//!
//! Invariant: nothing here does I/O, reads a clock, allocates per matched
//! rule, or uses a floating point number. Every quantity fits in 53 bits, so
//! that the same steps can be taken with doubles (see `spec/algorithms/`).
//!
//! Deliberately not here: rule files, stores, locks, async, serialisation.

pub mod algorithm;
pub mod charge;
pub mod decision;
mod duration;
pub mod key;
pub mod limit;
pub mod limit_builder;
pub mod list;
pub mod metadata;
pub mod outcome;
pub mod owned_request;
mod pace;
mod packed_log;
mod pattern;
pub mod penalty;
mod plain_bucket;
mod reciprocal;
pub mod request;
pub mod rule;
pub mod ruleset;
mod secret;
mod short_text;
pub mod state;
mod state_bytes;
mod state_text;
pub mod strikes;
pub mod time;
mod varint;
mod written_log;

pub use algorithm::{Change, Operation, decide, decide_cell};
pub use charge::Charge;
pub use decision::{Decision, Verdict};
pub use duration::DurationError;
pub use key::Key;
pub use limit::{Algorithm, KeyTag, Limit, LimitError, OnStoreError, Parameters, Refill, Shape, StateForm};
pub use limit_builder::LimitBuilder;
pub use metadata::MetadataValue;
pub use outcome::{Outcome, OutcomeFlags};
pub use owned_request::{DescriptorText, OwnedRequest};
pub use penalty::{Penalty, PenaltyError};
pub use plain_bucket::{PlainBucket, PlainCheck};
pub use request::{Descriptor, Entry, Override, Request};
pub use rule::{Mode, OverLimit, Rule, RuleId, Unit};
pub use ruleset::{RuleError, RuleSet};
pub use secret::Secret;
pub use state::{Cell, Log, State, StateRef};
pub use strikes::PenaltyStep;
pub use time::{Micros, Time};
