//! Why a call of `ShouldRateLimit`, `Peek` or `Report` gets no decision. `to_wire` makes a status of it.

use tollgate_core::LimitError;

use crate::body::BodyError;
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_MAX, GRPC_MESSAGE_MAX, KEY_MAX, SIDE_CALLS_MAX, VALUE_MAX};
use crate::service::ServiceError;

/// Why a call gets no decision.
#[derive(Debug, thiserror::Error)]
pub(super) enum GrpcError {
    /// The message did not arrive.
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the message is missing; send one, with its length before it")]
    NoMessage,
    #[error("the message is compressed; send it uncompressed")]
    Compressed,
    #[error("the message has {length} bytes; send at most {GRPC_MESSAGE_MAX}")]
    TooLarge { length: usize },
    #[error("the message has {found} bytes where {length} were announced; send one whole message")]
    Length { found: usize, length: usize },
    #[error("the message cannot be read: {reason}")]
    Decode { reason: String },
    /// The request is out of bounds.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// There is nothing to decide, or nothing to decide by.
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("answers to earlier calls on this connection wait to be read; read them, and call again")]
    NotRead,
    #[error(
        "there are {SIDE_CALLS_MAX} calls of health and reflection on this connection; end one, and call again"
    )]
    SideCalls,
}

/// Why a request is refused before anything is decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRequest {
    /// More descriptors than are looked at.
    #[error("{found} descriptors are too many; send at most {DESCRIPTORS_MAX} in a request")]
    Descriptors {
        /// How many.
        found: usize,
    },
    /// More entries than are looked at.
    #[error("descriptor {descriptor} has {found} entries, which are too many; send at most {ENTRIES_MAX}")]
    Entries {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// How many.
        found: usize,
    },
    /// A domain that is too long.
    #[error("the domain has {bytes} bytes, which are too many; send at most {KEY_MAX}")]
    Domain {
        /// How long.
        bytes: usize,
    },
    /// A key that is too long.
    #[error(
        "the key of entry {entry} of descriptor {descriptor} has {bytes} bytes, which are too many; \
         send at most {KEY_MAX}"
    )]
    Key {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// Which entry, from 0.
        entry: usize,
        /// How long.
        bytes: usize,
    },
    /// A value that is too long.
    #[error(
        "the value of entry {entry} of descriptor {descriptor} has {bytes} bytes, which are too many; \
         send at most {VALUE_MAX}"
    )]
    Value {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// Which entry, from 0.
        entry: usize,
        /// How long.
        bytes: usize,
    },
    /// A limit brought along without a unit that means anything.
    #[error(
        "the limit of descriptor {descriptor} has the unit {unit}, which is none; \
         send 1 (SECOND), 2 (MINUTE), 3 (HOUR), 4 (DAY), 5 (MONTH), 6 (YEAR) or 7 (WEEK)"
    )]
    Unit {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// The number sent.
        unit: i32,
    },
    /// A refund inside of a peek.
    #[error(
        "descriptor {descriptor} has is_negative_hits, and a peek gives nothing back; \
         leave it out, or call ShouldRateLimit"
    )]
    PeekedRefund {
        /// Which descriptor, from 0.
        descriptor: usize,
    },
    /// A limit brought along that makes no sense.
    #[error("the limit of descriptor {descriptor} cannot be used: {source}")]
    Limit {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// Why.
        source: LimitError,
    },
}
