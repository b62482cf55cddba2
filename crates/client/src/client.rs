//! Asks a Tollgate server.
//!
//! A request is looked up among the denials that are remembered, then sent, perhaps again, and its reply
//! is learnt from. `v1_wire` and `grpc_wire` know the bytes, `transport` the connections.
//!
//! Invariants: a call takes no longer than its timeout; nothing is sent twice that may have been decided,
//! but for peeks; no call goes out before the time that the server told.
//!
//! Deliberately not here: batches, and what is on the admin listener.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, StatusCode, Uri, Version};
use http_body_util::Full;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::Instant;
use tollgate_core::{Operation, Request, Verdict};

use crate::denials::DenialMap;
use crate::error::Error;
use crate::reply::{ServerReply, WireReply};
use crate::settings::ClientSettings;
use crate::transport::{ConnectionPool, RawReply, SendFailure, SendRequest};
use crate::{backoff, clock, grpc_wire, retry_after, v1_wire};

const JSON: &str = "application/json";
const GRPC: &str = "application/grpc";
const ALONE: &str = "ask for it alone";
const QUIET: &str = "it has asked to be left alone for a while";
/// A denial that is over at once is not asked about at once.
const WAIT_LEAST: Duration = Duration::from_millis(1);

/// A client of one Tollgate server. Clones share its connections and its memory.
///
/// ```no_run
/// use tollgate_client::Client;
/// use tollgate_core::{Descriptor, Entry, Request, Verdict};
///
/// # async fn ask() -> Result<(), tollgate_client::Error> {
/// let client = Client::http("http://127.0.0.1:8080")?;
/// let entries = [Entry::from(("user_id", "42"))];
/// let descriptors = [Descriptor::new(&entries)];
/// let reply = client.check(&Request::new("shop", &descriptors)).await?;
/// match reply.verdict {
///     Verdict::Allow => {}
///     Verdict::Delay { wait } => println!("go ahead in {wait}"),
///     Verdict::Deny { retry_after } => println!("come back in {retry_after:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    server: Arc<Server>,
    shared: Arc<Shared>,
}

/// What all clones know.
struct Shared {
    settings: ClientSettings,
    denials: DenialMap,
    /// The server has asked for quiet until then.
    pause: Mutex<Option<Instant>>,
}

/// Whom a client asks, and how.
struct Server {
    /// Without a slash at its end.
    url: String,
    protocol: Protocol,
    tls: Option<ClientConfig>,
    sender: Box<dyn SendRequest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    Grpc,
}

/// Why an attempt got no reply.
enum Failure {
    /// It was certainly not decided, and may be sent again, after the time that was told.
    Undecided(Error, Option<Duration>),
    /// It may have been decided.
    Unknown(Error),
    /// It is the request that is wrong.
    Rejected(Error),
}

impl Client {
    /// A client of the HTTP listener at `url`, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// If `url` is none, or it is `https` and TLS cannot be set up.
    pub fn http(url: &str) -> Result<Self, Error> {
        Self::new(url, Protocol::Http, ClientSettings::default(), None)
    }

    /// A client of the gRPC listener at `url`, such as `http://127.0.0.1:8081`, or of any other service
    /// that speaks Envoy's protocol; only Tollgate has [`Self::peek`] and [`Self::report`].
    ///
    /// # Errors
    /// If `url` is none, or it is `https` and TLS cannot be set up.
    pub fn grpc(url: &str) -> Result<Self, Error> {
        Self::new(url, Protocol::Grpc, ClientSettings::default(), None)
    }

