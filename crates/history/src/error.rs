//! What can go wrong with a history.
//!
//! Limiting goes on whatever happens here: a caller reports the error and tries
//! again later.

use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that this program never wrote, or that have changed since.
    #[error("the history is damaged: {what}")]
    Corrupt {
        /// Which bytes, and what is wrong with them.
        what: &'static str,
    },
    /// A file whose checksums are wrong, so that nothing in it can be trusted.
    #[error("{} is damaged, and all counts in it are lost: {reason}", path.display())]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, in the words of the database.
        reason: String,
    },
    /// The folder is open elsewhere.
    #[error("the history in {} is in use by {holder}", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Which process has it open, as far as is known.
        holder: String,
    },
    /// There is no history in that folder.
    #[error("there is no history in {}", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// Written by a newer version.
    #[error("the history has format {found}, and this version reads up to {known}")]
    TooNew {
        /// The format of the file.
        found: u8,
        /// The newest format that this version reads.
        known: u8,
    },
    /// Written before the first release.
    #[error(
        "the history has format {found}, which only versions before the first release wrote; this version reads {known}"
    )]
    TooOld {
        /// The format of the file.
        found: u8,
        /// The format that this version reads.
        known: u8,
    },
    /// A file or a folder cannot be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The tables cannot be read or written.
    #[error("the history's tables failed")]
    Tables {
        /// How.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Memory does not match the tables: a write has failed, or another process has
    /// committed. Refresh and try again.
    #[error("what was read of the history is stale; try again")]
    Stale,
    /// Flushes arrive faster than they are compacted.
    #[error("{most} flushes wait to be compacted, and no more are taken until some are")]
    Full {
        /// How many may wait.
        most: usize,
    },
    /// A query that means nothing.
    #[error("{what}: {text:?}")]
    Query {
        /// What is wrong with it.
        what: &'static str,
        /// What was written.
        text: String,
    },
    /// A query that would take too much memory.
    #[error("{series} series at {instants} instants are too many")]
    TooManySamples {
        /// How many series.
        series: usize,
        /// At how many instants.
        instants: usize,
    },
}

impl Error {
    /// The error and its causes, on one line.
    pub fn full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}

/// What calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) const fn corrupt(what: &'static str) -> Error {
    Error::Corrupt { what }
}
