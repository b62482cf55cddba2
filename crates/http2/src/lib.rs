//! The server side of HTTP/2 (RFC 9113) without sockets: bytes in, events out; answers in, bytes out.
//!
//! Whoever has a socket hands what was read to [`Http2Connection::next_event`], gets [`Event`]s, says
//! what to answer, and writes what [`Http2Connection::output`] has. The server's gRPC listener does
//! (`crates/server/src/grpc/`); docs/decisions/018 says why this is not `h2`.
//!
//! | module | what it holds |
//! |---|---|
//! | `frame` | heads, kinds, flags and error codes of frames |
//! | `hpack` | header fields in bytes (RFC 7541) |
//! | `field` | what a header field means |
//! | `head` | header fields → the head of a request |
//! | `settings`, `flow` | what both ends allow |
//! | `streams` | the calls that are going on |
//! | `connection` | the state machine: frames in (`receive`), frames out (`send`) |
//!
//! Invariants: nothing here waits, reads a clock or grows without bound. Memory is bounded by
//! [`Http2Config`], and by what the owner of the socket leaves in the output before it reads again.
//!
//! Deliberately not here: pushes, priorities, a table of header fields for what is written, CONNECT,
//! and the client's side.

mod config;
mod connection;
mod field;
mod flow;
mod frame;
mod head;
mod hpack;
mod settings;
mod streams;

pub use config::Http2Config;
pub use connection::{Event, Http2Connection, MessageWriter};
pub use frame::ErrorCode;
pub use head::{FieldList, RequestHead, RequestPath};
pub use hpack::encoder::put_field;
