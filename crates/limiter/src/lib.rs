//! Tollgate in process: the limiter, its memory store and its clock.
//!
//! In the order in which a request passes through:
//!
//! | module | what it holds |
//! |---|---|
//! | [`limiter`] | [`Limiter`], the one service that everything calls |
//! | [`prepared`] | [`PreparedCheck`]: a check whose keys are known beforehand |
//! | `rules_in_force` | the rules of a limiter, and what is worked out once for each |
//! | `lookup` | what a request is charged for, and what lists say about it |
//! | [`overrides`] | [`overrides::OverrideTable`]: limits that operators bend for a while |
//! | [`keyed`] | [`KeyedLimiter`]: one limit over keys of a type, without rules |
//! | [`clock`] | [`Clock`]: where `now` comes from |
//! | `ticks` | the processor's counter as a clock |
//! | [`charge_set`] | [`ChargeSet`]: the charges of one request; all or nothing |
//! | [`store`] | [`Store`]: where state lives |
//! | [`memory`] | [`MemoryStore`]: sharded, bounded, in this process |
//! | [`reply`] | [`Reply`]: the answer, with one [`RuleDecision`] per limit met |
//! | [`limit_reply`] | [`LimitReply`]: the same for a limit that the caller brings along |
//! | [`pending`] | [`Pending`]: an answer now or later |
//! | [`event`] | [`Event`]s for whoever keeps count |
//!
//! The words and the maths are in [`tollgate_core`]; rule files are read by
//! `tollgate_rules`. `examples/embedded.rs` is a complete program.

pub mod charge_set;
pub mod clock;
pub mod event;
pub mod keyed;
pub mod limit_reply;
pub mod limiter;
pub mod load;
mod lookup;
pub mod memory;
pub mod overrides;
pub mod pending;
pub mod prepared;
pub mod reply;
mod rules_in_force;
mod rules_lease;
pub mod store;
mod ticks;

pub use clock::{Clock, ManualClock, SystemClock};
pub use event::{Event, EventBatch, EventSink, LimitEvent, NoSink};
pub use keyed::KeyedLimiter;
pub use limit_reply::LimitReply;
pub use limiter::{CallerCheck, Limiter};
pub use load::{Load, LoadGauge, LoadReading, LoadSource};
pub use memory::snapshot::SnapshotError;
pub use memory::{Capacity, MemoryStore, Usage};
pub use pending::Pending;
pub use prepared::{PreparedCheck, PreparedReply};
pub use reply::{DescriptorReply, Exception, Reply, RuleDecision};
/// The programs of the guide are compiled and run.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../docs/guide/library.md")]
struct Guide;

pub use charge_set::{ChargeFlags, ChargeSet, Decisions, Denial};
pub use store::{ImmediateStore, Store, StoreReply};
