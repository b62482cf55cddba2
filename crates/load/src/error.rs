//! Why a run cannot be made.

use std::io;
use std::time::Duration;

use crate::plan::Protocol;

/// Why a run cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is none.
    #[error("'{address}' is not an address: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Nobody answers the phone.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Where.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// TLS cannot be spoken with it.
    #[error("cannot speak TLS with {address}: {what}")]
    Tls {
        /// Whom.
        address: String,
        /// Why not.
        what: String,
    },
    /// Somebody is there and says nothing.
    #[error("{address} took the connection and did not answer within {waited:?}")]
    Silent {
        /// Who.
        address: String,
        /// For how long.
        waited: Duration,
    },
    /// What is said is another protocol.
    #[error("{address} does not speak {protocol}: {what}")]
    Protocol {
        /// Who.
        address: String,
        /// What was expected.
        protocol: Protocol,
        /// What came instead.
        what: String,
    },
    /// The first question was not answered with a verdict.
    #[error("{address} answers with an error: {what}")]
    Refused {
        /// Who.
        address: String,
        /// Its words.
        what: String,
    },
    /// Every connection was lost before the end.
    #[error("{address} closed all connections before the end: {what}")]
    Lost {
        /// Who.
        address: String,
        /// What happened last.
        what: String,
    },
    /// The system does not let us.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}
