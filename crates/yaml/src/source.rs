//! Files to read.
//!
//! First in the flow. A [`SourceFile`] may come from anywhere; one from disk
//! is bounded in size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::problem::{Problem, SourceFile};

/// The largest file: 16 MiB, some hundred thousand rules.
pub const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) const TOO_LARGE: (&str, &str) = ("the file is larger than 16 MiB", "write several smaller files");

impl SourceFile {
    /// Reads a file, called by its path.
    ///
    /// # Errors
    /// If it cannot be read, is larger than [`FILE_BYTES_MAX`], or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(name, file),
            Err(error) => Err(Problem::unreadable(&name, &error)),
        }
    }

    /// Reads what `reader` gives, called by that name.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_reader(name: String, reader: impl Read) -> Result<Self, Problem> {
        let bytes = match read_bounded(reader) {
            Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                return Err(Problem::of_file(&name, TOO_LARGE.0, TOO_LARGE.1));
            }
            Ok(bytes) => bytes,
            Err(error) => return Err(Problem::unreadable(&name, &error)),
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text }),
            Err(error) => {
                let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
                let line = good.filter(|byte| **byte == b'\n').count() + 1;
                let message = format!("the file is not UTF-8 text, see line {line}");
                Err(Problem::of_file(&name, message, "save it as UTF-8"))
            }
        }
    }
}

/// All of it, or a little more than the largest there may be of it.
fn read_bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    reader.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