    /// The same with other settings. It has connections and a memory of its own.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn with_settings(&self, settings: ClientSettings) -> Result<Self, Error> {
        let Server { url, protocol, tls, .. } = &*self.server;
        Self::new(url, *protocol, settings, tls.clone())
    }

    /// The same with a TLS configuration of one's own: other authorities, or a certificate to show.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn with_tls(&self, tls: ClientConfig) -> Result<Self, Error> {
        let Server { url, protocol, .. } = &*self.server;
        Self::new(url, *protocol, self.shared.settings.clone(), Some(tls))
    }

    fn new(
        url: &str,
        protocol: Protocol,
        settings: ClientSettings,
        tls: Option<ClientConfig>,
    ) -> Result<Self, Error> {
        let uri = server_uri(url)?;
        let version = match protocol {
            Protocol::Http => Version::HTTP_11,
            Protocol::Grpc => Version::HTTP_2,
        };
        let pool = ConnectionPool::new(&uri, version, settings.connect_timeout, tls.clone())?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self::over(Server { url, protocol, tls, sender: Box::new(pool) }, settings))
    }

    fn over(server: Server, settings: ClientSettings) -> Self {
        let denials = DenialMap::new(settings.denials_max, settings.denial_longest);
        let shared = Shared { settings, denials, pause: Mutex::new(None) };
        Self { server: Arc::new(server), shared: Arc::new(shared) }
    }

    /// May this happen? Takes its cost if so. What was denied is not asked again before its time.
    ///
    /// # Errors
    /// If there is no reply, and the settings do not say what stands in for it.
    pub async fn check(&self, request: &Request<'_>) -> Result<ServerReply, Error> {
        let known = match self.shared.denials.find(request, Instant::now()) {
            Ok(denial) => return Ok(denial),
            Err(known) => known,
        };
        let wire = self.ask(Operation::Check, request).await?;
        if wire.tells_retry {
            self.shared.denials.learn(known, &wire.reply, Instant::now());
        }
        Ok(wire.reply)
    }

    /// What would a check answer? Always asks, and changes nothing.
    ///
    /// Over gRPC only a Tollgate server has it; any other answers [`Error::Rejected`] and takes nothing.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn peek(&self, request: &Request<'_>) -> Result<ServerReply, Error> {
        self.ask(Operation::Peek, request).await.map(|wire| wire.reply)
    }

    /// This has happened: takes its cost even where it does not fit.
    ///
    /// Over gRPC only a Tollgate server has it; any other answers [`Error::Rejected`] and takes nothing.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn report(&self, request: &Request<'_>) -> Result<ServerReply, Error> {
        self.ask(Operation::Report, request).await.map(|wire| wire.reply)
    }

    /// This has not happened after all: gives its cost back, and forgets what was denied in the domain.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn refund(&self, request: &Request<'_>) -> Result<ServerReply, Error> {
        let asked = self.ask(Operation::Refund, request).await;
        // Whatever came of it: it may have been done.
        self.shared.denials.forget(request.domain);
        asked.map(|wire| wire.reply)
    }

    /// Forgets the denials of a domain, for whoever has reset a key or knows of new rules.
    pub fn forget_denials(&self, domain: &str) {
        self.shared.denials.forget(domain);
    }

    /// Checks until it may happen, waiting as long as the server says, and by chance a little longer, so
    /// that those who wait for one limit do not come back at the same instant.
    ///
    /// `Allow` means go ahead now, and what was to be waited for has been. Any other verdict is one whose
    /// time is not within `max_wait`; a `Delay` among them has its place taken, so go ahead after it
    /// or [`Self::refund`] it. A future that is dropped while it waits out a `Delay` keeps its place at the
    /// server, which only another call could give back: bound the wait by `max_wait` instead.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn until_allowed(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
    ) -> Result<ServerReply, Error> {
        let deadline = clock::after(Instant::now(), max_wait);
        let mut retry = 0;
        loop {
            let mut reply = self.check(request).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            match reply.verdict {
                Verdict::Delay { wait } if Duration::from(wait) <= left => {
                    tokio::time::sleep(wait.into()).await;
                    reply.verdict = Verdict::Allow;
                    return Ok(reply);
                }
                Verdict::Deny { retry_after: Some(after) } if Duration::from(after) < left => {
                    let after = Duration::from(after).max(WAIT_LEAST);
                    let more = self.shared.settings.backoff.ceiling(retry).min(left.saturating_sub(after));
                    tokio::time::sleep(after + backoff::jitter(more, &mut Rng::new())).await;
                    retry += 1;
                }
                Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. } => return Ok(reply),
            }
        }
    }

    /// The server's reply, or what stands in for it.
    async fn ask(&self, operation: Operation, request: &Request<'_>) -> Result<WireReply, Error> {
        self.server.protocol.accepts(operation, request)?;
        let ClientSettings { timeout, backoff, when_unreachable, .. } = &self.shared.settings;
        let deadline = clock::after(Instant::now(), *timeout);
        let mut retry = 0;
        let error = loop {
            let told = match self.attempt(operation, request, deadline).await {
                Ok(wire) => return Ok(wire),
                Err(Failure::Rejected(error)) => return Err(error),
                Err(Failure::Unknown(error)) if operation != Operation::Peek => break error,
                Err(Failure::Unknown(error)) => (error, None),
                Err(Failure::Undecided(error, told)) => (error, told),
            };
            let (error, told) = told;
            let wait = backoff.wait(retry, told, &mut Rng::new());
            if retry == backoff.retries || clock::after(Instant::now(), wait) >= deadline {
                break error;
            }
            tokio::time::sleep(wait).await;
            retry += 1;
        };
        let verdict = when_unreachable.verdict().ok_or(error)?;
        Ok(WireReply { reply: ServerReply::unreachable(verdict), tells_retry: false })
    }

    /// Asks once, unless the server has asked for quiet for longer than there is time.
    async fn attempt(
        &self,
        operation: Operation,
        request: &Request<'_>,
        deadline: Instant,
    ) -> Result<WireReply, Failure> {
        let Server { url, .. } = &*self.server;
        let pause = *self.shared.pause.lock();
        if let Some(until) = pause.filter(|until| *until > Instant::now()) {
            if until >= deadline {
                let (status, detail) = (StatusCode::SERVICE_UNAVAILABLE.as_u16(), QUIET.to_owned());
                let told = Some(until.saturating_duration_since(Instant::now()));
                return Err(Failure::Undecided(
                    Error::Unavailable { url: url.clone(), status, detail },
                    told,
                ));
            }
            // Not all at that instant, and not so late that there is no time left to ask.
            let most = self.shared.settings.backoff.base.min((deadline - until) / 2);
            tokio::time::sleep_until(until + backoff::jitter(most, &mut Rng::new())).await;
        }
        let sent = self.server.sender.send(self.server.encode(operation, request));
        let received = match tokio::time::timeout_at(deadline, sent).await {
            Ok(Ok(raw)) => self.server.decode(&raw),
            Ok(Err(SendFailure { never_sent, source })) => {
                let error = Error::Unreachable { url: url.clone(), source };
                Err(if never_sent { Failure::Undecided(error, None) } else { Failure::Unknown(error) })
            }
            Err(_) => {
                let timeout = self.shared.settings.timeout;
                Err(Failure::Unknown(Error::Timeout { url: url.clone(), timeout }))
            }
        };
        if let Err(Failure::Undecided(_, Some(told))) = &received {
            let until = Some(clock::after(Instant::now(), *told));
            let mut pause = self.shared.pause.lock();
            *pause = until.max(*pause);
        }
        received
    }
}

