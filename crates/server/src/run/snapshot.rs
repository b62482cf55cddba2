//! Counters of the memory store on disk, so that they survive a restart.
//!
//! Read once, before the first request, also while a predecessor is still
//! writing; written every ten seconds, and once more
//! when the server stops.
//!
//! Invariants: one process at a time writes to a folder; a server that starts
//! before its predecessor has ended takes over from it. Whatever is wrong with
//! the folder or the file, the server starts and limits, and says so.
//!
//! Deliberately not here: the form of the file (`tollgate_limiter`).

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Where counters are saved.
#[derive(Debug)]
pub(super) struct Snapshots {
    folder: PathBuf,
    path: PathBuf,
    state: Mutex<SnapshotState>,
}

#[derive(Debug, Default)]
struct SnapshotState {
    /// Held from when the folder is ours; unlocked when it is closed.
    lock: Option<File>,
    /// The last attempt failed, and the log says so.
    is_failing: bool,
}

/// Why the folder is not ours.
#[derive(Debug, thiserror::Error)]
enum LockFailure {
    #[error("another process saves its counters there; this one takes over when that one ends")]
    Taken,
    #[error("{0}; it is tried again every {every} s", every = SAVE_EVERY.as_secs())]
    System(#[from] io::Error),
}

impl Snapshots {
    /// Locks the folder for this process, or says why it cannot yet.
    pub(super) fn open(folder: PathBuf) -> Self {
        let lock = lock(&folder);
        if let Err(failure) = &lock {
            let folder = folder.display();
            tracing::warn!("counters are not saved: cannot use {folder}: {failure}; or give another --data");
        }
        let state = SnapshotState { is_failing: lock.is_err(), lock: lock.ok() };
        Self { path: folder.join(FILE), folder, state: Mutex::new(state) }
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
        // The disk may block. A panic is reported by its hook.
        drop(tokio::task::spawn_blocking(move || self.write(service.limiter().store())).await);
    }

    fn write(&self, store: &AnyStore) {
        let AnyStore::Memory(store) = store else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.lock.is_none() {
            // The log has said why.
            state.lock = lock(&self.folder).ok();
        }
        if state.lock.is_none() {
            return;
        }
        match store.save(&self.path) {
            Ok(_) if std::mem::take(&mut state.is_failing) => {
                tracing::info!("counters are saved in {} from now on", self.folder.display());
            }
            Ok(_) => {}
            Err(error) => {
                if !std::mem::replace(&mut state.is_failing, true) {
                    tracing::warn!(
                        "cannot save counters: {error}; make room, or give another --data; \
                         it is tried again every {} s",
                        SAVE_EVERY.as_secs()
                    );
                }
            }
        }
    }
}

fn lock(folder: &Path) -> Result<File, LockFailure> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    // Nobody else enters: what is kept there may hold secrets of callers.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.open(folder.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(LockFailure::Taken),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}
