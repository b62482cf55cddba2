//! The folder layout of envoyproxy/ratelimit.
//!
//! `ROOT/SUBDIRECTORY/APPDIRECTORY/**`, whatever the files are called; with
//! `RUNTIME_WATCH_ROOT` all of `ROOT/SUBDIRECTORY` is looked at, and what
//! counts are the files whose path, with dots for slashes, begins with the
//! app directory and a dot. Messages call files by that dotted path.
//!
//! As there: links to files are followed, links to folders are not; a file
//! that cannot be read is left out and said; no files are no mistake.
//! Unlike there: names that begin with two dots are always left out, because
//! they are what Kubernetes keeps beside the files of a ConfigMap.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tollgate_rules::{FILES_MAX, FOLDER_DEPTH_MAX, LoadError, Problem, SourceFile};
use tollgate_settings::RuntimeLayout;

use super::{FileScan, watch_folders};

pub(super) fn scan(layout: &RuntimeLayout) -> FileScan {
    let base = layout.root.join(layout.subdirectory.trim_matches('/'));
    let app = base.join(layout.app_directory.trim_matches('/'));
    let top = if layout.watch_root { base } else { app.clone() };
    let mut walk =
        RuntimeWalk { layout, top: &top, sources: Vec::new(), problems: Vec::new(), warnings: Vec::new() };
    walk.folder(&top, 0);
    let RuntimeWalk { mut sources, problems, warnings, .. } = walk;
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    FileScan {
        origin: app.display().to_string(),
        sources: if problems.is_empty() { Ok(sources) } else { Err(LoadError { problems }) },
        lists: Vec::new(),
        warnings,
        folders: watch_folders::of(&[layout.root.clone(), top]),
    }
}

struct RuntimeWalk<'a> {
    layout: &'a RuntimeLayout,
    top: &'a Path,
    sources: Vec<SourceFile>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl RuntimeWalk<'_> {
    fn folder(&mut self, folder: &Path, depth: usize) {
        if depth > FOLDER_DEPTH_MAX {
            let message = format!("folders are nested deeper than {FOLDER_DEPTH_MAX} levels");
            return self.refuse(folder, &message, "write fewer levels");
        }
        let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(folder).and_then(Iterator::collect);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) if depth == 0 => {
                let help =
                    "make the folder, or set RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY";
                return self.refuse(folder, &format!("the folder cannot be read: {error}"), help);
            }
            Err(error) => return self.leave_out(folder, &error),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if self.is_hidden(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let path = entry.path();
            if super::is_folder_itself(&path) {
                self.folder(&path, depth + 1);
            } else if self.is_wanted(&path) && !path.is_dir() {
                self.file(&path);
            }
        }
    }

    fn is_hidden(&self, name: &str) -> bool {
        name.starts_with("..") || (self.layout.ignore_dot_files && name.starts_with('.'))
    }

    fn is_wanted(&self, path: &Path) -> bool {
        let app = self.layout.app_directory.trim_matches('/').replace('/', ".");
        !self.layout.watch_root || self.dotted(path).starts_with(&format!("{app}."))
    }

    /// The path below the top, with dots for slashes.
    fn dotted(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.top).unwrap_or(path);
        below.display().to_string().replace('/', ".")
    }

    fn file(&mut self, path: &Path) {
        if self.sources.len() >= FILES_MAX {
            if self.sources.len() == FILES_MAX && self.problems.is_empty() {
                let message = format!("there are more than {FILES_MAX} files");
                self.refuse(path, &message, "write fewer files");
            }
            return;
        }
        // Opening a FIFO would wait until somebody writes to it.
        if path.metadata().is_ok_and(|data| !data.is_file()) {
            let name = self.dotted(path);
            return self.warnings.push(format!("{name}: left out, because it is not an ordinary file"));
        }
        match File::open(path) {
            Ok(_) => {}
            // It went between listing and reading; the next scan will tell.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return,
            Err(error) => return self.leave_out(path, &error),
        }
        let name = self.dotted(path);
        match tollgate_rules::read(&[PathBuf::from(path)]) {
            Ok(sources) => {
                self.sources
                    .extend(sources.into_iter().map(|source| SourceFile { name: name.clone(), ..source }));
            }
            Err(LoadError { problems }) => {
                self.problems
                    .extend(problems.into_iter().map(|problem| Problem { file: name.clone(), ..problem }));
            }
        }
    }

    fn leave_out(&mut self, path: &Path, error: &io::Error) {
        self.warnings.push(format!("{}: left out, because it cannot be read: {error}", self.dotted(path)));
    }

    fn refuse(&mut self, path: &Path, message: &str, help: &str) {
        self.problems.push(Problem::of_file(&path.display().to_string(), message, help));
    }
}
