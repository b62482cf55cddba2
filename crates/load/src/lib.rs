//! Loads a running server and measures it: what `tollgate bench` and the comparisons in `bench/` use.
//!
//! A [`Plan`] says which server gets which requests, how many and for how long; [`run`] carries it
//! out and returns a [`LoadReport`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`protocol`] | gRPC, HTTP or RESP |
//! | [`plan`] | which server, which requests, how many, for how long |
//! | [`transport`] | TCP with or without TLS |
//! | `keys` | which key comes next: uniform, or Zipf |
//! | `template` | a request as bytes with gaps for the key |
//! | `codec` | the protocols: request to bytes, bytes to verdict |
//! | `probe` | one request beforehand, so that mistakes are named at once |
//! | `connection` | one connection and its requests in flight |
//! | `worker` | a thread with some of the connections |
//! | `measurements` | verdicts and latencies |
//! | [`time`] | the wall clock, and the CPU time of a process |
//!
//! Invariants: in an open loop a latency counts from when a request was due, not from when it could
//! be sent, so that a server that stalls cannot hide it. Measuring never waits for progress reports.
//!
//! Deliberately not here: rules, limits, and starting a server.

mod codec;
mod connection;
pub mod error;
mod keys;
mod measurements;
pub mod plan;
mod probe;
pub mod protocol;
mod run;
mod template;
pub mod time;
pub mod transport;
mod worker;

pub use error::Error;
pub use measurements::{Latencies, VerdictCounts};
pub use plan::Plan;
pub use protocol::LoadProtocol;
pub use run::{LoadReport, Progress, run};
