//! Opens the store, and checks its health.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_limiter::{Clock as _, SystemClock};

use super::snapshot::Snapshots;
use crate::error::Error;
use crate::service::Service;
use crate::shutdown::stopped;
use crate::store::AnyStore;
use tollgate_settings::{Settings, StoreSettings};

/// How often the store's health is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Where counters in memory are saved, if they are.
pub(super) fn snapshots(settings: &Settings) -> Option<Snapshots> {
    match settings.store {
        StoreSettings::Memory(_) => Some(Snapshots::open(settings.snapshots.clone()?)),
        StoreSettings::Redis(_) => None,
    }
}

/// The store that the settings choose, with what was saved of it.
pub(super) fn open(settings: &Settings, snapshots: Option<&Snapshots>) -> Result<AnyStore, Error> {
    match (&settings.store, snapshots) {
        (StoreSettings::Memory(capacity), Some(snapshots)) => {
            Ok(AnyStore::Memory(snapshots.restore(*capacity, SystemClock::new().now())))
        }
        (store, _) => AnyStore::new(store),
    }
}

/// Checks the store's health every second, also where no caller uses it.
pub(super) async fn watch_health(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    let mut every = tokio::time::interval(CHECK_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            _ = every.tick() => {}
        }
        let is_well = service.limiter().store().is_well().await;
        service.health().set_store_up(is_well);
    }
}
