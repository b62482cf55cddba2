//! When history is opened and written: at the start, every 15 seconds, at the end.
//!
//! Threads that may block wait for the disk, never one that answers callers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_history::FLUSH_EVERY_S;

use super::LAST_FLUSH_MAX;
use crate::service::Service;
use crate::shutdown::stopped;

const EVERY: Duration = Duration::from_secs(FLUSH_EVERY_S);

/// Opens it, and says where it is kept.
pub(super) fn open(service: &Service) {
    match service.history() {
        // Callers must not wait for a Redis that may be away.
        Some(history) if history.location().is_remote() => {
            let history = Arc::clone(history);
            // If there is no thread to be had, the first write opens it.
            drop(std::thread::Builder::new().name("history-open".into()).spawn(move || history.open()));
        }
        Some(history) => history.open(),
        None => tracing::info!("history is turned off"),
    }
}

/// Writes what was counted, every 15 seconds.
pub(super) async fn keep(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            () = tokio::time::sleep(EVERY) => write(&service).await,
        }
    }
}

/// Writes what was counted since the last time, when the server stops.
pub(super) async fn flush(service: &Arc<Service>) {
    if tokio::time::timeout(LAST_FLUSH_MAX, write(service)).await.is_err() {
        tracing::warn!("the last counts of history were not written in time and are lost");
    }
}

async fn write(service: &Arc<Service>) {
    let Some(history) = service.history().cloned() else { return };
    let now = service.now();
    // A panic is caught and logged inside; the next write is seconds away.
    drop(tokio::task::spawn_blocking(move || history.write(now)).await);
}
