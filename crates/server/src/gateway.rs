//! The gateway as a listener.
//!
//! The reverse proxy itself is `tollgate_gateway`. It is handed connections by `listen` and asks
//! the [`Service`], as every adapter does.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_gateway::{
    AccessLog, ClientSocket, Gateway, GatewayConfig, UpstreamStatus, UpstreamTlsError, default_mapping,
};
use tollgate_http::Mapping;
use tollgate_metrics::{Metrics, UpstreamStats};
use tollgate_settings::GatewaySettings;

use crate::error::Error;
use crate::http::Authz;
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::service::Service;
use crate::tls::Tls;
use tollgate_settings::LimitedListener;

/// The gateway as the settings have it, with the tokens that forward-auth verifies.
///
/// # Errors
/// If the access log cannot be written.
pub(crate) fn load_gateway(
    settings: &GatewaySettings,
    authz: &Authz,
    service: &Arc<Service>,
) -> Result<Gateway<Service>, Error> {
    let (config, mapping) = config_and_mapping(settings, authz);
    let gateway = Gateway::new(&config, &mapping, Arc::clone(service)).map_err(unusable)?;
    let gateway = gateway.with_deferring(service.deferring().cloned());
    let Some(access_log) = &settings.access_log else { return Ok(gateway) };
    let log = AccessLog::open(access_log);
    let path = || access_log.path.clone().unwrap_or_else(|| "stdout".into());
    let log = Arc::new(log.map_err(|source| Error::AccessLog { path: path(), source })?);
    let weak = Arc::downgrade(&log);
    service.metrics().watch_access_log(move || weak.upgrade().map_or(0, |log| log.dropped()));
    Ok(gateway.with_access_log(Some(log)))
}

/// Other settings from the next request on.
pub(crate) fn reload_gateway(
    gateway: &Gateway<Service>,
    settings: &GatewaySettings,
    authz: &Authz,
) -> Result<(), Error> {
    let (config, mapping) = config_and_mapping(settings, authz);
    gateway.reload(&config, &mapping).map_err(unusable)
}

fn unusable(error: UpstreamTlsError) -> Error {
    let UpstreamTlsError { path, reason } = error;
    Error::Certificate { path, reason }
}

/// What the settings say, with what verifies tokens.
fn config_and_mapping(settings: &GatewaySettings, authz: &Authz) -> (GatewayConfig, Mapping) {
    let mut config = settings.config.clone();
    if let Some(tokens) = authz.tokens() {
        for route in &mut config.routes {
            route.mapping = route.mapping.take().map(|mapping| mapping.with_tokens(Arc::clone(&tokens)));
        }
    }
    (config, authz.mapping().unwrap_or_else(default_mapping))
}

/// Has the metrics tell how upstreams are doing.
pub(crate) fn watch_upstreams(gateway: &Arc<Gateway<Service>>, metrics: &Metrics) {
    let weak = Arc::downgrade(gateway);
    let stats = |status: UpstreamStatus| {
        let UpstreamStatus { group, upstream, is_up, in_flight, requests, failures, ejections } = status;
        UpstreamStats { group, upstream, is_up, in_flight, requests, failures, ejections }
    };
    metrics.watch_gateway(move || {
        let upstreams = weak.upgrade().map(|gateway| gateway.upstreams()).unwrap_or_default();
        upstreams.into_iter().map(stats).collect()
    });
}

/// Serves the gateway's connections.
#[derive(Debug, Clone)]
pub(crate) struct ServeGateway {
    gateway: Arc<Gateway<Service>>,
    tls: Option<Arc<Tls>>,
}

impl ServeGateway {
    pub(crate) const fn new(gateway: Arc<Gateway<Service>>, tls: Option<Arc<Tls>>) -> Self {
        Self { gateway, tls }
    }
}

impl Serve for ServeGateway {
    fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    fn listener(&self) -> LimitedListener {
        LimitedListener::Gateway
    }

    fn policy(&self) -> LifetimePolicy {
        // The gateway has timeouts of its own, since its clients may send and read as slowly as they like.
        LifetimePolicy { answers_late: true, ..LifetimePolicy::default() }
    }

    async fn serve(&self, connection: ServerConnection) {
        let ServerConnection { io, peer, lifetime } = connection;
        let socket = ClientSocket { peer, is_tls: self.tls.is_some() };
        let close = Arc::new(Notify::new());
        let closed = Arc::clone(&close);
        let connection = Arc::clone(&self.gateway).serve(io, socket, async move { closed.notified().await });
        lifetime.supervise_with(connection, |_| close.notify_one()).await;
    }
}
