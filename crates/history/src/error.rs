//! What can go wrong with history.
//!
//! Limiting goes on whatever happens here: a caller counts the error and tells
//! it, and asks again later.

use std::path::PathBuf;

/// What went wrong.
///
/// ```
/// use tollgate_history::Error;
/// let error = Error::Corrupt { what: "a block ends too early" };
/// assert_eq!(error.to_string(), "the history is damaged: a block ends too early");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that this program never wrote, or that changed since.
    #[error("the history is damaged: {what}")]
    Corrupt {
        /// Which bytes, and how one can tell.
        what: &'static str,
    },
    /// The folder is open elsewhere.
    #[error("the history in {} is in use by {holder}", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Who has it open, as far as can be told.
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
        /// The newest format that is known here.
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
    /// The engine failed.
    #[error("the history's engine failed")]
    Engine {
        /// How.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A write has failed, and what is there could not be read since.
    #[error("the history has to be read again after a failed write, and cannot be yet")]
    Stale,
    /// Somebody else has committed since this process read it.
    #[error("another process has changed the history meanwhile; ask again")]
    Moved,
    /// Flushes come and nobody folds them.
    #[error("{most} flushes wait to be folded, and no more are taken until somebody does")]
    Full {
        /// How many may wait.
        most: usize,
    },
    /// A question that cannot be answered.
    #[error("{what}: {text:?}")]
    Question {
        /// What is wrong with it.
        what: &'static str,
        /// What was written.
        text: String,
    },
}

impl Error {
    /// The error and every cause of it, on one line.
    ///
    /// ```
    /// use tollgate_history::Error;
    /// let source = std::io::Error::other("no room");
    /// let error = Error::Engine { source: source.into() };
    /// assert_eq!(error.full(), "the history's engine failed: no room");
    /// ```
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

/// What calls of this crate give back.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) const fn corrupt(what: &'static str) -> Error {
    Error::Corrupt { what }
}
