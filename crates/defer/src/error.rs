//! Why a queue cannot be used.

use std::path::PathBuf;

/// Why a queue cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeferError {
    /// The file cannot be opened, or another process has it.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It could not be read or written.
    #[error("the queue of deferred requests cannot be used: {source}")]
    Store {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something in it is not what was written.
    #[error("the queue of deferred requests holds {what} that cannot be read")]
    Corrupt {
        /// What it is.
        what: &'static str,
    },
    /// Its thread has ended, or too many ask it at once.
    #[error("the queue of deferred requests does not answer")]
    Busy,
}

impl DeferError {
    /// A failure of whatever the queue is kept in.
    pub fn store(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Store { source: source.into() }
    }
}
