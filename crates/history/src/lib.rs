//! Traffic history: how many, of what, when, for years, in little space.
//!
//! A [`Recorder`] counts decisions and is flushed every 15 seconds; a [`History`]
//! keeps the flushes in ever coarser points; a [`query::HistoryReader`] answers.
//! The modules in the order of that flow:
//!
//! | module | what it holds |
//! |---|---|
//! | `label`, `row_id`, `counts`, [`route`] | what is counted: series, their numbers, counts by outcome |
//! | `recorder` | [`Recorder`]: counts while decisions are made, and chooses which names get a series |
//! | `lazy_heap` | the least of many numbers that grow: which name to drop |
//! | `flush` | [`Flush`]: what was counted since the last one, under an id |
//! | [`import`] | access logs of web servers become flushes |
//! | `bytes`, `codec` | varints and checksums; records, log entries and blocks made of them |
//! | [`tables`] | where the bytes are: memory, a folder, or a server that processes share |
//! | `tier` | how finely which past is kept |
//! | `store` | [`LocalHistory`] and [`SharedHistory`]: append, compact, roll up |
//! | [`query`] | [`query::HistoryReader`]: series, top lists, summaries; [`time_text`] reads times |
//! | [`promql`] | the same in Prometheus' query language |
//!
//! Invariants: `now` is an argument everywhere; names that clients make up never
//! take more room than their cap; totals are exact.
//!
//! Deliberately not here: the limiter and its events (a sink in the server calls
//! the recorder), the clock, timers, threads, HTTP.

mod bytes;
mod codec;
mod counts;
mod error;
mod flush;
pub mod import;
mod label;
mod lazy_heap;
pub mod promql;
pub mod query;
mod recorder;
pub mod route;
mod row_id;
mod store;
pub mod tables;
mod tier;
pub mod time_text;

pub use counts::{Counts, OUTCOMES};
pub use error::{Error, Result};
pub use flush::{AppendResult, Flush, FlushId, InstanceId, TrafficCounts};
pub use label::{Label, SeriesKind};
pub use recorder::{
    Caps, DecisionCount, FLUSH_EVERY_S, KeyText, KeyedDecision, NameFilter, Recorder, RecorderBatch,
    RequestCount, RuleName,
};
pub use store::{Bounds, History, LocalHistory, SharedHistory, retry_stale};
pub use tollgate_core::Outcome;

/// A hash map with the hasher that is used throughout; its seed is random.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
