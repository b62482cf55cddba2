//! What can be wrong with a mapping.

use std::path::PathBuf;

/// What can be wrong with a mapping.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a network.
    #[error(
        "'{text}' is not a network; write an address or ADDRESS/BITS, such as 10.0.0.0/8 or 2001:db8::/32"
    )]
    Network {
        /// The text.
        text: String,
    },
    /// A prefix that is longer than an address.
    #[error("an {family} address has {bits_max} bits and not {bits}; write 0 to {bits_max}")]
    Prefix {
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// What was asked for.
        bits: u8,
        /// How many there are.
        bits_max: u8,
    },
    /// Not the name of a header.
    #[error(
        "'{text}' is not the name of a header; write letters, digits and dashes, or :path, :method or :authority"
    )]
    HeaderName {
        /// The text.
        text: String,
    },
    /// A path template that cannot be used.
    #[error(
        "'{text}' cannot be a path template: {reason}; write one such as /users/{{id}} or /files/{{*path}}"
    )]
    Template {
        /// The text.
        text: String,
        /// Why.
        reason: String,
    },
    /// More of something than is sensible.
    #[error("there are {count} {what}; write at most {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A text that must not be empty.
    #[error("{what} is empty; write a text")]
    Empty {
        /// Which one.
        what: &'static str,
    },
    /// Neither a status nor a class of them.
    #[error("'{text}' is not a status; write one such as 401, or 5xx for all of a class")]
    Status {
        /// The text.
        text: String,
    },
    /// A claim is asked for and there are no keys to verify tokens with.
    #[error("jwt_claim needs keys to verify tokens with; write mapping.jwt.keys")]
    NoKeys,
    /// A file with keys that cannot be used.
    #[error("{}: {reason}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// Why, and what would be right.
        reason: String,
    },
}
