//! One outgoing call from end to end: cache, turn, call, and again.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::body::{OutgoingBody, Recording};
use super::budget::BudgetAccount;
use super::cache::{self, Arrival, Lookup, ResponseCache};
use super::paces::{Block, HostPaces, Turn, is_refusal};
use super::response_limits::ResponseLimits;
use super::settings::OutgoingSettings;
use crate::{backoff, clock};

type HostOf = dyn Fn(&Parts) -> String + Send + Sync;
type MayReplay = dyn Fn(&Parts) -> bool + Send + Sync;
type CloneBody<B> = dyn Fn(&B) -> Option<B> + Send + Sync;

/// Keeps the calls of an HTTP client within what servers say. All that is made from one layer, or from its
/// clones, share what is known of hosts, the retry budget and the cache.
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::Full;
/// use hyper_util::client::legacy;
/// use hyper_util::rt::TokioExecutor;
/// use tollgate_client::{OutgoingLayer, OutgoingSettings};
/// use tower_layer::Layer as _;
///
/// let http = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
/// let polite = OutgoingLayer::<Full<Bytes>>::new(OutgoingSettings::default()).layer(http);
/// ```
pub struct OutgoingLayer<B> {
    policy: CallPolicy<B>,
    shared: Arc<Shared>,
}

/// What a layer was told about calls.
struct CallPolicy<B> {
    host_of: Arc<HostOf>,
    may_replay: Arc<MayReplay>,
    clone_body: Arc<CloneBody<B>>,
}

/// What all calls share.
struct Shared {
    settings: OutgoingSettings,
    paces: HostPaces,
    budget: BudgetAccount,
    cache: Option<Arc<ResponseCache>>,
    wall_now: fn() -> SystemTime,
}

/// An extension of a response that no server gave: the host has asked to wait for longer than a call may,
/// so the call was not sent. The status is the one by which the host refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSent;

/// A service whose calls are kept within what servers say; made by [`OutgoingLayer`].
pub struct OutgoingService<S, B> {
    inner: S,
    layer: OutgoingLayer<B>,
}

impl<B: Clone> OutgoingLayer<B> {
    /// A layer for requests whose bodies can be cloned.
    pub fn new(settings: OutgoingSettings) -> Self {
        Self::with_clone(settings, |body: &B| Some(body.clone()))
    }
}

impl<B> OutgoingLayer<B> {
    /// A layer for requests of which only some bodies can be cloned; the others are never sent twice.
    pub fn with_clone(
        settings: OutgoingSettings,
        clone_body: impl Fn(&B) -> Option<B> + Send + Sync + 'static,
    ) -> Self {
        Self::with_wall_clock(settings, clone_body, clock::wall_now)
    }

    pub(super) fn with_wall_clock(
        settings: OutgoingSettings,
        clone_body: impl Fn(&B) -> Option<B> + Send + Sync + 'static,
        wall_now: fn() -> SystemTime,
    ) -> Self {
        let shared = Shared {
            paces: HostPaces::new(settings.slow_below_percent),
            budget: BudgetAccount::new(settings.budget),
            cache: settings.cache.map(|cache| Arc::new(ResponseCache::new(cache))),
            wall_now,
            settings,
        };
        let policy = CallPolicy {
            host_of: Arc::new(host),
            may_replay: Arc::new(|request: &Parts| request.method.is_idempotent()),
            clone_body: Arc::new(clone_body),
        };
        Self { policy, shared: Arc::new(shared) }
    }

    /// The same, counting calls by something else than scheme, host and port: servers may have limits by
    /// API key, or one for several hosts.
    #[must_use]
    pub fn with_key(mut self, host_of: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.policy.host_of = Arc::new(host_of);
        self
    }

    /// The same, with another idea of which requests may be sent twice. Without this it is those whose
    /// method is idempotent: GET, HEAD, OPTIONS, TRACE, PUT and DELETE.
    #[must_use]
    pub fn with_replay(mut self, may_replay: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.policy.may_replay = Arc::new(may_replay);
        self
    }

    #[cfg(test)]
    pub(super) fn cache_bytes(&self) -> usize {
        self.shared.cache.as_ref().map_or(0, |cache| cache.bytes())
    }

    /// Forgets what a host, such as `http://api.example` or `http://api.example:8080`, or what
    /// [`Self::with_key`] makes of it, has said.
    pub fn forget(&self, host: &str) {
        self.shared.paces.forget(host);
    }
}

/// Scheme, host and port, as far as the request says them. The port of the scheme is left out, so that a host
/// has one name (RFC 9110, 4.2.3).
fn host(request: &Parts) -> String {
    let scheme = request.uri.scheme_str().unwrap_or("http");
    let authority = request.uri.authority().map(|authority| authority.as_str());
    let host = authority.or_else(|| request.headers.get(HOST)?.to_str().ok()).unwrap_or_default();
    let port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(port).or_else(|| host.strip_suffix(':')).unwrap_or(host);
    format!("{scheme}://{}", host.to_ascii_lowercase())
}

