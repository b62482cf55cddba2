//! The exceptions of operators, from the start of a server to its end: where they are kept, and
//! looking for changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::history::HistoryService;
use crate::overrides::{OverrideService, OverrideWatch};
use crate::service::Service;
use crate::shutdown::stopped;
use crate::store::AnyStore;

/// How often a node looks for changes: with a call to Redis they are in force within a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// In Redis if counters are there, or else beside the history.
pub(super) fn open(store: &AnyStore, history: Option<&HistoryService>) -> OverrideService {
    if let AnyStore::Redis(store) = store {
        return OverrideService::on_redis(store.overrides());
    }
    let folder = history.and_then(|history| history.location().folder());
    folder.map_or_else(OverrideService::default, |folder| OverrideService::in_folder(folder.to_owned()))
}

/// Keeps the limiter in step with what is kept, until the server stops.
pub(super) async fn follow(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    let mut every = tokio::time::interval(LOOK_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut watch = OverrideWatch::default();
    service.obey_overrides();
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            _ = every.tick() => service.follow_overrides(&mut watch).await,
        }
    }
}
