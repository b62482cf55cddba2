//! Asks a Tollgate server, over HTTP or gRPC.
//!
//! [`Client`] has check, peek, report and refund. It keeps its connections, bounds every call in time,
//! makes a call again only if it was certainly not decided, and does not ask again about what was denied
//! before the time that the server told.
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | [`Client`] |
//! | [`settings`] | timeouts, retries, what stands in for a server that is away |
//! | [`reply`] | what a server answered |
//! | `denials` | what it denied, until when |
//! | [`mod@backoff`] | exponential back-off with full jitter |
//! | `retry_after` | the field `Retry-After` |
//! | `v1_wire`, `grpc_wire` | the bytes of both protocols |
//! | `transport` | connections |
//! | `expiring_map` | a bounded map whose entries end |
//! | [`bounds`] | every bound |
//!
//! Deliberately not here: any decision about limits; the rules, which only servers know.

pub mod backoff;
pub mod bounds;
pub mod client;
mod clock;
mod denials;
pub mod error;
mod expiring_map;
mod grpc_wire;
pub mod reply;
mod retry_after;
pub mod settings;
mod transport;
mod v1_wire;

pub use backoff::Backoff;
pub use client::Client;
pub use error::Error;
pub use reply::{MisspeltName, ReplyOrigin, ServerDecision, ServerReply};
pub use settings::{ClientSettings, WhenUnreachable};
