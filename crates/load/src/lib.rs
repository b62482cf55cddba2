//! Loads a running server and measures it: what `tollgate bench` does.
//!
//! A [`Plan`] says whom to ask what, how often and for how long; [`run`] does
//! it and returns an [`Outcome`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | whom to ask what, how often, for how long |
//! | [`door`] | TLS and a password, and connections through them |
//! | `keys` | which key comes next: uniform, or Zipf |
//! | `template` | a request as bytes with room for the key |
//! | `wire` | the protocols: bytes of a question, verdict of an answer |
//! | `probe` | one question beforehand, so that mistakes are named at once |
//! | `line` | one connection, and what is on its way |
//! | `worker` | a thread with some of the connections |
//! | `tally` | what was answered, and after which time |
//! | `cpu` | the CPU time of a process |
//!
//! Invariants: in an open loop a latency counts from when a question was due,
//! not from when it could be sent, so that a server that stalls cannot hide it.
//! What is measured never waits for what is shown.
//!
//! Deliberately not here: rules, limits, and starting a server.

mod clock;
mod cpu;
pub mod door;
pub mod error;
mod keys;
mod line;
pub mod plan;
mod probe;
mod run;
mod tally;
mod template;
mod wire;
mod worker;

pub use error::Error;
pub use plan::Plan;
pub use run::{Outcome, Progress, run};
pub use tally::{Latencies, Verdicts};
