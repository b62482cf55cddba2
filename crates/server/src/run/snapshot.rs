//! Counters of the memory store on disk, so that they survive a restart.
//!
//! Read once, before the first request; written every ten seconds, and once more
//! when the server stops.
//!
//! Invariants: one process at a time writes to a folder. Whatever is wrong with
//! the folder or the file, the server starts and limits, and says so.
//!
//! Deliberately not here: the form of the file (`tollgate_limiter`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::Time;
use tollgate_limiter::{Capacity, MemoryStore};

use crate::service::Service;
use crate::shutdown::stopped;
use crate::store::AnyStore;

/// The file in the folder for data.
const FILE: &str = "counters.snapshot";
/// The process that holds this file's lock may write the snapshot.
const LOCK: &str = "counters.lock";
/// A process that is killed loses no more than this.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Where counters are saved; held for as long as the server runs.
#[derive(Debug)]
pub(super) struct Snapshots {
    path: PathBuf,
    /// Unlocked when it is closed.
    _lock: File,
}

impl Snapshots {
    /// Locks the folder for this process; none if that fails.
    pub(super) fn open(folder: &Path) -> Option<Self> {
        let refuse = |why: &dyn std::fmt::Display| {
            let folder = folder.display();
            tracing::warn!("counters are not saved: cannot use {folder}: {why}; give another --data");
        };
        let opened = fs::create_dir_all(folder).and_then(|()| File::create(folder.join(LOCK)));
        let lock = opened.map_err(|error| refuse(&error)).ok()?;
        if lock.try_lock().is_err() {
            refuse(&"another process saves its counters there");
            return None;
        }
        Some(Self { path: folder.join(FILE), _lock: lock })
    }

    /// The store as it was saved, or an empty one.
    pub(super) fn restore(&self, capacity: Capacity, now: Time) -> MemoryStore {
        match MemoryStore::restore(&self.path, capacity, now) {
            Ok(store) => {
                let (keys, file) = (store.usage().keys, self.path.display());
                tracing::info!("restored {keys} counters from {file}");
                store
            }
            Err(error) => {
                tracing::warn!("counters start empty: {error}");
                MemoryStore::new(capacity)
            }
        }
    }

    /// Saves every ten seconds until the server stops.
    pub(super) async fn keep(self: Arc<Self>, service: Arc<Service>, mut done: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = stopped(&mut done) => return,
                () = tokio::time::sleep(SAVE_EVERY) => {}
            }
            Arc::clone(&self).save(Arc::clone(&service)).await;
        }
    }

    /// Saves now.
    pub(super) async fn save(self: Arc<Self>, service: Arc<Service>) {
        // The disk may block.
        let saving = tokio::task::spawn_blocking(move || match service.limiter().store() {
            AnyStore::Memory(store) => store.save(&self.path).map(drop),
            AnyStore::Redis(_) => Ok(()),
        });
        if let Ok(Err(error)) = saving.await {
            tracing::warn!("cannot save counters: {error}; make room, or give another --data");
        }
    }
}
