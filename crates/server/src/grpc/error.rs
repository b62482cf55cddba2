//! Why a call of `ShouldRateLimit` gets no decision. `to_wire` makes a status of it.

use prost::DecodeError;

use super::from_wire::BadRequest;
use crate::body::BodyError;
use crate::bounds::GRPC_MESSAGE_MAX;
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
    #[error("the message cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The request is out of bounds.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// There is nothing to decide, or nothing to decide by.
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("the answer is too large")]
    AnswerTooLarge,
}
