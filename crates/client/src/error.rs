//! Why there is no reply.
//!
//! A denial is a reply and never an error.

use std::time::Duration;

/// What another library says went wrong.
pub(crate) type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call got no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the server is none.
    #[error("{url:?} is no address of a server: {detail}; it is like http://127.0.0.1:8080")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {source}")]
    Tls {
        /// Why not.
        source: SourceError,
    },
    /// A request without a domain, or without descriptors.
    #[error("the request has no {what}")]
    Incomplete {
        /// What it lacks.
        what: &'static str,
    },
    /// The protocol has no way to ask this.
    #[error("{what} cannot be sent over {protocol}; {instead}")]
    Unsupported {
        /// What was to be asked.
        what: &'static str,
        /// Over what.
        protocol: &'static str,
        /// What to do about it.
        instead: &'static str,
    },
    /// No connection, or it broke.
    #[error("cannot reach {url}: {}", causes(.source.as_ref()))]
    Unreachable {
        /// The server.
        url: String,
        /// What happened.
        source: SourceError,
    },
    /// No reply in time; whether it was decided is not known.
    #[error("no reply from {url} within {timeout:?}")]
    Timeout {
        /// The server.
        url: String,
        /// How long a call may take.
        timeout: Duration,
    },
    /// The server answers, but does not decide at present.
    #[error("{url} does not decide now ({status}): {detail}")]
    Unavailable {
        /// The server.
        url: String,
        /// The status, of HTTP or gRPC.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// The server does not take this request; sending it again does not help.
    #[error("{url} does not take the request ({status}): {detail}")]
    Rejected {
        /// The server.
        url: String,
        /// The status, of HTTP or gRPC.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// What came is no reply of a Tollgate server.
    #[error("{url} does not answer like a Tollgate server: {detail}")]
    Garbled {
        /// The server.
        url: String,
        /// What is wrong with the answer.
        detail: String,
    },
}

/// What is behind an error, since those of HTTP clients say of themselves only where it happened.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        texts.push(cause.to_string());
        next = cause.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
