//! Rule files and folders on disk.
//!
//! Before loading: paths as a user gave them → [`Source`]s. A file that is
//! named is read whatever it is called; of a folder only rule files are.
//!
//! Invariant: what is read is bounded in size, number and depth, and each file
//! is read once however often it is named.
//!
//! Deliberately not here: what the files say; noticing that they change.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Source;
use super::problem::{LoadError, Problem};

/// The largest rule file: 16 MiB, some hundred thousand rules.
pub const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The most rule files: a folder with more is probably not the one meant.
pub const FILES_MAX: usize = 10_000;
/// How deep folders of rules nest.
pub const FOLDER_DEPTH_MAX: usize = 32;

pub(crate) const TOO_LARGE: &str = "the file is larger than 16 MiB";
pub(crate) const TOO_LARGE_HELP: &str = "write several smaller files";

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
pub fn read(paths: &[PathBuf]) -> Result<Vec<Source>, LoadError> {
    let (sources, problems) = read_what_can_be(paths);
    if problems.is_empty() { Ok(sources) } else { Err(LoadError { problems }) }
}

/// As [`read`], but hands back what could be read beside what could not, for
/// those who want to tell the mistakes of both.
///
/// ```
/// use tollgate_rules::read_what_can_be;
/// let (sources, problems) = read_what_can_be(&["no/such/file.yaml".into()]);
/// assert!(sources.is_empty());
/// assert_eq!(problems.len(), 1);
/// ```
pub fn read_what_can_be(paths: &[PathBuf]) -> (Vec<Source>, Vec<Problem>) {
    let mut reader = Reader::default();
    for path in paths {
        if path.is_dir() {
            let files_before = reader.found;
            let problems_before = reader.problems.len();
            reader.folder(path, 1);
            if reader.found == files_before && reader.problems.len() == problems_before {
                let help = "write a rule file there, with a name that ends in .yaml";
                reader.refuse(path, "the folder has no rule files".to_owned(), help);
            }
        } else if is_test_file(path) {
            let help = "write tollgate test PATH to run it";
            reader.refuse(path, "this is a rule test and not a rule file".to_owned(), help);
        } else {
            reader.file(path);
        }
    }
    let Reader { mut sources, mut problems, .. } = reader;
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    problems.sort_by(|one, other| one.file.cmp(&other.file));
    (sources, problems)
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

#[derive(Default)]
struct Reader {
    sources: Vec<Source>,
    problems: Vec<Problem>,
    /// Files as they are called on disk, each once.
    seen: HashSet<PathBuf>,
    /// How many files were named, and how many found in folders.
    found: usize,
}

impl Reader {
    fn refuse(&mut self, path: &Path, message: String, help: &str) {
        self.problems.push(Problem::of_file(&path.display().to_string(), message, help));
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        if depth > FOLDER_DEPTH_MAX {
            let message = format!("folders are nested deeper than {FOLDER_DEPTH_MAX} levels");
            return self.refuse(folder, message, "write fewer levels");
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
                Ok(_) if is_rule_file(&path) && !path.is_dir() => self.file(&path),
                Ok(_) => {}
                Err(error) => self.unreadable(&path, &error),
            }
        }
    }

    fn file(&mut self, path: &Path) {
        self.found += 1;
        if self.found > FILES_MAX {
            if self.found == FILES_MAX + 1 {
                let message = format!("there are more than {FILES_MAX} rule files");
                self.refuse(path, message, "write fewer files, or name another folder");
            }
            return;
        }
        let is_new = match fs::canonicalize(path) {
            Ok(real) => self.seen.insert(real),
            Err(error) => return self.unreadable(path, &error),
        };
        if !is_new {
            return;
        }
        match read_bounded(path) {
            Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                self.refuse(path, TOO_LARGE.to_owned(), TOO_LARGE_HELP);
            }
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => self.sources.push(Source { name: path.display().to_string(), text }),
                Err(error) => {
                    let at = error.utf8_error().valid_up_to();
                    let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
                    let message = format!("the file is not UTF-8 text, see line {line}");
                    self.refuse(path, message, "save it as UTF-8");
                }
            },
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            let is_link = path.is_symlink();
            let message = if is_link { "the link leads nowhere" } else { "there is no such file or folder" };
            let help = "write the path of a rule file or of a folder of them";
            return self.refuse(path, message.to_owned(), help);
        }
        self.refuse(path, format!("cannot be read: {error}"), "let the user that runs tollgate read it");
    }
}

fn is_rule_file(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    is_yaml && !is_test_file(path)
}

/// The file, or a little more than the largest there may be of it.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
