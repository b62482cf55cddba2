//! One limit across many nodes: the shared store on Redis.
//!
//! In the order in which a batch of charges passes through:
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | [`RedisConfig`]: which servers, read from what users write |
//! | [`store`] | [`RedisStore`]: a batch in, decisions out, always in time |
//! | [`keys`] | the names of counters |
//! | [`question`] | what a batch asks of a script |
//! | [`script`] | the scripts: the algorithms in Lua |
//! | [`round`] | requests that go in one call of a script |
//! | [`codec`] | what the script saw, as decisions |
//! | `course` | requests that several places decide, all or nothing |
//! | `denials` | who is denied until T does not ask before T |
//! | `envoy` | counters as envoyproxy/ratelimit keeps them |
//! | `backend` | the servers of one endpoint; a `cluster` of them |
//! | `node` | one server: a connection for each thread, and its `breaker` |
//! | `gather` | makes rounds of the requests of one moment |
//! | `dial` | makes a connection: sockets, `tls`, sentinels |
//! | `local` | what this node goes by without the store |
//! | `mend` | throws away what is not ours |
//! | [`stats`] | what the store counts about itself |
//! | [`history`] | the traffic history of all nodes, over the same connections |
//!
//! The script loads all states, decides all, and writes all or nothing, on the
//! clock of the server; [`codec`] takes the same steps again over the states
//! that the script saw, and so tells every detail of the decisions.
//!
//! Deliberately not here: a pool, a background thread on the path of a request,
//! and retries of what may have been done.

mod backend;
mod breaker;
mod cluster;
pub mod codec;
pub mod config;
mod course;
mod denials;
mod dial;
mod envoy;
pub mod error;
mod gather;
pub mod history;
pub mod keys;
mod local;
mod mend;
mod node;
pub mod question;
pub mod round;
pub mod script;
pub mod stats;
pub mod store;
mod tls;

pub use config::{Endpoint, RedisConfig};
pub use error::{Error, Trouble};
pub use stats::Stats;
pub use store::RedisStore;