impl Protocol {
    /// Whether there is a way to ask this.
    fn accepts(self, operation: Operation, request: &Request<'_>) -> Result<(), Error> {
        if request.domain.is_empty() {
            return Err(Error::Incomplete { what: "domain" });
        }
        if request.descriptors.is_empty() {
            return Err(Error::Incomplete { what: "descriptors" });
        }
        let unsupported = |what, protocol, instead| Err(Error::Unsupported { what, protocol, instead });
        let mut descriptors = request.descriptors.iter();
        let own = request.descriptors.iter().filter_map(|descriptor| descriptor.operation);
        match (self, operation) {
            (Self::Http, _) if descriptors.any(|descriptor| descriptor.limit.is_some()) => {
                unsupported("a limit of the caller's own", "HTTP", "use Client::grpc")
            }
            (Self::Http, _) if own.clone().next().is_some() => unsupported(
                "an operation of a descriptor's own",
                "HTTP",
                "ask for it alone, or use Client::grpc for a refund",
            ),
            (Self::Grpc, _) if own.clone().any(|own| own != Operation::Refund) => {
                unsupported("an operation of a descriptor's own but a refund", "gRPC", ALONE)
            }
            (Self::Grpc, Operation::Peek) if own.clone().next().is_some() => {
                unsupported("a refund in a peek", "gRPC", ALONE)
            }
            (Self::Http | Self::Grpc, _) => Ok(()),
        }
    }
}

impl Server {
    fn encode(&self, operation: Operation, request: &Request<'_>) -> http::Request<Full<Bytes>> {
        let (path, kind, body) = match self.protocol {
            Protocol::Http => (v1_wire::path(operation), JSON, v1_wire::encode(request).into()),
            Protocol::Grpc => (grpc_wire::path(operation), GRPC, grpc_wire::encode(request, operation)),
        };
        let mut sent = http::Request::post(format!("{}{path}", self.url)).header(CONTENT_TYPE, kind);
        if self.protocol == Protocol::Grpc {
            sent = sent.header(TE, "trailers");
        }
        sent.body(Full::new(body)).expect("the address was checked when the client was made")
    }

