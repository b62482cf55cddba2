//! Overrides and their log in a file of the data folder.
//!
//! Invariant: the file is replaced as a whole, and only its owner may read it: values of
//! descriptors may be personal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::record::{AuditEntry, OverrideRecord};

const FILE: &str = "overrides.json";
const NEW_FILE: &str = "overrides.json.new";

/// What the file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct OverrideFile {
    pub(super) overrides: Vec<OverrideRecord>,
    /// The oldest first.
    pub(super) audit: Vec<AuditEntry>,
}

/// What is there; nothing if there is no file. One that makes no sense is kept under another name,
/// so that nobody's exceptions are lost for good.
pub(super) fn read(folder: &Path) -> OverrideFile {
    let path = folder.join(FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return OverrideFile::default(),
        Err(error) => {
            tracing::warn!("cannot read the overrides in {}: {error}", path.display());
            return OverrideFile::default();
        }
    };
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        let aside = folder.join("overrides.json.damaged");
        let moved = std::fs::rename(&path, &aside);
        tracing::warn!(
            "the overrides in {} make no sense and none is in force: {error}; moved to {}: {}",
            path.display(),
            aside.display(),
            moved.is_ok()
        );
        OverrideFile::default()
    })
}

/// Writes a new file and gives it the name of the old one, so that a crash leaves one of them.
pub(super) fn write(folder: &Path, content: &OverrideFile) -> io::Result<()> {
    let (new, file) = (folder.join(NEW_FILE), folder.join(FILE));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened: File = options.open(&new)?;
    opened.write_all(&serde_json::to_vec(content)?)?;
    opened.sync_all()?;
    std::fs::rename(new, file)
}
