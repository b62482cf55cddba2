//! The body of a gRPC response.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{HeaderName, HeaderValue};

/// How a call went, in the trailers of a response.
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The body of a gRPC response.
#[derive(Debug, Default)]
pub enum GrpcBody {
    /// Nothing, or nothing more.
    #[default]
    Empty,
    /// One message, framed, then OK.
    Message(Bytes),
    /// OK, after the message.
    Ok,
    /// Whatever tonic's services answer.
    Tonic(tonic::body::Body),
}

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Self::Tonic(body) = &mut *self {
            return Pin::new(body).poll_frame(cx);
        }
        match std::mem::take(&mut *self) {
            Self::Message(message) => {
                *self = Self::Ok;
                Poll::Ready(Some(Ok(Frame::data(message))))
            }
            Self::Ok => {
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(GRPC_STATUS, OK);
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Self::Empty | Self::Tonic(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Message(_) | Self::Ok => false,
            Self::Tonic(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Tonic(body) => body.size_hint(),
            Self::Empty | Self::Message(_) | Self::Ok => SizeHint::new(),
        }
    }
}
