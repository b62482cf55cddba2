//! Tollgate as a tower layer: the rules, the mapping and the answers of a server, in process.
//!
//! ```
//! use std::sync::Arc;
//! use tollgate_http::{Action, AddressPrefixes, Fact, Mapping};
//! use tollgate_limiter::Limiter;
//! use tollgate_tower::TollgateLayer;
//!
//! # fn layer(rules: tollgate_core::RuleSet) -> Result<TollgateLayer, tollgate_http::Error> {
//! let by_address = Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
//! let mapping = Mapping::new("shop", vec![vec![by_address]])?;
//! let layer = TollgateLayer::new(Arc::new(Limiter::new(rules)), mapping);
//! # Ok(layer)
//! # }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`layer`] | [`TollgateLayer`]: what a service is wrapped with |
//! | [`service`] | [`LimitedService`]: asks, holds, denies, and tells |
//! | [`response_future`] | [`ResponseFuture`]: the response, now or later |
//! | `denial` | the response of a request that goes no further |
//!
//! Invariants: a denied request never reaches the service; a delayed one reaches it after its wait,
//! and gives its place back if its caller does not wait.
//!
//! Deliberately not here: metrics and history; a `Limiter` takes an `EventSink` for them.

mod denial;
pub mod layer;
pub mod response_future;
pub mod service;

pub use layer::{PeerAddress, TollgateLayer};
pub use response_future::{ResponseFuture, TollgateBody};
pub use service::LimitedService;

/// What the guide shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/middleware.md")]
struct MiddlewareGuide;
