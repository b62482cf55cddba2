//! Tollgate in process: the limiter, its memory store and its clock.
//!
//! In the order in which a request passes through:
//!
//! | module | what it holds |
//! |---|---|
//! | [`limiter`] | [`Limiter`], the one service that everything calls |
//! | [`clock`] | [`Clock`]: where `now` comes from |
//! | [`store`] | [`Store`]: where state lives; all or nothing |
//! | [`memory`] | [`MemoryStore`]: sharded, bounded, in this process |
//! | [`reply`] | [`Reply`]: the answer, with one [`RuleDecision`] per limit met |
//! | [`pending`] | [`Pending`]: an answer now or later |
//! | [`event`] | [`Event`]s for whoever keeps count |
//!
//! The words and the maths are in [`tollgate_core`]; rule files are read by
//! `tollgate_rules`. `examples/embedded.rs` is a complete program.

pub mod clock;
pub mod event;
pub mod limiter;
pub mod memory;
pub mod pending;
pub mod reply;
pub mod store;

pub use clock::{Clock, ManualClock, SystemClock};
pub use event::{Event, EventSink, NoSink};
pub use limiter::Limiter;
pub use memory::snapshot::SnapshotError;
pub use memory::{Capacity, MemoryStore, Usage};
pub use pending::Pending;
pub use reply::{DescriptorReply, Reply, RuleDecision};
pub use store::{ChargeSet, Decisions, Denial, ImmediateStore, Store, StoreReply};
