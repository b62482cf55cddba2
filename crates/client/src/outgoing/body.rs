//! Bodies of responses: as they come, kept along the way for the cache, or whole from the start.
//!
//! Invariant: a body is kept only if all of it passed, within the bound and without trailers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::request;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::cache::{ResponseCache, Storable};

/// The body of a response to an outgoing call.
#[derive(Debug)]
pub struct OutgoingBody<B>(BodyKind<B>);

#[derive(Debug)]
enum BodyKind<B> {
    Passing(B),
    Recorded(B, Option<Box<Recording>>),
    Whole(Full<Bytes>),
}

/// What is to be kept of a body that passes.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) cache: Arc<ResponseCache>,
    pub(super) storable: Storable,
    pub(super) request: request::Parts,
    pub(super) bytes: BytesMut,
}

impl<B: Body<Data = Bytes>> OutgoingBody<B> {
    pub(super) const fn passing(body: B) -> Self {
        Self(BodyKind::Passing(body))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self(BodyKind::Whole(Full::new(bytes)))
    }

    /// The body, kept for the cache once it has passed.
    pub(super) fn recorded(body: B, recording: Recording) -> Self {
        let body_max = u64::try_from(recording.cache.body_max()).unwrap_or(u64::MAX);
        if body.size_hint().lower() > body_max {
            return Self::passing(body);
        }
        if body.is_end_stream() {
            recording.finish();
            return Self::passing(body);
        }
        Self(BodyKind::Recorded(body, Some(Box::new(recording))))
    }
}

impl Recording {
    fn finish(self) {
        let Self { cache, storable, request, bytes } = self;
        cache.store(storable, bytes.freeze(), &request);
    }

    /// What is left of a recording after a frame; none if it is not to be kept.
    fn add(mut self: Box<Self>, frame: &Frame<Bytes>) -> Option<Box<Self>> {
        let data = frame.data_ref()?;
        if self.bytes.len() + data.len() > self.cache.body_max() {
            return None;
        }
        self.bytes.extend_from_slice(data);
        Some(self)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for OutgoingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let (body, recording) = match &mut self.0 {
            BodyKind::Passing(body) => return Pin::new(body).poll_frame(cx),
            BodyKind::Whole(body) => {
                return Pin::new(body).poll_frame(cx).map_err(|never| match never {});
            }
            BodyKind::Recorded(body, recording) => (body, recording),
        };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => {
                if let Some(whole) = recording.take() {
                    whole.finish();
                }
            }
            Poll::Ready(Some(Err(_))) => *recording = None,
            Poll::Ready(Some(Ok(frame))) => {
                *recording = recording.take().and_then(|recording| recording.add(frame));
                // Who is told that this was the end does not ask again.
                if body.is_end_stream()
                    && let Some(whole) = recording.take()
                {
                    whole.finish();
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Passing(body) | BodyKind::Recorded(body, _) => body.is_end_stream(),
            BodyKind::Whole(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Passing(body) | BodyKind::Recorded(body, _) => body.size_hint(),
            BodyKind::Whole(body) => body.size_hint(),
        }
    }
}