/// The URI that answers are kept by.
fn full_uri(request: &Parts) -> String {
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    format!("{}{target}", host(request))
}

impl<S, B, R> Service<Request<B>> for OutgoingService<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Body<Data = Bytes> + Unpin + Send + 'static,
{
    type Response = Response<OutgoingBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// Always: the inner service is asked when the turn of a call has come, so that a call that waits
    /// holds no place there.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = self.clone();
        Box::pin(call.run(request))
    }
}

/// What came of sending.
enum Sent<R> {
    Response {
        response: Response<R>,
        sent: Instant,
    },
    /// It would have had to wait too long.
    TooLate(Block),
}

impl<S, B, R> OutgoingService<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data = Bytes>,
{
    async fn run(mut self, request: Request<B>) -> Result<Response<OutgoingBody<R>>, S::Error> {
        let deadline = clock::after(Instant::now(), self.layer.shared.settings.max_wait);
        let (parts, body) = request.into_parts();
        let Some(cache) = self.layer.shared.cache.clone().filter(|_| cache::is_for(&parts)) else {
            let sent = self.send(&parts, body, &HeaderMap::new(), deadline).await?;
            if let (Some(cache), Sent::Response { response, .. }) = (&self.layer.shared.cache, &sent)
                && !parts.method.is_safe()
                && (response.status().is_success() || response.status().is_redirection())
            {
                cache.invalidate(&full_uri(&parts));
            }
            return Ok(self.passed(sent));
        };
        let uri = full_uri(&parts);
        let found = cache.look_up(&uri, &parts, Instant::now());
        if let Lookup::Fresh(head, bytes) = found {
            return Ok(Response::from_parts(head, OutgoingBody::whole(bytes)));
        }
        if cache::is_only_if_cached(&parts) {
            return Ok(not_cached());
        }
        // A second copy in case the server means another answer than the one that is kept.
        let asking = match found {
            Lookup::Stale(id, conditions) => {
                (self.layer.policy.clone_body)(&body).map(|spare| (id, conditions, spare))
            }
            Lookup::Miss | Lookup::Fresh(..) => None,
        };
        let Some((id, conditions, spare)) = asking else {
            let sent = self.send(&parts, body, &HeaderMap::new(), deadline).await?;
            return Ok(self.kept(cache, &uri, parts, sent));
        };
        let sent = self.send(&parts, body, &conditions, deadline).await?;
        let Some((head, arrival)) = self.not_modified(&sent) else {
            return Ok(self.kept(cache, &uri, parts, sent));
        };
        if let Some((head, bytes)) = cache.revalidated(id, &parts, &head, arrival) {
            return Ok(Response::from_parts(head, OutgoingBody::whole(bytes)));
        }
        let sent = self.send(&parts, spare, &HeaderMap::new(), deadline).await?;
        Ok(self.kept(cache, &uri, parts, sent))
    }

    /// Sends a request with these fields added, and again if it is refused.
    async fn send(
        &mut self,
        parts: &Parts,
        body: B,
        conditions: &HeaderMap,
        deadline: Instant,
    ) -> Result<Sent<R>, S::Error> {
        let OutgoingLayer { policy, shared } = self.layer.clone();
        let host = (policy.host_of)(parts);
        let may_replay = (policy.may_replay)(parts);
        let (mut next, mut earliest, mut refused, mut retry) = (body, Instant::now(), None, 0);
        loop {
            if let Err(block) = self.turn(&host, earliest, deadline).await? {
                return Ok(refused.unwrap_or(Sent::TooLate(block)));
            }
            drop(refused.take());
            if retry == 0 {
                // What a cache answers, or nobody, tells nothing about how much servers can take.
                shared.budget.deposit();
            }
            let is_last = !may_replay || retry >= shared.settings.backoff.retries;
            let replay = if is_last { None } else { (policy.clone_body)(&next) };
            let mut request = Request::from_parts(parts.clone(), next);
            request.headers_mut().extend(conditions.clone());
            let sent = Instant::now();
            let response = self.inner.call(request).await?;
            let now = Instant::now();
            let limits = ResponseLimits::read(response.headers(), (shared.wall_now)());
            shared.paces.learn(&host, response.status(), &limits, now);
            let is_refused = is_refusal(response.status());
            let response = Sent::Response { response, sent };
            let Some(body) = replay.filter(|_| is_refused) else { return Ok(response) };
            earliest =
                clock::after(now, shared.settings.backoff.wait(retry, limits.refused_for(), &mut Rng::new()));
            if earliest > deadline || !shared.budget.withdraw() {
                return Ok(response);
            }
            refused = Some(response);
            next = body;
            retry += 1;
        }
    }