    fn decode(&self, raw: &RawReply) -> Result<WireReply, Failure> {
        match self.protocol {
            Protocol::Http => self.decode_http(raw),
            Protocol::Grpc => self.decode_grpc(raw),
        }
    }

    fn decode_http(&self, raw: &RawReply) -> Result<WireReply, Failure> {
        let url = self.url.clone();
        let status = raw.status.as_u16();
        let detail = || v1_wire::problem(&raw.body);
        match raw.status {
            StatusCode::OK | StatusCode::TOO_MANY_REQUESTS => match v1_wire::decode(&raw.body) {
                Ok(wire) => Ok(wire),
                // Somebody between here and there has limits, too.
                Err(_) if status == 429 => Err(Failure::Undecided(
                    Error::Unavailable { url, status, detail: detail() },
                    retry_after::told(&raw.headers, clock::wall_now()),
                )),
                Err(error) => Err(Failure::Unknown(Error::Garbled { url, detail: error.to_string() })),
            },
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => Err(Failure::Undecided(
                Error::Unavailable { url, status, detail: detail() },
                retry_after::told(&raw.headers, clock::wall_now()),
            )),
            other if other.is_client_error() => {
                Err(Failure::Rejected(Error::Rejected { url, status, detail: detail() }))
            }
            other if other.is_server_error() => {
                Err(Failure::Unknown(Error::Unavailable { url, status, detail: detail() }))
            }
            _ => Err(Failure::Unknown(Error::Garbled { url, detail: format!("the status is {status}") })),
        }
    }

    fn decode_grpc(&self, raw: &RawReply) -> Result<WireReply, Failure> {
        let url = self.url.clone();
        let http_status = raw.status.as_u16();
        let field = |name: &str| {
            let of = |fields: &HeaderMap| Some(fields.get(name)?.to_str().ok()?.to_owned());
            of(&raw.trailers).or_else(|| of(&raw.headers))
        };
        let Some(status) = field("grpc-status").and_then(|status| status.parse::<u16>().ok()) else {
            let error = Error::Garbled { url, detail: format!("the status is {http_status} of HTTP") };
            return Err(Failure::Unknown(error));
        };
        let detail = || field("grpc-message").unwrap_or_default();
        match status {
            0 => grpc_wire::decode(&raw.body)
                .map_err(|detail| Failure::Unknown(Error::Garbled { url, detail })),
            // Too slow, too much, not there: in each case the server has not decided.
            4 | 8 | 14 => Err(Failure::Undecided(
                Error::Unavailable { url, status, detail: detail() },
                retry_after::told(&raw.headers, clock::wall_now()),
            )),
            // A request that is none, and a service that is not there.
            3 | 12 => Err(Failure::Rejected(Error::Rejected { url, status, detail: detail() })),
            _ => Err(Failure::Unknown(Error::Unavailable { url, status, detail: detail() })),
        }
    }
}

fn server_uri(url: &str) -> Result<Uri, Error> {
    let wrong = |detail: &str| Error::Url { url: url.to_owned(), detail: detail.to_owned() };
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return Err(wrong("it is neither http nor https")),
        None => return Err(wrong("it has no http:// before it")),
    }
    if uri.query().is_some() {
        return Err(wrong("it has a query"));
    }
    if url.contains('#') {
        return Err(wrong("it has a fragment"));
    }
    // A connection would go to the port of the scheme in place of one that cannot be read.
    let port = uri.authority().and_then(|authority| port_text(authority.as_str()));
    if port.is_some_and(|port| !matches!(port.parse(), Ok(1_u16..))) {
        return Err(wrong("its port is not from 1 to 65535"));
    }
    Ok(uri)
}

/// What is after the colon of `user@host:port` or `[address]:port`.
fn port_text(authority: &str) -> Option<&str> {
    let host = authority.rsplit(['@', ']']).next()?;
    host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.is_empty())
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { url, protocol, .. } = &*self.server;
        let settings = &self.shared.settings;
        f.debug_struct("Client")
            .field("url", url)
            .field("protocol", protocol)
            .field("settings", settings)
            .finish_non_exhaustive()
    }
}
