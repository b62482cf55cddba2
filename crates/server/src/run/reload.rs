//! Settings that change while the server runs: routes, upstreams and mappings.
//!
//! `tollgate.yaml` is looked at every second, however it is replaced, and at a SIGHUP, which also
//! reads the files again that it names.
//!
//! Invariants: a file with a mistake changes nothing, and log and metric say so. What the new
//! mapping takes from where clients put secrets is hidden in the history before it is in force.
//!
//! Deliberately not here: all other settings, which take a restart.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tollgate_gateway::Gateway;
use tollgate_settings::{Settings, SettingsOrigin, needing_restart};

use crate::bounds::CERTIFICATE_LOOK_EVERY;
use crate::error::Error;
use crate::gateway::reload_gateway;
use crate::http::Authz;
use crate::service::Service;
use crate::shutdown::stopped;

/// What follows the file.
pub(super) struct SettingsReload {
    pub(super) origin: SettingsOrigin,
    pub(super) service: Arc<Service>,
    pub(super) authz: Arc<Authz>,
    pub(super) gateway: Option<Arc<Gateway<Service>>>,
}

impl SettingsReload {
    /// Follows the file until the server is to end.
    pub(super) async fn follow(self, reload: Arc<Notify>, mut stop: watch::Receiver<bool>) {
        let mut last = read(&self.origin.path).await;
        let mut every = tokio::time::interval(CERTIFICATE_LOOK_EVERY);
        loop {
            let is_asked = tokio::select! {
                () = stopped(&mut stop) => return,
                () = reload.notified() => true,
                _ = every.tick() => false,
            };
            let text = read(&self.origin.path).await;
            if text == last && !is_asked {
                continue;
            }
            last = text;
            let name = self.origin.path.display();
            match self.apply() {
                Ok(()) => {
                    tracing::info!("{name} is read again: its routes, upstreams and mapping are in force");
                    self.service.metrics().settings_loaded();
                }
                Err(error) => {
                    tracing::warn!("{name} cannot be used; what was in force stays: {error}");
                    self.service.metrics().settings_refused();
                }
            }
        }
    }

    /// All of it, or nothing.
    fn apply(&self) -> Result<(), Error> {
        let (settings, warnings) = self.origin.load()?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let Settings { gateway, history, .. } = &settings;
        let authz = Authz::load(&settings)?;
        let hidden = history.as_ref().map(|history| history.hidden.clone()).unwrap_or_default();
        let counter = self.service.history().map(|history| history.counter());
        if let Some(counter) = counter {
            counter.hide_also(&hidden);
        }
        if let (Some(running), Some(own)) = (&self.gateway, gateway) {
            reload_gateway(running, own, &authz)?;
        }
        self.authz.replace(authz);
        for name in needing_restart(&self.service.settings_in_force(), &settings.in_force) {
            tracing::warn!("{name} has changed, which needs a restart; until then it stays as it was");
        }
        self.service.settings_reloaded(&settings.in_force);
        if let Some(counter) = counter {
            counter.hide(hidden);
        }
        Ok(())
    }
}

/// The file as it is; none if it cannot be read.
async fn read(path: &Path) -> Option<Vec<u8>> {
    tokio::fs::read(path).await.ok()
}
