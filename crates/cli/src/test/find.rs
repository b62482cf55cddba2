//! Rule test files on disk: first in the flow.
//!
//! A file that is named is taken whatever it is called; of a folder only
//! `*.test.yaml` and `*.test.yml` are, recursively and in the order of names.
//!
//! Deliberately not here: what the files say.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_rules::{FOLDER_DEPTH_MAX, Problem, is_test_file};

use super::report::of_file;

/// The rule test files of all paths, each once; or every path that is wrong.
pub(super) fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Vec<Problem>> {
    let mut finder = Finder::default();
    for path in paths {
        if path.is_dir() {
            finder.folder(path, 1);
        } else if path.exists() {
            finder.file(path);
        } else {
            let help = "write the path of a rule test or of a folder of them";
            finder.refuse(path, "there is no such file or folder", help);
        }
    }
    if finder.problems.is_empty() { Ok(finder.files) } else { Err(finder.problems) }
}

#[derive(Default)]
struct Finder {
    files: Vec<PathBuf>,
    problems: Vec<Problem>,
    /// Files as they are called on disk.
    seen: HashSet<PathBuf>,
}

impl Finder {
    fn refuse(&mut self, path: &Path, message: &str, help: &str) {
        self.problems.push(of_file(&path.display().to_string(), message, help));
    }

    fn file(&mut self, path: &Path) {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.seen.insert(real) {
            self.files.push(path.to_owned());
        }
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        if depth > FOLDER_DEPTH_MAX {
            let message = format!("folders are nested deeper than {FOLDER_DEPTH_MAX} levels");
            return self.refuse(folder, &message, "name the folder that has the tests");
        }
        let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(folder).and_then(Iterator::collect);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                let help = "let the user that runs tollgate read it";
                return self.refuse(folder, &format!("cannot be read: {error}"), help);
            }
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            // The type of the entry itself: a link is no folder here.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.folder(&path, depth + 1);
            } else if is_test_file(&path) && path.is_file() {
                self.file(&path);
            }
        }
    }
}
