//! A message as gRPC frames it: a flag for compression, a length, and the bytes.

use prost::Message;

use super::error::GrpcError;
use crate::bounds::GRPC_MESSAGE_MAX;

/// The flag, and four bytes of length.
pub(super) const HEAD: usize = 5;

/// The one message of a unary call.
pub(super) fn decode<M: Message + Default>(body: &[u8]) -> Result<M, GrpcError> {
    let Some((&[flag, a, b, c, d], message)) = body.split_first_chunk::<HEAD>() else {
        return Err(GrpcError::NoMessage);
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if flag != 0 {
        return Err(GrpcError::Compressed);
    }
    if length > GRPC_MESSAGE_MAX {
        return Err(GrpcError::TooLarge { length });
    }
    if message.len() != length {
        return Err(GrpcError::Length { found: message.len(), length });
    }
    M::decode(message).map_err(|error| GrpcError::Decode { reason: error.to_string() })
}

/// The bytes of a message as it goes out.
pub(super) fn framed_bytes(message: &impl Message) -> usize {
    HEAD + message.encoded_len()
}

/// Appends a message as it goes out, which has `framed` bytes.
pub(super) fn encode(message: &impl Message, framed: usize, out: &mut Vec<u8>) {
    out.push(0);
    // No answer comes near 4 GB: descriptors are bounded, and so is what is said about each.
    out.extend_from_slice(&u32::try_from(framed - HEAD).unwrap_or(u32::MAX).to_be_bytes());
    message.encode_raw(out);
}

#[cfg(test)]
mod tests {
    use super::super::to_wire::status;
    use super::*;

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let (mut framed, message) = (Vec::new(), "four".to_owned());
        encode(&message, framed_bytes(&message), &mut framed);
        assert_eq!((framed.first_chunk(), framed.len()), (Some(&[0, 0, 0, 0, 6]), framed_bytes(&message)));
        assert_eq!(decode::<String>(&framed).unwrap(), "four");
    }

    #[test]
    fn bytes_that_are_not_a_message_get_a_status_by_kind() {
        let code = |bytes: &[u8]| status(&decode::<String>(bytes).unwrap_err()).code();
        assert_eq!(code(b""), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0, 9, 1]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0, 1, 1, 1]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[1, 0, 0, 0, 0]), tonic::Code::Unimplemented);
        assert_eq!(code(&[0, 0xff, 0xff, 0xff, 0xff]), tonic::Code::ResourceExhausted);
        assert_eq!(code(&[0, 0, 0, 0, 2, 0xff, 0xff]), tonic::Code::InvalidArgument);
    }
}
