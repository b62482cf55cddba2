//! From an HTTP request to descriptors, in the words of Envoy's rate limit actions.
//!
//! Whoever speaks HTTP makes [`Facts`] of a request; a [`Mapping`] turns them
//! into descriptors; the limiter takes it from there. Forward-auth uses this
//! today. The reverse proxy will be built in this crate and use the same
//! mapping, so that a rule file means the same behind either.
//!
//! | module | what it holds |
//! |---|---|
//! | [`facts`] | [`Facts`]: what is known about a request |
//! | [`mapping`] | [`Mapping`]: which facts become which entries |
//! | [`address`] | who asks: addresses behind trusted proxies, and their prefixes |
//! | [`path`] | one spelling for each path; templates |
//! | [`token`] | JSON web tokens, verified |
//! | [`value`] | how long a value may be |
//! | [`error`] | what can be wrong with a mapping |
//!
//! Invariants: nothing that a client can write freely is believed about its
//! address; a claim is used only if its token is verified; every value is bounded.
//!
//! Deliberately not here: limits, settings files, and anything of a server.

pub mod address;
mod cookie;
pub mod error;
pub mod facts;
pub mod mapping;
pub mod path;
mod query;
pub mod token;
pub mod value;

pub use address::{AddressHeader, ClientAddress, Prefixes};
pub use error::Error;
pub use facts::Facts;
pub use mapping::{Action, Fact, Mapped, Mapping};
pub use path::Paths;
pub use token::{TokenSource, Tokens};
