//! What is remembered of decisions while a server runs.
//!
//! The limiter offers every decision to [`Counting`], which adds to counts in
//! memory; every 15 seconds a [`Keeper`] writes them to its place, and it answers
//! questions about them.
//!
//! | module | what it holds |
//! |---|---|
//! | `routes` | the route of a request |
//! | `counting` | [`Counting`]: decisions become counts |
//! | `queue` | what is not written yet, and what was lost |
//! | `place` | [`Place`]: a folder, or Redis |
//! | `keeper` | [`Keeper`]: opens, writes, answers |
//! | `status` | how it is doing |
//!
//! Invariants: whoever decides never waits for this; a place that cannot be used
//! costs history and nothing else, and what is lost is told.
//!
//! Deliberately not here: how counts are kept (`tollgate_history`), and HTTP.

mod counting;
mod keeper;
mod place;
mod queue;
mod routes;
mod status;

pub use counting::Counting;
pub use keeper::{Keeper, Kept, Unanswered};
pub use place::Place;
pub use status::KeeperStatus;
