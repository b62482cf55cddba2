//! RESP: any Redis client can ask.
//!
//! A connection's bytes become commands, which are answered as they come: all
//! that arrive in one read are decided by one look at the clock and answered
//! in one write.
//!
//! | module | what it holds |
//! |---|---|
//! | `frame` | bytes → the words of a command |
//! | `from_wire` | words → numbers, keys, requests |
//! | `to_wire` | numbers, texts, maps → bytes, in RESP2 or RESP3 |
//! | `commands` | every command: its name, what it takes, what it is for |
//! | `session` | what a connection has said so far; who may ask what |
//! | `question` | commands that ask for decisions, answered together |
//! | `throttle` | `CL.THROTTLE` of redis-cell and `THROTTLE` of throttlecrab |
//! | `check` | `TOLLGATE.CHECK`, by the rules |
//! | `greet` | what ordinary clients send on connect |
//! | `serve` | connections, with TLS or without |
//! | `life` | how long a connection stays |
//!
//! Invariants: a command of usual size is answered without an allocation where
//! counters are in memory; a command that is framed well leaves the connection usable, whatever it says.
//!
//! Deliberately not here: data types, transactions, publishing, scripts.

mod check;
mod commands;
mod frame;
mod from_wire;
mod greet;
mod life;
mod question;
mod serve;
mod session;
mod throttle;
mod to_wire;

pub(crate) use serve::ServeResp;
