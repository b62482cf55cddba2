//! The gateway as a listener: its connections, and whom it asks.
//!
//! The reverse proxy itself is `tollgate_gateway`. It is handed connections by `listen` and asks
//! the [`Service`], as every adapter does.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_core::{Micros, Operation, Request, Time};
use tollgate_gateway::{Checker, ClientSocket, Gateway, NoRules};
use tollgate_http::{PathTemplates, ResponseSettings};
use tollgate_limiter::Reply;

use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::service::{Service, ServiceError};
use crate::tls::Tls;

impl Checker for Service {
    fn now(&self) -> Time {
        self.now()
    }

    fn responses(&self) -> &ResponseSettings {
        &self.answers().responses
    }

    fn route<'a>(&'a self, path: &'a [u8], mapped: Option<&'a PathTemplates>) -> Option<Cow<'a, str>> {
        Some(self.history()?.counter().route_of(path, mapped))
    }

    fn passed(&self, route: &str, now: Time) {
        if let Some(history) = self.history() {
            history.counter().passed(route, now);
        }
    }

    async fn check(&self, request: &Request<'_>, now: Time, patience: Micros) -> Result<Reply, NoRules> {
        match self.check_within(request, now, patience).await {
            Ok(reply) => Ok(reply),
            // A mapping has a domain, and nothing is asked without descriptors.
            Err(ServiceError::NoRules | ServiceError::NoDomain | ServiceError::NoDescriptors) => Err(NoRules),
        }
    }

    async fn refund(&self, request: &Request<'_>) {
        // Without rules there is nothing to give back.
        drop(self.operate(request, Operation::Refund, self.now()).await);
    }
}

/// Serves the gateway's connections.
#[derive(Debug, Clone)]
pub(crate) struct ServeGateway {
    gateway: Arc<Gateway<Service>>,
    tls: Option<Arc<Tls>>,
}

impl ServeGateway {
    pub(crate) fn new(gateway: Gateway<Service>, tls: Option<Arc<Tls>>) -> Self {
        Self { gateway: Arc::new(gateway), tls }
    }
}

impl Serve for ServeGateway {
    fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
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
