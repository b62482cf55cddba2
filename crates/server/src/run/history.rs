//! When history is opened and written: at the start, every 15 seconds, at the end.
//!
//! Threads that may block wait for the disk, never one that answers callers.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::Time;
use tollgate_history::FLUSH_EVERY_S;

use super::LAST_FLUSH_MAX;
use crate::history::HistoryService;
use crate::service::Service;
use crate::shutdown::stopped;

const EVERY: Duration = Duration::from_secs(FLUSH_EVERY_S);

/// The start waits so long for a folder; one of a few megabytes is open long before.
const OPEN_WAIT_MAX: Duration = Duration::from_secs(1);

/// Opens it, and says where it is kept.
pub(super) fn open(service: &Service) {
    let Some(history) = service.history().cloned() else {
        return tracing::info!("history is turned off");
    };
    let is_remote = history.location().is_remote();
    // Nothing is sent: the end of the thread closes it.
    let (opening, opened) = mpsc::channel::<()>();
    let open = move || {
        history.open();
        drop(opening);
    };
    // If there is no thread to be had, the first write opens it.
    drop(std::thread::Builder::new().name("history-open".into()).spawn(open));
    // Callers must not wait for a Redis that may be away, nor until all of a large file is read.
    if !is_remote && opened.recv_timeout(OPEN_WAIT_MAX) == Err(RecvTimeoutError::Timeout) {
        tracing::info!("history is being opened; limiting does not wait for it");
    }
}

/// Writes what was counted, every 15 seconds.
pub(super) async fn keep(service: Arc<Service>, mut done: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = stopped(&mut done) => return,
            () = tokio::time::sleep(EVERY) => write(&service, HistoryService::write).await,
        }
    }
}

/// Writes what was counted since the last time, when the server stops.
pub(super) async fn flush(service: &Arc<Service>) {
    if tokio::time::timeout(LAST_FLUSH_MAX, write(service, HistoryService::finish)).await.is_err() {
        tracing::warn!("the last counts of history were not written in time and are lost");
    }
}

async fn write(service: &Arc<Service>, how: fn(&HistoryService, Time)) {
    let Some(history) = service.history().cloned() else { return };
    let now = service.now();
    // A panic is caught and logged inside; the next write is seconds away.
    drop(tokio::task::spawn_blocking(move || how(&history, now)).await);
}
