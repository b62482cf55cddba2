//! Notices that something has changed in a folder.
//!
//! The system's notifications make a change known at once. They are only a
//! hint to poll sooner: where there are none (network file systems, too many
//! watches), the next poll finds the change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Folders under watch.
pub(super) struct FolderWatch {
    changed: Arc<Notify>,
    folders: Vec<PathBuf>,
    watcher: Option<RecommendedWatcher>,
}

impl FolderWatch {
    pub(super) fn new() -> Self {
        Self { changed: Arc::new(Notify::new()), folders: Vec::new(), watcher: None }
    }

    /// Returns once something happened since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether these folders are watched.
    pub(super) fn covers(&self, folders: &[PathBuf]) -> bool {
        self.folders == folders
    }

    /// Watches these folders from now on, and no others; anew even if they are
    /// the same, because one of them may have been replaced.
    pub(super) async fn moved_to(mut self, folders: Vec<PathBuf>) -> Self {
        let changed = Arc::clone(&self.changed);
        // A file system that hangs must not hold up the runtime.
        let moved = tokio::task::spawn_blocking(move || {
            self.watch(folders);
            self
        });
        moved.await.unwrap_or(Self { changed, folders: Vec::new(), watcher: None })
    }

    fn watch(&mut self, folders: Vec<PathBuf>) {
        self.watcher = None;
        let changed = Arc::clone(&self.changed);
        let on_event = move |event: notify::Result<Event>| match event {
            // Looking at the files ourselves is no change of theirs.
            Ok(Event { kind: EventKind::Access(_), .. }) => {}
            Ok(_) | Err(_) => changed.notify_one(),
        };
        let watcher = notify::recommended_watcher(on_event).map(|mut watcher| {
            for folder in &folders {
                add(&mut watcher, folder);
            }
            watcher
        });
        self.folders = folders;
        match watcher {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                tracing::debug!(%error, "no file notifications from the system; rule files are polled")
            }
        }
    }
}

fn add(watcher: &mut RecommendedWatcher, folder: &Path) {
    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
        let folder = folder.display();
        tracing::debug!(%folder, %error, "no notifications for this folder; it is polled");
    }
}
