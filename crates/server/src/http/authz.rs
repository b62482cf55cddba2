//! `/v1/authz`: proxies ask here before they forward a request.
//!
//! nginx (`auth_request`), Traefik (`ForwardAuth`) and Caddy (`forward_auth`)
//! describe a request in headers; the mapping of the settings makes descriptors
//! of it, and the answer is a status that the proxy obeys.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | a proxy's question → the request that it is about |
//! | `to_wire` | answers and refusals → responses |
//!
//! Invariants: only a trusted proxy is answered, because whoever describes a
//! request can describe any. Where two descriptions disagree, neither is
//! believed. A request that is to wait is held, never forwarded early.
//!
//! Deliberately not here: the mapping itself (`tollgate_http`).

mod from_wire;
mod to_wire;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::any;
use tokio::sync::watch;
use tollgate_http::{Admission, AdmissionControl, AdmissionError, HttpRequestFacts, Mapping, TokenVerifier};

use super::Context;
use crate::bounds::CERTIFICATE_LOOK_EVERY;
use crate::error::Error;
use crate::service::Service;
use crate::shutdown::stopped;
use crate::telemetry::CallSpan;
use to_wire::AuthzError;
use tollgate_metrics::Call;
use tollgate_settings::{ForwardAuthSettings, MappingSettings, Settings};

/// Who is connected to us; whoever serves a connection says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// What proxies are answered by.
#[derive(Debug)]
pub(crate) struct Authz {
    current: ArcSwap<AuthzMapping>,
    settings: ForwardAuthSettings,
    /// Whether a peer that is not trusted was told about in the log.
    has_warned: AtomicBool,
}

/// The mapping in force.
#[derive(Debug, Clone)]
struct AuthzMapping {
    /// What the settings say; none if nothing.
    mapping: Option<Mapping>,
    /// By the same, charging at once, since no answer is seen here.
    admission: Option<AdmissionControl>,
    tokens: Option<Arc<TokenVerifier>>,
}

impl Authz {
    /// Reads the keys that the settings name.
    ///
    /// # Errors
    /// If one cannot be read or used.
    pub(crate) fn load(settings: &Settings) -> Result<Self, Error> {
        let load = |spec| TokenVerifier::load(spec).map(Arc::new).map_err(Error::Keys);
        let (mapping, tokens) = match settings.mapping.clone() {
            None => (None, None),
            Some(MappingSettings { mapping, tokens: None }) => (Some(mapping), None),
            Some(MappingSettings { mapping, tokens: Some(spec) }) => {
                let tokens = load(spec)?;
                (Some(mapping.with_tokens(Arc::clone(&tokens))), Some(tokens))
            }
        };
        let own = settings.forward_auth;
        let at_once = mapping.clone().map(Mapping::charged_at_once);
        let admission = at_once.map(|mapping| AdmissionControl::new(mapping, own.max_hold));
        let current = ArcSwap::from_pointee(AuthzMapping { mapping, admission, tokens });
        Ok(Self { current, settings: own, has_warned: AtomicBool::new(false) })
    }

    /// The mapping, if there is one.
    pub(crate) fn mapping(&self) -> Option<Mapping> {
        self.current.load().mapping.clone()
    }

    /// What verifies tokens, if anything does.
    pub(crate) fn tokens(&self) -> Option<Arc<TokenVerifier>> {
        self.current.load().tokens.clone()
    }

    /// Uses another mapping from the next request on; those that wait, wait in the same lines.
    pub(crate) fn replace(&self, other: Self) {
        let AuthzMapping { mapping, admission, tokens } = (**other.current.load()).clone();
        let lines = self.current.load().admission.clone();
        let admission = match (lines, admission) {
            (Some(lines), Some(new)) => Some(lines.with_mapping(new.mapping().clone())),
            (_, new) => new,
        };
        self.current.store(Arc::new(AuthzMapping { mapping, admission, tokens }));
    }

    /// Follows the files with keys until the server is to end.
    pub(crate) async fn follow(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut every = tokio::time::interval(CERTIFICATE_LOOK_EVERY);
        let mut last_error = None;
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                _ = every.tick() => {}
            }
            let Some(own) = self.tokens() else { continue };
            let Ok(looked) = tokio::task::spawn_blocking(move || own.refresh()).await else { continue };
            let error = looked.as_ref().err().map(ToString::to_string);
            match (looked, &error) {
                (Ok(true), _) => tracing::info!("the keys for tokens changed and are in force"),
                (Err(_), Some(error)) if last_error.as_ref() != Some(error) => {
                    tracing::warn!(%error, "the keys for tokens changed but cannot be used; the old ones stay");
                }
                (Ok(false) | Err(_), _) => {}
            }
            last_error = error;
        }
    }

    /// Who lets requests in, if this peer may ask.
    fn admission_for<'a>(
        &self,
        current: &'a AuthzMapping,
        peer: Option<IpAddr>,
    ) -> Result<&'a AdmissionControl, AuthzError> {
        let admission = current.admission.as_ref().ok_or(AuthzError::NoMapping)?;
        if peer.is_some_and(|peer| admission.mapping().proxies().trusts(peer)) {
            return Ok(admission);
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
            tracing::warn!(peer, "refused a call of /v1/authz: the peer is not in mapping.trusted_proxies");
        }
        Err(AuthzError::Untrusted)
    }
}

/// The path that proxies ask at.
const PATH: &str = "/v1/authz";

/// That path, and all below it.
pub(super) fn router(context: Context) -> Router {
    Router::new()
        .route(PATH, any(answer))
        // The page at the root of an API: a rest is never empty.
        .route("/v1/authz/", any(answer))
        .route("/v1/authz/{*path}", any(answer))
        .with_state(context)
}

async fn answer(State(context): State<Context>, request: HttpRequest<Body>) -> Response {
    let Context { service, authz, .. } = &context;
    let start = service.now();
    // What a client sent as a body stays with the proxy.
    let (parts, _) = request.into_parts();
    let mut span = service.tracer().call(PATH, |name| parts.headers.get(name)?.to_str().ok());
    let decided = decide(service, authz, &parts, &mut span).await;
    service.metrics().served(Call::Http, service.now().since(start));
    match decided {
        Ok((mut admission, deny_status)) => {
            admission.turn().await;
            to_wire::respond(admission, deny_status)
        }
        Err(error) => {
            span.failed(&error.to_string());
            to_wire::error(&error)
        }
    }
}

/// What to answer, and the status of a denial.
async fn decide(
    service: &Arc<Service>,
    authz: &Authz,
    parts: &Parts,
    span: &mut CallSpan,
) -> Result<(Admission<Service>, u16), AuthzError> {
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let current = authz.current.load_full();
    let control = authz.admission_for(&current, peer)?;
    let original = from_wire::original(parts, authz.settings.request_from)?;
    let own_query = parts.uri.query().filter(|_| original.has_own_query);
    let deny_status = from_wire::deny_status(own_query)?.unwrap_or(authz.settings.deny_status);
    let facts = HttpRequestFacts {
        peer,
        peer_name: None,
        method: original.method,
        target: original.target,
        host: original.host,
        headers: (&parts.headers).into(),
    };
    let admission = control.admit(service, &facts).await.map_err(|error| match error {
        AdmissionError::Mapping(denial) => AuthzError::Mapping(denial),
        AdmissionError::Check(error) => AuthzError::Service(error),
    })?;
    if let Some(outcome) = admission.outcome {
        span.decided(Some(control.mapping().domain()), outcome);
    }
    Ok((admission, deny_status))
}