    /// Waits until the host may be called and the inner service is ready, or says why that takes too long.
    async fn turn(
        &mut self,
        host: &str,
        earliest: Instant,
        deadline: Instant,
    ) -> Result<Result<(), Block>, S::Error> {
        let shared = Arc::clone(&self.layer.shared);
        let reserved = match shared.paces.reserve(host, Instant::now(), deadline) {
            Ok(turn) => turn,
            Err(block) => return Ok(Err(block)),
        };
        // Nobody knows how many others wait for the same instant.
        let spread = |at: Instant| {
            let most = shared.settings.backoff.ceiling(0).min(deadline.saturating_duration_since(at));
            at + backoff::jitter(most, &mut Rng::new())
        };
        let mut at = if reserved.is_shared { spread(reserved.at) } else { reserved.at }.max(earliest);
        let mut unused = UnusedTurn { paces: &shared.paces, host, turn: Some(reserved) };
        loop {
            tokio::time::sleep_until(at).await;
            poll_fn(|cx| self.inner.poll_ready(cx)).await?;
            // Another call may have been refused meanwhile.
            match shared.paces.block(host, Instant::now()) {
                None => {
                    unused.turn = None;
                    return Ok(Ok(()));
                }
                Some(block) if block.until > deadline => return Ok(Err(block)),
                Some(block) => at = spread(block.until),
            }
        }
    }

    fn arrival(&self, sent: Instant) -> Arrival {
        Arrival { sent, now: Instant::now(), wall: (self.layer.shared.wall_now)() }
    }

    /// The head of a 304.
    fn not_modified(&self, sent: &Sent<R>) -> Option<(http::response::Parts, Arrival)> {
        match sent {
            Sent::Response { response, sent } if response.status() == StatusCode::NOT_MODIFIED => {
                let mut head = Response::new(());
                *head.status_mut() = response.status();
                *head.headers_mut() = response.headers().clone();
                Some((head.into_parts().0, self.arrival(*sent)))
            }
            Sent::Response { .. } | Sent::TooLate(_) => None,
        }
    }

    fn passed(&self, sent: Sent<R>) -> Response<OutgoingBody<R>> {
        match sent {
            Sent::Response { response, .. } => response.map(OutgoingBody::passing),
            Sent::TooLate(block) => not_sent(block, Instant::now()),
        }
    }

    /// The response, on its way into the cache if it may be kept.
    fn kept(
        &self,
        cache: Arc<ResponseCache>,
        uri: &str,
        request: Parts,
        sent: Sent<R>,
    ) -> Response<OutgoingBody<R>> {
        let (response, sent) = match sent {
            Sent::Response { response, sent } => (response, sent),
            late @ Sent::TooLate(_) => return self.passed(late),
        };
        let (parts, body) = response.into_parts();
        let body = match cache.storable(uri, &request, &parts, self.arrival(sent)) {
            None => OutgoingBody::passing(body),
            Some(storable) => {
                OutgoingBody::recorded(body, Recording { cache, storable, request, bytes: BytesMut::new() })
            }
        };
        Response::from_parts(parts, body)
    }
}

/// A turn that a call waits for; given back if the call does not get to it.
struct UnusedTurn<'a> {
    paces: &'a HostPaces,
    host: &'a str,
    turn: Option<Turn>,
}

impl Drop for UnusedTurn<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.turn {
            self.paces.give_back(self.host, turn, Instant::now());
        }
    }
}

/// The answer to a call that was not sent.
fn not_sent<R: Body<Data = Bytes>>(block: Block, now: Instant) -> Response<OutgoingBody<R>> {
    let left = block.until.saturating_duration_since(now);
    let left_ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let seconds = left_ms.div_ceil(1_000);
    let body = serde_json::json!({
        "title": "Not sent",
        "status": block.status.as_u16(),
        "detail": format!("the host has asked to wait, {seconds} s more, which is longer than a call may"),
        "retry_after_ms": left_ms,
    });
    let mut response = Response::new(OutgoingBody::whole(body.to_string().into()));
    *response.status_mut() = block.status;
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response.extensions_mut().insert(NotSent);
    response
}

/// The answer to a request that wants nothing but what is cached (RFC 9111, 5.2.1.7).
fn not_cached<R: Body<Data = Bytes>>() -> Response<OutgoingBody<R>> {
    let mut response = Response::new(OutgoingBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response.extensions_mut().insert(NotSent);
    response
}

impl<S, B> Layer<S> for OutgoingLayer<B> {
    type Service = OutgoingService<S, B>;

    fn layer(&self, inner: S) -> Self::Service {
        OutgoingService { inner, layer: self.clone() }
    }
}

impl<B> Clone for CallPolicy<B> {
    fn clone(&self) -> Self {
        Self {
            host_of: Arc::clone(&self.host_of),
            may_replay: Arc::clone(&self.may_replay),
            clone_body: Arc::clone(&self.clone_body),
        }
    }
}

impl<B> Clone for OutgoingLayer<B> {
    fn clone(&self) -> Self {
        Self { policy: self.policy.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: Clone, B> Clone for OutgoingService<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<B> fmt::Debug for OutgoingLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingLayer").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, B> fmt::Debug for OutgoingService<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingService").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}
