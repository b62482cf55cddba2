//! Lets only requests through that everybody reads alike.
//!
//! Request smuggling lives from two programs that disagree where a request ends. hyper forgives
//! much: it drops a length beside `chunked`, takes a bare LF for the end of a line, and reads lists
//! of codings. So what a client sends over HTTP/1 is framed here first, by rules without
//! exceptions, and hyper sees only what passed. An HTTP/2 connection is passed on as it is, and the
//! heads that hyper made of it are looked at.
//!
//! | module | what it holds |
//! |---|---|
//! | `head` | what a head must look like, and how long its body is |
//! | `chunked` | what a chunked body must look like |
//! | `http2` | what the head of an HTTP/2 request must look like |
//! | `stream` | the stream between the socket and hyper |
//! | `upgrade` | whether the client's next bytes are HTTP |
//!
//! Invariant: bytes are dropped or held back, never changed; a head that breaks a rule is replaced
//! by [`REJECTED`], which makes hyper answer in its turn, after the answers to earlier requests.

mod chunked;
mod head;
mod http2;
mod stream;
mod upgrade;

pub(crate) use chunked::{ChunkError, ChunkedBody};
#[cfg(test)]
pub(crate) use head::{Framing, whole as whole_head};
pub(crate) use head::{
    HeadError, host_name_length, is_usual_target, length, lower_name, text_length, trimmed,
};
pub(crate) use http2::check_http2;
pub(crate) use stream::StrictStream;
pub(crate) use upgrade::{UpgradeSwitch, UpgradeTurn};

/// The method of the request that hyper sees instead of one that broke a rule; its path is
/// [`HeadError::code`]. No client can send it, because `head` rejects the method.
pub(crate) const REJECTED: &str = "TOLLGATE-REJECTED";
