//! Asks a Tollgate server, and keeps calls to any HTTP server within what that server says.
//!
//! [`Client`] has check, peek, report and refund, over HTTP or gRPC. It keeps its connections, bounds every call in time,
//! makes a call again only if it was certainly not decided, and does not ask again about what was denied
//! before the time that the server told.
//!
//! [`OutgoingLayer`] is a tower layer for outgoing calls: it waits and tries again as servers say, slows down
//! before a quota is empty, keeps retries within a budget, and caches answers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | [`Client`] |
//! | [`settings`] | timeouts, retries, what stands in for a server that is away |
//! | [`reply`] | what a server answered |
//! | `denials` | what it denied, until when |
//! | [`outgoing`] | [`OutgoingLayer`], and all that it needs |
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
pub mod outgoing;
pub mod reply;
mod retry_after;
pub mod settings;
mod transport;
mod v1_wire;

pub use backoff::Backoff;
pub use client::Client;
pub use error::Error;
pub use outgoing::{
    CacheSettings, NotSent, OutgoingBody, OutgoingLayer, OutgoingService, OutgoingSettings, RetryBudget,
};
pub use reply::{MisspeltName, ReplyOrigin, ServerDecision, ServerReply};
pub use settings::{ClientSettings, WhenUnreachable};

/// What the guide shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/client.md")]
struct ClientGuide;
