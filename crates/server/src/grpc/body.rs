//! The body of a gRPC response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{HeaderName, HeaderValue};

use super::error::GrpcError;
use super::to_wire;
use crate::listen::stream::{ByteCount, WaitingBytes};

/// How a call went, in the trailers of a response.
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The body of a gRPC response.
#[derive(Debug, Default)]
pub(crate) enum GrpcBody {
    /// Nothing, or nothing more.
    #[default]
    Empty,
    /// One message, framed, then OK.
    Message(Bytes, WaitingBytes),
    /// OK, after the message. hyper asks for it when the caller's window has
    /// taken the message.
    Ok(WaitingBytes),
    /// Whatever tonic's services answer.
    Tonic(TonicBody),
}

/// The body of a response of tonic's services.
#[derive(Debug)]
pub(crate) struct TonicBody {
    body: tonic::body::Body,
    connection: Arc<ByteCount>,
    /// Counts the calls of a connection that have one.
    _call: Arc<()>,
    /// The last message, which the caller's window has yet to take.
    waiting: Option<WaitingBytes>,
}

impl TonicBody {
    pub(super) const fn new(body: tonic::body::Body, connection: Arc<ByteCount>, call: Arc<()>) -> Self {
        Self { body, connection, _call: call, waiting: None }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        self.waiting = None;
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(message) = frame.data_ref()
        {
            self.waiting = WaitingBytes::new(Arc::clone(&self.connection), message.len());
            if self.waiting.is_none() {
                return Poll::Ready(Some(Err(to_wire::status(&GrpcError::NotRead))));
            }
        }
        Poll::Ready(frame)
    }
}

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Self::Tonic(body) = &mut *self {
            return body.poll_frame(cx);
        }
        match std::mem::take(&mut *self) {
            Self::Message(message, waiting) => {
                *self = Self::Ok(waiting);
                Poll::Ready(Some(Ok(Frame::data(message))))
            }
            Self::Ok(waiting) => {
                drop(waiting);
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
            Self::Message(..) | Self::Ok(_) => false,
            Self::Tonic(tonic) => tonic.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Tonic(tonic) => tonic.body.size_hint(),
            Self::Empty | Self::Message(..) | Self::Ok(_) => SizeHint::new(),
        }
    }
}
