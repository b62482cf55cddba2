//! When history is opened and written: at the start, every 15 seconds, at the end.
//!
//! The disk is waited for on threads that may wait, never on one that answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_history::FLUSH_EVERY_S;

use super::LAST_FLUSH_MAX;
use crate::listen::life::stopped;
use crate::service::Service;

const EVERY: Duration = Duration::from_secs(FLUSH_EVERY_S);

/// Opens it, and says where it is kept.
pub(super) fn open(service: &Service) {
    match service.history() {
        // Callers do not wait for a Redis that may not be there.
        Some(keeper) if keeper.place().is_remote() => {
            let keeper = Arc::clone(keeper);
            // Without a thread, the first write opens it.
            drop(std::thread::Builder::new().name("history-open".into()).spawn(move || keeper.open()));
        }
        Some(keeper) => keeper.open(),
        None => tracing::info!("history is turned off; nothing is remembered"),
    }
}

/// Writes what was counted, again and again.
pub(super) async fn keep(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            () = tokio::time::sleep(EVERY) => write(&service).await,
        }
    }
}

/// Writes what was counted until the end.
pub(super) async fn write_the_last(service: &Arc<Service>) {
    if tokio::time::timeout(LAST_FLUSH_MAX, write(service)).await.is_err() {
        tracing::warn!("the last counts of history could not be written in time and are lost");
    }
}

async fn write(service: &Arc<Service>) {
    let Some(keeper) = service.history().cloned() else { return };
    let now = service.now();
    // A panic is caught inside, and told; the next write is seconds away.
    drop(tokio::task::spawn_blocking(move || keeper.write(now)).await);
}
