//! The gateway as a listener.
//!
//! The reverse proxy itself is `tollgate_gateway`. It is handed connections by `listen` and asks
//! the [`Service`], as every adapter does.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_gateway::{ClientSocket, Gateway, default_mapping};
use tollgate_settings::GatewaySettings;

use crate::http::Authz;
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::service::Service;
use crate::tls::Tls;
use tollgate_settings::LimitedListener;

/// The gateway as the settings have it, with the tokens that forward-auth verifies.
pub(crate) fn load_gateway(
    settings: &GatewaySettings,
    authz: &Authz,
    service: Arc<Service>,
) -> Gateway<Service> {
    let mut config = settings.config.clone();
    if let Some(tokens) = authz.tokens() {
        for route in &mut config.routes {
            route.mapping = route.mapping.take().map(|mapping| mapping.with_tokens(Arc::clone(tokens)));
        }
    }
    let mapping = authz.mapping().cloned().unwrap_or_else(default_mapping);
    Gateway::new(&config, &mapping, service)
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
