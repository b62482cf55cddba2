//! RESP: any Redis client can ask for decisions.
//!
//! A connection's bytes become commands. All that arrive in one read are decided
//! at one instant and answered in one write.
//!
//! | module | what it holds |
//! |---|---|
//! | `frame` | bytes → the words of a command |
//! | `from_wire` | words → numbers, keys, requests |
//! | `to_wire` | numbers, texts, maps → bytes, in RESP2 or RESP3 |
//! | `commands` | every command: its name, its arguments, what it is for |
//! | `session` | what is known about a connection; what a command leads to; what clients send on connect |
//! | `request` | commands that ask for decisions, sent to a store together |
//! | `throttle` | `CL.THROTTLE` of redis-cell and `THROTTLE` of throttlecrab |
//! | `check` | `TOLLGATE.CHECK`, by the rules |
//! | `serve` | connections |
//!
//! Invariants: with counters in memory a command of usual size is answered
//! without an allocation; a well-framed command leaves the connection usable,
//! whatever it says.
//!
//! Deliberately not here: data types, transactions, publishing, scripts.

mod check;
mod commands;
mod frame;
mod from_wire;
mod request;
mod serve;
mod session;
mod throttle;
mod to_wire;

pub(crate) use serve::ServeResp;
