//! The five bytes before a message: compressed or not, and how long.

use hyper::body::Bytes;
use prost::Message;
use tonic::Status;

use crate::bounds::GRPC_MESSAGE_MAX;

/// A flag and four bytes of length.
pub(super) const HEAD: usize = 5;

/// The one message of a unary call.
pub(super) fn open<M: Message + Default>(body: Bytes) -> Result<M, Status> {
    let Some((&[flag, a, b, c, d], _)) = body.split_first_chunk::<HEAD>() else {
        return Err(Status::invalid_argument("the message is missing; send one, with its length before it"));
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if flag != 0 {
        return Err(Status::unimplemented("the message is compressed; send it as it is"));
    }
    if length > GRPC_MESSAGE_MAX {
        return Err(Status::resource_exhausted(format!(
            "the message has {length} bytes; send at most {GRPC_MESSAGE_MAX}"
        )));
    }
    let message = body.slice(HEAD..);
    if message.len() != length {
        return Err(Status::invalid_argument(format!(
            "the message has {} bytes where {length} were announced; send one whole message",
            message.len()
        )));
    }
    M::decode(message)
        .map_err(|error| Status::invalid_argument(format!("the message cannot be read: {error}")))
}

/// A message as it goes out.
pub(super) fn close(message: &impl Message) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    let head = u32::try_from(length).map_err(|_| Status::resource_exhausted("the answer is too large"))?;
    let mut framed = Vec::with_capacity(HEAD + length);
    framed.push(0);
    framed.extend_from_slice(&head.to_be_bytes());
    message.encode(&mut framed).map_err(|error| Status::internal(error.to_string()))?;
    Ok(framed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_can_be_opened() {
        let framed = close(&"four".to_owned()).unwrap();
        assert_eq!(framed.first_chunk(), Some(&[0, 0, 0, 0, 6]));
        assert_eq!(open::<String>(framed).unwrap(), "four");
    }

    #[test]
    fn bytes_that_are_no_message_are_refused_by_kind() {
        let code = |bytes: &'static [u8]| open::<String>(Bytes::from_static(bytes)).unwrap_err().code();
        assert_eq!(code(b""), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0, 9, 1]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[0, 0, 0, 0, 1, 1, 1]), tonic::Code::InvalidArgument);
        assert_eq!(code(&[1, 0, 0, 0, 0]), tonic::Code::Unimplemented);
        assert_eq!(code(&[0, 0xff, 0xff, 0xff, 0xff]), tonic::Code::ResourceExhausted);
        assert_eq!(code(&[0, 0, 0, 0, 2, 0xff, 0xff]), tonic::Code::InvalidArgument);
    }
}
