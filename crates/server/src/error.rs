//! Why the server cannot start or go on.

use std::io;
use std::path::PathBuf;

use crate::telemetry::TraceError;
use tollgate_metrics::statsd::StatsdError;
use tollgate_settings::SettingsError;

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A port cannot be listened on.
    #[error(
        "cannot listen for {what} on {address}: {source}; \
         end what listens there, or give another address with {setting}"
    )]
    Listen {
        /// What it is for.
        what: &'static str,
        /// Where.
        address: String,
        /// The flag and the variable that set it.
        setting: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A Unix socket cannot be listened on.
    #[error("cannot listen on the socket {}: {reason}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A certificate, a key or an authority cannot be used.
    #[error("cannot use {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The access log cannot be written.
    #[error(
        "cannot write the access log {}: {source}; give a file in a folder that exists and can be written, \
         with --access-log or gateway.access_log.path, or stdout",
        path.display()
    )]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Keys that tokens are verified with cannot be used.
    #[error("cannot use the keys for tokens: {0}")]
    Keys(tollgate_http::Error),
    /// The store cannot be asked as the settings say.
    #[error("cannot use the store: {0}")]
    Store(tollgate_redis::Error),
    /// The operating system refuses something that every server needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Metrics cannot be sent as asked for.
    #[error(transparent)]
    Statsd(#[from] StatsdError),
    /// Traces cannot be sent as asked for.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A thread that serves has ended before its time.
    #[error("a worker thread ended unexpectedly; this is a bug, please report it with the log")]
    Worker,
}
