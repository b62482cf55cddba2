//! One limit across many nodes: the shared store on Redis.
//!
//! In the order in which a [`ChargeSet`](tollgate_limiter::ChargeSet) passes
//! through:
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | [`RedisConfig`]: which servers, read from what users write |
//! | [`store`] | [`RedisStore`]: a charge set in, decisions out, always in time |
//! | [`placement`] | where a charge lives: its key, its slot, the memory of denials, the local fallback |
//! | [`calls`] | how a server decides: scripts, their arguments, batch calls, connections, circuit breakers |
//! | [`stats`] | what the store counts about itself |
//! | [`error`] | why a store cannot be made, and why a server could not be asked |
//! | [`deferred`] | requests that are sent later, by any node |
//! | [`overrides`] | exceptions that operators make on one node and all nodes obey |
//! | [`history`] | the traffic history of all nodes, over the same connections |
//!
//! A script loads all states, decides all charges and writes all or nothing, on
//! the server's clock. [`calls::script_reply`] repeats its steps in Rust over
//! the states that the script read, and so knows every detail of the decisions.
//!
//! Deliberately not here: a connection pool, a background thread on the path of
//! a request, and retries of what a server may have done already.

pub mod calls;
pub mod config;
pub mod deferred;
pub mod error;
pub mod history;
pub mod overrides;
pub mod placement;
pub mod stats;
pub mod store;

pub use calls::tls::certificates_from_pem;
pub use config::{Endpoint, RedisConfig};
pub use error::{Error, StoreFailure};
pub use placement::keys;
pub use stats::{Stats, StoreNode};
pub use store::RedisStore;
