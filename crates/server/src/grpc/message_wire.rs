//! A message as gRPC frames it: a flag for compression, a length, and the bytes.

use hyper::body::Bytes;
use prost::Message;

use super::error::GrpcError;
use crate::bounds::GRPC_MESSAGE_MAX;

/// The flag, and four bytes of length.
pub(super) const HEAD: usize = 5;

/// The one message of a unary call.
pub(super) fn decode<M: Message + Default>(body: Bytes) -> Result<M, GrpcError> {
    let Some((&[flag, a, b, c, d], _)) = body.split_first_chunk::<HEAD>() else {
        return Err(GrpcError::NoMessage);
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if flag != 0 {
        return Err(GrpcError::Compressed);
    }
    if length > GRPC_MESSAGE_MAX {
        return Err(GrpcError::TooLarge { length });
    }
    let message = body.slice(HEAD..);
    if message.len() != length {
        return Err(GrpcError::Length { found: message.len(), length });
    }
    M::decode(message).map_err(|error| GrpcError::Decode { reason: error.to_string() })
}

/// A message as it goes out.
pub(super) fn encode(message: &impl Message) -> Result<Bytes, GrpcError> {
    let length = message.encoded_len();
    let head = u32::try_from(length).map_err(|_| GrpcError::AnswerTooLarge)?;
    let mut framed = Vec::with_capacity(HEAD + length);
    framed.push(0);
    framed.extend_from_slice(&head.to_be_bytes());
    message.encode(&mut framed).map_err(|_| GrpcError::AnswerTooLarge)?;
    Ok(framed.into())
}

#[cfg(test)]
mod tests {
    use super::super::to_wire::status;
    use super::*;

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let framed = encode(&"four".to_owned()).unwrap();
        assert_eq!(framed.first_chunk(), Some(&[0, 0, 0, 0, 6]));
        assert_eq!(decode::<String>(framed).unwrap(), "four");
    }

    #[test]
    fn bytes_that_are_not_a_message_get_a_status_by_kind() {
        let code =
            |bytes: &'static [u8]| status(&decode::<String>(Bytes::from_static(bytes)).unwrap_err()).code();
        assert_eq!(code(b""), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0, 9, 1]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0, 1, 1, 1]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[1, 0, 0, 0, 0]), tonic::Code::Unimplemented);
        assert_eq!(code(&[0, 0xff, 0xff, 0xff, 0xff]), tonic::Code::ResourceExhausted);
        assert_eq!(code(&[0, 0, 0, 0, 2, 0xff, 0xff]), tonic::Code::InvalidArgument);
    }
}
