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
//! | [`line_index`] | which lines have somebody waiting |
//! | [`service`] | what takes requests in, and what sends them |
//!
//! Invariants: what was accepted is on disk before anybody is told. A request leaves
//! the queue in the same step that records what became of it, so that a crash loses nothing and
//! repeats only what was on its way.
//!
//! Deliberately not here: asking the limiter and sending, which are the server's and the gateway's;
//! the queue that nodes share, which is `tollgate_redis`'.

mod codec;
pub mod config;
pub mod credentials;
pub mod embedded;
mod error;
pub mod handle;
pub mod id;
pub mod line_index;
pub mod lines;
pub mod queue;
pub mod request;
pub mod service;

pub use config::DeferConfig;
pub use embedded::EmbeddedQueue;
pub use error::DeferError;
pub use handle::DeferHandle;
pub use id::DeferredId;
pub use line_index::LineIndex;
pub use lines::{DeferredLines, DeferredTurn};
pub use queue::{DeferQueue, QueueChange, QueueReply, QueueSize, TakenRequests};
pub use request::{DeferredEnd, DeferredRequest, DeferredState, DeferredStatus, KeptResponse, SendProgress};
pub use service::{DeferService, TakeInError};
