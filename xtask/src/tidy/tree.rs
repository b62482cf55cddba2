//! The files that the rules look at: first in the flow of `tidy`, and its only I/O.
//!
//! Git makes the list, so that a new file is checked before it is committed and an ignored one never is.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::process::Invocation;

/// One file of the repository.
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) bytes: usize,
    /// Nothing for a picture and the like.
    pub(super) text: Option<String>,
}

impl File {
    fn new(path: &str, content: Vec<u8>) -> Self {
        let bytes = content.len();
        let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
        Self { path: path.to_owned(), bytes, text }
    }

    /// The part after the last `/`.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The part of the name after its last dot. A name that only begins with a dot has none.
    pub(super) fn extension(&self) -> Option<&str> {
        let (stem, extension) = self.name().rsplit_once('.')?;
        (!stem.is_empty()).then_some(extension)
    }

    /// The lines with their numbers from 1; none for a file that is not text.
    ///
    /// Splits at `\n` alone, because `str::lines` would hide a carriage return.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let text = self.text.as_deref().unwrap_or_default();
        (1..).zip(text.split_terminator('\n'))
    }
}

/// All files of the repository, sorted by path.
pub(super) struct FileTree {
    files: Vec<File>,
}

impl FileTree {
    /// Reads every file below `root` that git has or would add.
    pub(super) fn of_repository(root: &Path) -> Result<Self> {
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Invocation::new("git", &arguments).capture().context("tidy asks git for the files")?;
        let mut files = Vec::new();
        for path in listed.split_terminator('\0') {
            match std::fs::read(root.join(path)) {
                Ok(content) => files.push(File::new(path, content)),
                // Deleted in the working tree, and not yet in the index.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
            }
        }
        Ok(Self::sorted(files))
    }

    /// A tree for the tests of the rules.
    #[cfg(test)]
    pub(super) fn of_texts(texts: &[(&str, &str)]) -> Self {
        Self::sorted(texts.iter().map(|(path, text)| File::new(path, text.as_bytes().to_vec())).collect())
    }

    fn sorted(mut files: Vec<File>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        // Git lists a file in conflict once per side.
        files.dedup_by(|a, b| a.path == b.path);
        Self { files }
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.extension() == Some(extension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_extension_after_its_last_dot() {
        let extension = |path| File::new(path, Vec::new()).extension().map(str::to_owned);
        assert_eq!(extension("a.b/c.tar.gz").as_deref(), Some("gz"));
        assert_eq!(extension("a.b/c"), None);
        assert_eq!(extension("a/.gitignore"), None);
    }

    #[test]
    fn lines_count_from_one_and_keep_the_carriage_return() {
        let file = File::new("a.txt", b"one\r\n\nthree".to_vec());
        assert_eq!(file.lines().collect::<Vec<_>>(), [(1, "one\r"), (2, ""), (3, "three")]);
    }

    #[test]
    fn what_is_not_text_has_a_size_and_no_lines() {
        let picture = File::new("a.png", vec![0, 255, 10]);
        assert_eq!((picture.bytes, picture.lines().count()), (3, 0));
    }

    #[test]
    fn the_list_of_the_repository_has_this_file_and_not_the_build() {
        let tree = FileTree::of_repository(crate::workspace::root()).unwrap();
        assert!(tree.get("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.files().iter().all(|file| !file.path.starts_with("target/")));
    }
}
