//! Rule files and rule tests on disk.
//!
//! Before loading: paths as a user gave them → [`SourceFile`]s. A file that is
//! named is taken whatever it is called; of a folder only rule files are, or
//! only rule tests.
//!
//! Invariant: what is read is bounded in size, number and depth, and each file
//! is taken once however often it is named.
//!
//! Deliberately not here: what the files say; noticing that they change.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_yaml::{LoadError, Problem, SourceFile};

/// The most rule files: a folder with more is probably not the one meant.
pub const FILES_MAX: usize = 10_000;
/// How deep folders of rules nest.
pub const FOLDER_DEPTH_MAX: usize = 32;

/// Reads files, and the rule files of folders.
///
/// Of a folder, recursively: every `*.yaml` and `*.yml` that is no rule test
/// and whose name begins with no dot; folders whose name does, and folders
/// that are symbolic links, are left out, so that a Kubernetes ConfigMap is
/// read once.
///
/// ```
/// use tollgate_rules::read;
/// let error = read(&["no/such/file.yaml".into()]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "no/such/file.yaml: error: there is no such file or folder; write the path of a rule file or of a folder of them"
/// );
/// ```
///
/// # Errors
/// If anything cannot be read, or a folder has no rule files; all of it is told.
pub fn read(paths: &[PathBuf]) -> Result<Vec<SourceFile>, LoadError> {
    let (sources, problems) = read_what_can_be(paths);
    if problems.is_empty() { Ok(sources) } else { Err(LoadError { problems }) }
}

/// As [`read`], but hands back what could be read beside what could not, for
/// those who want to tell the mistakes of both.
pub fn read_what_can_be(paths: &[PathBuf]) -> (Vec<SourceFile>, Vec<Problem>) {
    let mut finder = FileFinder::new("a rule file", is_rule_file);
    for path in paths {
        if is_test_file(path) && !path.is_dir() {
            let help = "write tollgate test PATH to run it";
            finder.reject(path, "this is a rule test and not a rule file", help);
            continue;
        }
        let (found, problems) = (finder.found, finder.problems.len());
        finder.path(path);
        if path.is_dir() && finder.found == found && finder.problems.len() == problems {
            let help = "write a rule file there, with a name that ends in .yaml";
            finder.reject(path, "the folder has no rule files", help);
        }
    }
    let FileFinder { files, mut problems, .. } = finder;
    let mut sources = Vec::with_capacity(files.len());
    for file in &files {
        match SourceFile::read(file) {
            Ok(source) => sources.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    problems.sort_by(|one, other| one.file.cmp(&other.file));
    (sources, problems)
}

/// Finds rule tests: files that are named, and the `*.test.yaml` and
/// `*.test.yml` of folders, which are searched as by [`read`].
///
/// # Errors
/// If a path leads nowhere, or a folder cannot be read; all of it is told.
pub fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let mut finder = FileFinder::new("a rule test", is_test_file);
    paths.iter().for_each(|path| finder.path(path));
    let FileFinder { files, problems, .. } = finder;
    if problems.is_empty() { Ok(files) } else { Err(LoadError { problems }) }
}

/// Whether a file is a rule test by its name.
///
/// ```
/// use std::path::Path;
/// use tollgate_rules::is_test_file;
/// assert!(is_test_file(Path::new("rules/shop.test.yaml")));
/// assert!(!is_test_file(Path::new("rules/shop.yaml")));
/// ```
pub fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".test.yaml") || name.ends_with(".test.yml")
}

fn is_rule_file(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    is_yaml && !is_test_file(path)
}

struct FileFinder {
    /// What is looked for, with its article.
    what: &'static str,
    is_wanted: fn(&Path) -> bool,
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
    /// Files as they are called on disk, each once.
    seen: HashSet<PathBuf>,
    /// How many files were named, and how many found in folders.
    found: usize,
}

impl FileFinder {
    fn new(what: &'static str, is_wanted: fn(&Path) -> bool) -> Self {
        let (files, problems, seen) = Default::default();
        Self { what, is_wanted, files, problems, seen, found: 0 }
    }

    fn reject(&mut self, path: &Path, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::of_file(&path.display().to_string(), message, help));
    }

    fn path(&mut self, path: &Path) {
        if path.is_dir() { self.folder(path, 1) } else { self.file(path) }
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        if depth > FOLDER_DEPTH_MAX {
            let message = format!("folders are nested deeper than {FOLDER_DEPTH_MAX} levels");
            return self.reject(folder, message, "write fewer levels");
        }
        let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(folder).and_then(Iterator::collect);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(folder, &error),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            // The type of the entry itself: a link is no folder here.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.folder(&path, depth + 1),
                Ok(_) if (self.is_wanted)(&path) && !path.is_dir() => self.file_of_folder(&path),
                Ok(_) => {}
                Err(error) => self.unreadable(&path, &error),
            }
        }
    }

    /// Opening a FIFO waits until somebody writes, and a device may never end.
    /// One that is named is taken, as in `tollgate check <(generate)`.
    fn file_of_folder(&mut self, path: &Path) {
        if path.metadata().is_ok_and(|data| !data.is_file()) {
            let help = "move it elsewhere, or give it a name that does not end in .yaml or .yml";
            return self.reject(path, "this is a FIFO, a socket or a device, and not a file", help);
        }
        self.file(path);
    }

    fn file(&mut self, path: &Path) {
        self.found += 1;
        if self.found > FILES_MAX {
            if self.found == FILES_MAX + 1 {
                let what = self.what.trim_start_matches("a ");
                let message = format!("there are more than {FILES_MAX} {what}s");
                self.reject(path, message, "write fewer files, or name another folder");
            }
            return;
        }
        match fs::canonicalize(path) {
            Ok(real) => {
                if self.seen.insert(real) {
                    self.files.push(path.to_owned());
                }
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            let is_link = path.is_symlink();
            let message = if is_link { "the link leads nowhere" } else { "there is no such file or folder" };
            let help = format!("write the path of {} or of a folder of them", self.what);
            return self.reject(path, message, help);
        }
        self.problems.push(Problem::unreadable(&path.display().to_string(), error));
    }
}
