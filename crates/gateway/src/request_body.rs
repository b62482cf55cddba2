//! The body of a request on its way to the upstream.
//!
//! hyper asks for the next piece when it has passed on the last one, so that a client cannot send
//! faster than the upstream takes. Here are the timeout between pieces, and the wait for the
//! upstream's `100 Continue`.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bounds::{CONTINUE_WAIT_MAX, DRAIN_BYTES, DRAIN_WAIT_MAX};
use crate::error::GatewayError;
use crate::fields::remove_from_trailers;
use crate::timed_body::{TimedBody, TimedBodyError};

/// What became of a request's body, for whoever waits for the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyFate(Arc<BodyProgress>);

#[derive(Debug, Default)]
struct BodyProgress {
    fate: AtomicU8,
    /// How many pieces of it were passed on.
    pieces: AtomicUsize,
    /// When the last of them was.
    last_piece: Mutex<Option<Instant>>,
    wait: Mutex<ClientWait>,
    is_whole: AtomicBool,
}

/// How long the client was waited for.
#[derive(Debug, Default)]
struct ClientWait {
    /// Since when it is; none while it is not, because the upstream takes nothing or all is there.
    since: Option<Instant>,
    /// Before that, altogether.
    past: Duration,
}

const BROKEN: u8 = 1;
const SLOW: u8 = 2;

impl BodyFate {
    /// What was wrong with the body, if anything was.
    pub(crate) fn error(&self) -> Option<GatewayError> {
        match self.0.fate.load(Ordering::Relaxed) {
            BROKEN => Some(GatewayError::RequestBody),
            SLOW => Some(GatewayError::SlowRequestBody),
            _ => None,
        }
    }

    fn set(&self, fate: u8) {
        self.0.fate.store(fate, Ordering::Relaxed);
    }

    /// A piece was passed on.
    fn passed_on(&self) {
        self.0.pieces.fetch_add(1, Ordering::Relaxed);
        *self.0.last_piece.lock() = Some(Instant::now());
    }

    /// The next piece has to come from the client.
    fn waits(&self) {
        self.0.wait.lock().since.get_or_insert_with(Instant::now);
    }

    /// It has come, or never will.
    fn waits_no_more(&self) {
        let mut wait = self.0.wait.lock();
        let since = wait.since.take();
        wait.past += since.map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Whether the upstream has to wait for the client, too.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.wait.lock().since.is_some()
    }

    /// What became of a request that must have been answered after `total`: it is still coming, or came so
    /// late that the client has used up most of that time, which is no failure of the upstream.
    pub(crate) fn late_after(&self, total: Duration) -> GatewayError {
        let wait = self.0.wait.lock();
        match wait.since.is_some() || wait.past > total / 2 {
            true => GatewayError::SlowRequestBody,
            false => GatewayError::FirstByteTimeout,
        }
    }

    /// When the last piece was passed on; none if there was none.
    pub(crate) fn last_piece(&self) -> Option<Instant> {
        *self.0.last_piece.lock()
    }

    /// Whether all of it was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.is_whole.load(Ordering::Relaxed)
    }

    /// How many pieces were passed on.
    pub(crate) fn pieces(&self) -> usize {
        self.0.pieces.load(Ordering::Relaxed)
    }
}

/// A client's body that is read on for a while if nobody wants it any more.
///
/// Over HTTP/1 the connection can then be used again. Over HTTP/2 a stream is reset as soon as its body is dropped
/// before the end, and some clients take that for a failure although they have the answer.
#[derive(Debug)]
pub(crate) struct ClientBody {
    /// None once it was taken.
    inner: Option<Incoming>,
    /// The client sends it only if it is read.
    waits_to_be_read: bool,
}

const TAKEN: &str = "whoever takes the body has no use for the rest";

impl ClientBody {
    /// Of a client that waits for `100 Continue`, or does not.
    pub(crate) fn new(inner: Incoming, expects_continue: bool) -> Self {
        Self { inner: Some(inner), waits_to_be_read: expects_continue }
    }

    /// The body alone.
    pub(crate) fn into_inner(mut self) -> Incoming {
        self.inner.take().expect(TAKEN)
    }
}

impl Deref for ClientBody {
    type Target = Incoming;

    fn deref(&self) -> &Incoming {
        self.inner.as_ref().expect(TAKEN)
    }
}

