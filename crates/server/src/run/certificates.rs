//! The TLS of every listener that has any.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::Error;
use crate::tls::Tls;
use tollgate_settings::Settings;

/// The TLS of every listener that has any.
pub(super) struct Certificates {
    pub(super) grpc: Option<Arc<Tls>>,
    pub(super) http: Option<Arc<Tls>>,
    pub(super) resp: Option<Arc<Tls>>,
    pub(super) gateway: Option<Arc<Tls>>,
}

impl Certificates {
    /// Reads the files that the settings name.
    pub(super) fn load(settings: &Settings) -> Result<Self, Error> {
        let resp = settings.resp.as_ref().and_then(|resp| resp.tls.as_ref());
        let gateway = settings.gateway.as_ref().and_then(|gateway| gateway.tls.as_ref());
        Ok(Self {
            grpc: Tls::load_some(settings.grpc.tls.as_ref(), &[b"h2"])?,
            http: Tls::load_some(settings.http_tls.as_ref(), &[b"http/1.1"])?,
            resp: Tls::load_some(resp, &[b"redis"])?,
            gateway: Tls::load_some(gateway, &[b"h2", b"http/1.1"])?,
        })
    }

    /// Picks up what changes, until the server is to end.
    pub(super) fn follow(&self, done: &watch::Sender<bool>) {
        for tls in [&self.grpc, &self.http, &self.resp, &self.gateway].into_iter().flatten() {
            tokio::spawn(Arc::clone(tls).follow(done.subscribe()));
        }
    }
}
