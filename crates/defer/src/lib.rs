//! Requests that are taken now and sent later.
//!
//! A request that a limit with `over_limit: defer` denies is kept here until the limit has room for
//! it. In the order of the flow:
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | how many, how large, for how long, how often |
//! | [`id`] | what a caller asks for its request by |
//! | [`request`] | a request as it is kept, and what became of it |
//! | [`credentials`] | which headers are not kept |
//! | `codec` | both as bytes |
//! | [`queue`] | what every queue promises |
//! | [`embedded`] | the queue in a file of this node |
//! | [`handle`] | the thread that a queue lives on, and how it is asked |
//! | [`lines`] | whose turn it is: first in, first out by key |
//!
//! Invariants: what was accepted is on disk before anybody is told. A request leaves
//! the queue in the same step that records what became of it, so that a crash loses nothing and
//! repeats only what was on its way.
//!
//! Deliberately not here: asking the limiter, and sending. Nothing uses this crate yet: the gateway's
//! part is to follow, and until then no rule can say `over_limit: defer`.

mod codec;
pub mod config;
pub mod credentials;
pub mod embedded;
mod error;
pub mod handle;
pub mod id;
pub mod lines;
pub mod queue;
pub mod request;

pub use config::DeferConfig;
pub use embedded::EmbeddedQueue;
pub use error::DeferError;
pub use handle::DeferHandle;
pub use id::DeferredId;
pub use lines::DeferredLines;
pub use queue::{DeferQueue, QueueChange, QueueReply, QueueSize};
pub use request::{
    DeferredEnd, DeferredRequest, DeferredState, DeferredStatus, KeptResponse, OwnedRequest, SendProgress,
};