impl DerefMut for ClientBody {
    fn deref_mut(&mut self) -> &mut Incoming {
        self.inner.as_mut().expect(TAKEN)
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let body = self.inner.take().filter(|body| !self.waits_to_be_read && !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (body, Handle::try_current()) {
            runtime.spawn(drain(body));
        }
    }
}

/// The body of a request on its way to the upstream.
pub(crate) struct RequestBody {
    /// None if there is no body, or it is `whole`.
    inner: Option<TimedBody>,
    /// The client sends it only if it is read.
    waits_to_be_read: bool,
    /// A body that was read before.
    whole: Option<Bytes>,
    fate: BodyFate,
    /// Nothing is asked of the client before the upstream wants it, or this time has passed.
    until_wanted: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("fate", &self.fate).finish_non_exhaustive()
    }
}

impl RequestBody {
    pub(crate) fn new(body: ClientBody, idle: Duration, fate: BodyFate) -> Self {
        let waits_to_be_read = body.waits_to_be_read;
        let inner = Some(body.into_inner()).filter(|body| !body.is_end_stream());
        let inner = inner.map(|body| TimedBody::new(body, idle));
        Self { inner, waits_to_be_read, whole: None, fate, until_wanted: None }
    }

    /// No body.
    pub(crate) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// A body that was read before.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let whole = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self { inner: None, waits_to_be_read: false, whole, fate: BodyFate::default(), until_wanted: None }
    }

    /// The same, waiting for the upstream's `100 Continue`.
    pub(crate) fn when_wanted(mut self, wanted: Arc<Notify>) -> Self {
        self.until_wanted = Some(Box::pin(async move {
            // Either way the body is sent.
            drop(tokio::time::timeout(CONTINUE_WAIT_MAX, wanted.notified()).await);
        }));
        self
    }

    /// Does not wait for a `100 Continue`, which HTTP/2 does without.
    pub(crate) fn begin(&mut self) {
        self.until_wanted = None;
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        drop(self.inner.take().map(|body| ClientBody::new(body.inner, self.waits_to_be_read)));
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(wanted) = &mut self.until_wanted {
            std::task::ready!(wanted.as_mut().poll(cx));
            self.until_wanted = None;
        }
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(self.whole.take().map(|whole| Ok(Frame::data(whole))));
        };
        let Poll::Ready(frame) = inner.poll_frame(cx) else {
            self.fate.waits();
            return Poll::Pending;
        };
        if frame.is_none() || inner.inner.is_end_stream() {
            self.fate.0.is_whole.store(true, Ordering::Relaxed);
        }
        self.fate.waits_no_more();
        match &frame {
            Some(Ok(_)) => self.fate.passed_on(),
            Some(Err(TimedBodyError::Broken(_))) => self.fate.set(BROKEN),
            Some(Err(TimedBodyError::Slow)) => self.fate.set(SLOW),
            None => {}
        }
        let frame = match frame.transpose().map_err(io::Error::other)?.map(Frame::into_trailers) {
            Some(Ok(mut trailers)) => {
                remove_from_trailers(&mut trailers);
                (!trailers.is_empty()).then(|| Frame::trailers(trailers))
            }
            Some(Err(data)) => Some(data),
            None => None,
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_none() && self.inner.as_ref().is_none_or(|body| body.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let whole = || self.whole.as_ref().map_or(0, Bytes::len);
        let exact = || SizeHint::with_exact(u64::try_from(whole()).unwrap_or(u64::MAX));
        self.inner.as_ref().map_or_else(exact, |body| body.inner.size_hint())
    }
}

/// Whether [`drain`] will give this body up, as its length tells.
pub(crate) fn is_too_long_to_drain(body: &Incoming) -> bool {
    usize::try_from(body.size_hint().lower()).map_or(true, |length| length > DRAIN_BYTES)
}

/// Reads and forgets a body that nobody wants, within bounds, so that the client can read its
/// answer.
pub(crate) async fn drain(mut body: Incoming) {
    let reading = async {
        let mut left = DRAIN_BYTES;
        while left > 0 {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            let Some(Ok(frame)) = frame else { return };
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    // Whether it ended or was given up makes no difference here.
    drop(tokio::time::timeout(DRAIN_WAIT_MAX, reading).await);
}
