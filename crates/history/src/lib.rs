//! Traffic history: how many, of what, when, for years, in little space.
//!
//! Decisions are counted by a [`Recorder`] and flushed every 15 seconds; a
//! [`History`] keeps the flushes in ever coarser steps and answers questions.
//! The files follow that order:
//!
//! | module | what it holds |
//! |---|---|
//! | `counts`, `label`, [`route`] | what is counted, and under which names |
//! | `recorder` | [`Recorder`]: counts while decisions are made; which names get a series |
//! | `flush` | [`Flush`]: what was counted since the last time, under a name of its own |
//! | `codec` | records and blocks as bytes |
//! | [`engine`] | where bytes are kept: memory, a folder, or what several processes share |
//! | `tier` | how finely which past is kept |
//! | `store` | [`History`]: append, fold, roll up |
//! | [`query`] | series, top lists, summaries; [`when`] reads points in time |
//! | [`promql`] | the same questions in the language of Prometheus |
//! | `least` | whom to forget: the least of many numbers that grow |
//! | [`access_log`], [`import`] | the logs of web servers fill a history |
//!
//! Invariants: `now` is an argument everywhere; what a client makes up never
//! takes more room than its cap; totals are exact.
//!
//! Deliberately not here: the limiter and its events (a sink in the server calls
//! the recorder), the clock, timers, threads, HTTP.

pub mod access_log;
mod codec;
mod counts;
pub mod engine;
mod error;
mod flush;
pub mod import;
mod label;
mod least;
pub mod promql;
pub mod query;
mod recorder;
pub mod route;
mod store;
mod tier;
pub mod when;

pub use counts::{Counts, OUTCOMES};
pub use error::{Error, Result};
pub use flush::{Appended, Flush, FlushName, Instance, Tally};
pub use label::{By, Label};
pub use recorder::{Caps, DecisionCount, FLUSH_EVERY_S, Filter, Recorder, RequestCount};
pub use store::{Bounds, History};
pub use tollgate_core::Outcome;

/// A hash map with the hasher that is used throughout; its seed is random.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
