//! Rules in files: what is there at some instant.
//!
//! Before loading: an [`Origin`] → a [`FileScan`] with the texts of all rule
//! files, and the folders to watch for the next change. [`super::poll`]
//! scans again and again and loads what has changed.
//!
//! Invariant: scanning changes nothing, and two scans of the same files are
//! equal in their fingerprint, whatever order the file system lists them in.
//!
//! Deliberately not here: what the files say, and waiting for changes.

mod runtime;
mod watch_folders;

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tollgate_rules::{LoadError, SourceFile, list_files};
use tollgate_yaml::FILE_BYTES_MAX;

use tollgate_settings::{RuleOrigin, RuntimeLayout};

/// Where rules are looked for if nothing is said.
const DEFAULT_FOLDER: &str = "rules";
/// What the built-in rules are called in messages.
pub(super) const EXAMPLE_NAME: &str = "built-in example";
const EXAMPLE: &str = include_str!("example.yaml");

/// The rule files of an origin.
#[derive(Debug, Clone)]
pub(super) struct RuleFiles {
    origin: RuleOrigin,
    /// Where paths that do not begin with `/` are looked for; empty for the folder of this process.
    base: PathBuf,
}

/// The rule files at some instant.
#[derive(Debug)]
pub(super) struct FileScan {
    /// Where the rules come from, to show.
    pub(super) origin: String,
    /// The texts, or why they could not be read.
    pub(super) sources: Result<Vec<SourceFile>, LoadError>,
    /// The files of lists that they name; loading reads them.
    pub(super) lists: Vec<PathBuf>,
    /// What was left out.
    pub(super) warnings: Vec<String>,
    /// Where a change would be seen first.
    pub(super) folders: Vec<PathBuf>,
}

impl RuleFiles {
    pub(super) fn new(origin: RuleOrigin, base: PathBuf) -> Self {
        Self { origin, base }
    }

    /// Reads everything.
    pub(super) fn scan(&self) -> FileScan {
        let mut scan = match &self.origin {
            RuleOrigin::Paths(paths) => self.paths(paths),
            RuleOrigin::Runtime(layout) => runtime::scan(layout),
            RuleOrigin::Default | RuleOrigin::Xds(_) => self.anywhere(),
        };
        let lists = scan.sources.as_ref().map_or_else(|_| Vec::new(), |sources| list_files(sources));
        scan.folders.extend(watch_folders::of(&lists));
        scan.folders.sort();
        scan.folders.dedup();
        scan.lists = lists;
        scan
    }

    fn paths(&self, paths: &[PathBuf]) -> FileScan {
        let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.base.join(path)).collect();
        FileScan {
            origin: shown.join(", "),
            sources: tollgate_rules::read(&paths),
            lists: Vec::new(),
            warnings: Vec::new(),
            folders: watch_folders::of(&paths),
        }
    }

    /// Looked up anew each time, so that a folder made later is found.
    fn anywhere(&self) -> FileScan {
        let folder = self.base.join(DEFAULT_FOLDER);
        if folder.exists() {
            return self.paths(&[PathBuf::from(DEFAULT_FOLDER)]);
        }
        let layout = RuntimeLayout::default();
        if layout.root.exists() {
            return runtime::scan(&layout);
        }
        let example = SourceFile { name: EXAMPLE_NAME.to_owned(), text: EXAMPLE.to_owned() };
        FileScan {
            origin: EXAMPLE_NAME.to_owned(),
            sources: Ok(vec![example]),
            lists: Vec::new(),
            warnings: Vec::new(),
            folders: watch_folders::of(&[folder]),
        }
    }
}

impl FileScan {
    /// Equal for equal rules; different, as good as surely, for different ones.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.origin.hash(&mut hasher);
        match &self.sources {
            Ok(sources) => {
                for source in sources {
                    (&source.name, &source.text).hash(&mut hasher);
                }
            }
            Err(error) => error.to_string().hash(&mut hasher),
        }
        for list in &self.lists {
            (list, list_content(list)).hash(&mut hasher);
        }
        self.warnings.hash(&mut hasher);
        hasher.finish()
    }
}

/// The bytes of a list; none if it cannot be read, which loading tells.
fn list_content(path: &Path) -> Option<Vec<u8>> {
    // Opening a FIFO would wait until somebody writes to it.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a path is a folder, and no link to one.
fn is_folder_itself(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_dir())
}
