//! Tollgate as a service: thin adapters around one limiter, and their wiring.
//!
//! Bytes come in on a listener, an adapter turns them into a
//! [`tollgate_core::Request`] (`from_wire`), asks the limiter, and turns the
//! reply into bytes (`to_wire`).
//!
//! | module | what it holds |
//! |---|---|
//! | [`mod@run`] | puts everything together, and runs it until it is told to stop |
//! | [`listen`] | sockets: what is listened on, who gets in, how long they stay |
//! | [`tls`] | TLS and mutual TLS, with certificates that change on disk |
//! | `resp` | `CL.THROTTLE`, `THROTTLE` and `TOLLGATE.CHECK` for Redis clients |
//! | [`grpc`] | Envoy's rate limit service, health and reflection |
//! | [`http`] | `/json` and `/healthcheck`, Tollgate's own `/v1`, and `/v1/authz` for proxies |
//! | `gateway` | the reverse proxy's connections, and what it asks |
//! | `deferred` | requests that are sent later: their queue, and the worker that sends them |
//! | [`admin`] | pages for operators and their tools: metrics, history, keys, rules, Prometheus' interface |
//! | [`service`] | the one thing that adapters call |
//! | [`store`] | where counters live |
//! | [`health`] | whether this server wants to be asked |
//! | [`source`] | where rules come from: files that change, xDS |
//! | [`history`] | what is remembered of decisions |
//! | [`explain`] | which rules a request meets, which one decides, and why |
//! | [`rule_usage`] | how close keys come to a limit, and what that says about the rule |
//! | [`telemetry`] | logs and traces |
//! | `turn` | giving way between the parts of a batch |
//! | [`bounds`] | every bound on what callers may send or hold |
//!
//! Deliberately not here: any decision about limits.

pub mod admin;
mod body;
pub mod bounds;
mod deferred;
pub mod error;
pub mod explain;
mod gateway;
pub mod grpc;
pub mod health;
pub mod history;
pub mod host_load;
pub mod http;
pub mod listen;
pub mod overrides;
mod resp;
pub mod rule_log;
pub mod rule_usage;
pub mod run;
pub mod service;
mod shutdown;
pub mod source;
pub mod store;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod tls;
mod turn;

pub use error::Error;
pub use listen::{Addresses, BoundTo, Listeners};
pub use run::{Control, run, workers};
