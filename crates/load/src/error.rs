//! Why a load cannot be run.

use std::io;
use std::time::Duration;

use crate::protocol::LoadProtocol;

/// Why a load cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no address.
    #[error("'{address}' is not an address: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// There is no connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// TLS fails.
    #[error("cannot speak TLS with {address}: {what}")]
    Tls {
        /// The server.
        address: String,
        /// Why not.
        what: String,
    },
    /// The server takes the connection and then says nothing.
    #[error("{address} took the connection and did not answer within {waited:?}")]
    Silent {
        /// The server.
        address: String,
        /// For how long.
        waited: Duration,
    },
    /// The server speaks another protocol.
    #[error("{address} does not speak {protocol}: {what}")]
    Protocol {
        /// The server.
        address: String,
        /// What was expected.
        protocol: LoadProtocol,
        /// What came instead.
        what: String,
    },
    /// The first response is an error.
    #[error("{address} answers with an error: {what}")]
    Refused {
        /// The server.
        address: String,
        /// The server's words.
        what: String,
    },
    /// Every connection was lost before the end.
    #[error("{address} closed all connections before the end: {what}")]
    Lost {
        /// The server.
        address: String,
        /// What happened last.
        what: String,
    },
    /// A system call fails.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}
