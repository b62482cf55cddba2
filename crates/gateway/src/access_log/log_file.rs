//! Standard output, or a file that can be renamed while it is written.
//!
//! Invariant: lines that are written after a file was renamed or removed go to a new one of its name.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use crate::bounds::ACCESS_LOG_WRITE_BYTES;

/// Only the owner writes; its group, such as that of who ships logs, may read.
const MODE: u32 = 0o640;

/// Where lines are written.
#[derive(Debug)]
pub(super) enum LogFile {
    Stdout,
    File { path: PathBuf, file: File },
}

impl LogFile {
    pub(super) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::Stdout) };
        let file = append_to(&path)?;
        Ok(Self::File { path, file })
    }

    /// Writes lines until nobody sends any; those that are lost are counted.
    pub(super) fn write_all(&mut self, lines: &Receiver<Vec<u8>>, lost: &AtomicU64) {
        let mut is_failing = false;
        while let Ok(first) = lines.recv() {
            let (mut batch, mut count) = (first, 1);
            while batch.len() < ACCESS_LOG_WRITE_BYTES
                && let Ok(line) = lines.try_recv()
            {
                batch.extend_from_slice(&line);
                count += 1;
            }
            let written = self.write(&batch);
            if let Err(error) = &written {
                lost.fetch_add(count, Ordering::Relaxed);
                if !is_failing {
                    tracing::warn!(%error, "cannot write the access log; lines are lost until it can be written");
                }
            } else if is_failing {
                tracing::info!("the access log can be written again");
            }
            is_failing = written.is_err();
        }
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(batch)?;
                stdout.flush()
            }
            Self::File { path, file } => {
                if !is_same(path, &file.metadata()?) {
                    *file = append_to(path)?;
                }
                file.write_all(batch)
            }
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

/// Whether the name still leads to the file that is open.
fn is_same(path: &Path, open: &Metadata) -> bool {
    std::fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()))
}
