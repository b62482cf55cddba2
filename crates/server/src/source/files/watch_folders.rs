//! Which folders to watch for changes of rule files.
//!
//! For a file that is the folder it lies in. For a link it is also the folder
//! where each link on the way lies, so that a swapped link is seen; for a
//! folder, all folders below it.
//!
//! What is missed here, for instance because there are too many folders, is
//! found by the next poll, a second later.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_rules::FOLDER_DEPTH_MAX;

/// The most folders that are watched: the system's bound on watches is shared
/// by all processes of a user, and often 8,192.
const FOLDERS_MAX: usize = 1_024;
/// The most links that are followed on the way to a file, as in Linux.
const LINKS_MAX: usize = 40;

/// The folders to watch for these paths, sorted.
pub(super) fn of(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    for path in paths {
        links(path, &mut found);
        if path.is_dir() {
            below(path, 0, &mut found);
        }
    }
    found.into_iter().collect()
}

/// Where the path lies, where it leads if it is a link, and so on.
fn links(path: &Path, found: &mut BTreeSet<PathBuf>) {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return,
        };
        if parent.is_dir() {
            add(parent, found);
        }
        let Ok(target) = fs::read_link(&path) else { return };
        path = parent.join(target);
    }
}

fn below(folder: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
    add(folder, found);
    if depth >= FOLDER_DEPTH_MAX || found.len() >= FOLDERS_MAX {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if super::is_folder_itself(&path) {
            below(&path, depth + 1, found);
        } else {
            // A file that is a link may be changed where it really lies.
            if path.is_symlink() && path.is_file() {
                links(&path, found);
            }
        }
    }
}

/// Folders are kept as they are really called, so that a swapped link makes
/// a difference.
fn add(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    if found.len() < FOLDERS_MAX {
        found.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf()));
    }
}
