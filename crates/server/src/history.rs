//! The history of a running server: counts decisions, writes the counts, answers queries.
//!
//! The limiter offers every decision to a [`DecisionCounter`], which counts in memory;
//! every 15 seconds the [`HistoryService`] writes the counts, and it answers queries
//! about everything that was counted, written or not.
//!
//! | module | what it holds |
//! |---|---|
//! | `routes` | the route of a request |
//! | `decision_counter` | [`DecisionCounter`]: decisions become counts |
//! | `pseudonyms` | values that must not be read: marked, and hashed when they leave |
//! | `flush_queue` | flushes that are not written yet, and what was lost |
//! | `location` | [`HistoryLocation`]: a folder, or Redis |
//! | `service` | [`HistoryService`]: opens, writes, answers |
//! | `status` | how it is doing |
//!
//! Invariants: a decision never waits for history; a location that cannot be used costs
//! history and nothing else, and what is lost is reported; queries write nothing.
//!
//! Deliberately not here: how counts are kept (`tollgate_history`), and HTTP.

mod decision_counter;
mod flush_queue;
mod location;
mod pseudonyms;
mod routes;
mod service;
mod status;

pub(crate) use decision_counter::DecisionBatch;
pub use decision_counter::DecisionCounter;
pub use location::HistoryLocation;
pub use service::{HistoryQueryError, HistoryService};
pub use status::HistoryServiceStatus;
