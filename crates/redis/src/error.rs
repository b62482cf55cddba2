//! What can go wrong: once, when a store is made, and any time, when it is asked.
//!
//! [`Error`] is for whoever configures the store. [`StoreFailure`] says why a
//! server could not be asked: the circuit breaker acts on it, and
//! [`crate::Stats`] counts by it. `FailureReport` adds what the server or the
//! system said, for the log. `ServerError` is an error reply of a server, which
//! may also be a redirection.
//!
//! Invariants: a failure is never an error for callers. Each limit does its
//! `on_store_error`, and the reply says so. A report has neither passwords nor
//! arguments of commands, which hold what callers sent.

use redis::RedisError;

/// Why a store cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be read.
    #[error("{what}; {help}")]
    Address {
        /// What is wrong with it.
        what: String,
        /// What would be right.
        help: String,
    },
    /// TLS cannot be spoken with this.
    #[error("the {what} cannot be used for TLS: {reason}; give it as PEM")]
    Tls {
        /// Which of the certificates or keys.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The thread that asks for a history cannot be started.
    #[error("a thread for the history cannot be started")]
    Thread {
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a server could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFailure {
    /// It was not asked, because its circuit breaker is open.
    Open,
    /// No reply in time.
    Timeout,
    /// No connection, or it broke.
    Lost,
    /// It is a replica and takes no writes.
    ReadOnly,
    /// It is loading its data from disk.
    Loading,
    /// The cluster does not serve this slot.
    ClusterDown,
    /// It has no memory left for writes.
    OutOfMemory,
    /// It takes no writes for another reason, or is busy with a script.
    Unwritable,
    /// It does not let this client in, or does not let it do this.
    Forbidden,
    /// The keys of the request are moving to another server.
    Moving,
    /// The value under our key is not a state of ours.
    BadState,
    /// A reply that makes no sense, or an error not known here.
    Other,
}

impl StoreFailure {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Open,
        Self::Timeout,
        Self::Lost,
        Self::ReadOnly,
        Self::Loading,
        Self::ClusterDown,
        Self::OutOfMemory,
        Self::Unwritable,
        Self::Forbidden,
        Self::Moving,
        Self::BadState,
        Self::Other,
    ];

    /// The word for metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::ClusterDown => "cluster_down",
            Self::OutOfMemory => "out_of_memory",
            Self::Unwritable => "unwritable",
            Self::Forbidden => "forbidden",
            Self::Moving => "moving",
            Self::BadState => "bad_state",
            Self::Other => "other",
        }
    }

    /// What an operator can do about it.
    pub(crate) const fn fix(self) -> &'static str {
        match self {
            Self::Open | Self::Timeout => {
                "look for slow commands and a slow network; a port with TLS (rediss://) does not answer \
                 without it, and the other way round"
            }
            Self::Lost => {
                "check that the server runs, and that its address and TLS (redis:// or rediss://) are right"
            }
            Self::ReadOnly => {
                "give the address of the master, or redis+sentinel:// or redis+cluster:// to have it found"
            }
            Self::Loading => "wait until it has loaded its data",
            Self::ClusterDown => "see CLUSTER INFO on the server: some slots have no master",
            Self::OutOfMemory => "raise maxmemory; docs/guide/redis.md tells how much is needed",
            Self::Unwritable => "see the server's own log for why it takes no writes",
            Self::Forbidden => {
                "check the user and the password (REDIS_AUTH), and that the access list has what \
                 docs/guide/redis.md asks for"
            }
            Self::Moving => "wait until the slots have moved",
            Self::BadState => "another program uses these keys: set CACHE_KEY_PREFIX",
            Self::Other => {
                "see what the server said; the number of a database stands behind the address (/0), and a \
                 cluster needs redis+cluster://"
            }
        }
    }

    /// Whether asking again soon is useless, so that the circuit breaker opens
    /// at once.
    pub(crate) const fn is_lasting(self) -> bool {
        match self {
            Self::ReadOnly
            | Self::Loading
            | Self::ClusterDown
            | Self::OutOfMemory
            | Self::Unwritable
            | Self::Forbidden => true,
            Self::Open | Self::Timeout | Self::Lost | Self::Moving | Self::BadState | Self::Other => false,
        }
    }
}

/// Most characters of what a server or the system said.
const SAID_MAX: usize = 200;

/// What Redis puts before the arguments of a command that it does not know.
const ARGUMENTS: &str = ", with args beginning with";

/// A failure, and what the server or the system said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailureReport {
    pub(crate) failure: StoreFailure,
    /// One line; empty if nobody said anything.
    pub(crate) said: Box<str>,
}

impl FailureReport {
    pub(crate) fn new(failure: StoreFailure, said: impl std::fmt::Display) -> Self {
        let said = said.to_string();
        let said = said.split(ARGUMENTS).next().unwrap_or_default();
        let line: String =
            said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SAID_MAX).collect();
        Self { failure, said: line.trim().into() }
    }

    /// Whether the server did not begin with a command, for a reason of its own. What
    /// goes wrong within a script tells its place in the script.
    pub(crate) fn is_refusal(&self) -> bool {
        self.failure == StoreFailure::Other && self.said.starts_with("ERR ") && !self.said.contains("script")
    }

    /// The same without this text.
    pub(crate) fn without(self, secret: &str) -> Self {
        let is_told = !secret.is_empty() && self.said.contains(secret);
        if is_told { Self { said: self.said.replace(secret, "***").into(), ..self } } else { self }
    }
}

/// `forbidden: WRONGPASS …; check the user …`.
impl std::fmt::Display for FailureReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.failure.name(), self.said, self.failure.fix())
    }
}

impl From<StoreFailure> for FailureReport {
    fn from(failure: StoreFailure) -> Self {
        Self { failure, said: Box::default() }
    }
}

/// What a server replies instead of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// It does not have the script.
    NoScript,
    /// The slot has moved to another server.
    Moved {
        /// Which slot.
        slot: u16,
        /// Where to.
        address: String,
    },
    /// The slot is moving: this once, ask another server.
    Ask {
        /// Which one.
        address: String,
    },
    /// It could not do it.
    Failure(FailureReport),
}

impl ServerError {
    /// The report where redirections are not followed.
    pub(crate) fn report(self) -> FailureReport {
        let other = |said| FailureReport::new(StoreFailure::Other, said);
        match self {
            Self::Failure(report) => report,
            Self::NoScript => other("NOSCRIPT".to_owned()),
            Self::Moved { slot, address } => other(format!("MOVED {slot} {address}")),
            Self::Ask { address } => other(format!("ASK {address}")),
        }
    }
}

impl<R: Into<FailureReport>> From<R> for ServerError {
    fn from(report: R) -> Self {
        Self::Failure(report.into())
    }
}

impl ServerError {
    /// What an error of the client library means.
    pub(crate) fn of(error: &RedisError) -> Self {
        let (detail, redirect) = (error.detail().unwrap_or_default(), error.redirect_node());
        // Only an error reply has a code; all else comes from the client or the socket.
        match (error.code(), redirect) {
            (Some("MOVED"), Some((address, slot))) => Self::Moved { slot, address: address.to_owned() },
            (Some("ASK"), Some((address, _))) => Self::Ask { address: address.to_owned() },
            (Some("NOSCRIPT"), _) => Self::NoScript,
            (Some(code), _) => FailureReport::new(by_code(code, detail), format!("{code} {detail}")).into(),
            (None, _) if error.is_io_error() => FailureReport::new(StoreFailure::Lost, error).into(),
            (None, _) => FailureReport::new(StoreFailure::Other, error).into(),
        }
    }
}

/// What Redis and Valkey say when an access list keeps a script from a command.
const FORBIDDEN_IN_A_SCRIPT: [&str; 2] = ["The user executing the script", "ACL failure in script"];

fn by_code(code: &str, detail: &str) -> StoreFailure {
    match code {
        "READONLY" => StoreFailure::ReadOnly,
        "LOADING" | "MASTERDOWN" => StoreFailure::Loading,
        "CLUSTERDOWN" => StoreFailure::ClusterDown,
        "TRYAGAIN" | "CROSSSLOT" => StoreFailure::Moving,
        "OOM" => StoreFailure::OutOfMemory,
        "MISCONF" | "NOREPLICAS" | "BUSY" => StoreFailure::Unwritable,
        "NOAUTH" | "WRONGPASS" | "NOPERM" => StoreFailure::Forbidden,
        "WRONGTYPE" => StoreFailure::BadState,
        "ERR" if FORBIDDEN_IN_A_SCRIPT.iter().any(|words| detail.contains(words)) => StoreFailure::Forbidden,
        "ERR" if detail.contains("script") => by_detail(detail),
        _ => StoreFailure::Other,
    }
}

/// Up to version 6 Redis puts the error of a command in a script behind the place
/// in the script: `… @user_script: 66: -READONLY You can't …`.
fn by_detail(detail: &str) -> StoreFailure {
    let inner = detail.rsplit_once(": -").map(|(_, inner)| inner.split_once(' ').unwrap_or((inner, "")));
    match inner {
        Some((code, detail)) if code != "ERR" => by_code(code, detail),
        Some(_) | None => StoreFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_command_in_a_script_is_known_on_old_servers_too() {
        let wrapped = |inner: &str| {
            let detail = format!(
                "Error running script (call to f_0a9f75e9): @user_script:1: @user_script: 1: {inner}"
            );
            by_code("ERR", &detail)
        };
        for (inner, failure) in [
            ("-READONLY You can't write against a read only replica.", StoreFailure::ReadOnly),
            ("-OOM command not allowed when used memory > 'maxmemory'.", StoreFailure::OutOfMemory),
            ("-NOREPLICAS Not enough good replicas to write.", StoreFailure::Unwritable),
            ("The user executing the script can't run this command or subcommand", StoreFailure::Forbidden),
            (
                "ACL failure in script: User default has no permissions to run the 'get' command",
                StoreFailure::Forbidden,
            ),
            ("attempt to perform arithmetic on a nil value", StoreFailure::Other),
            ("-ERR something: -", StoreFailure::Other),
        ] {
            assert_eq!(wrapped(inner), failure, "{inner}");
        }
    }

    #[test]
    fn a_script_that_went_wrong_was_not_refused() {
        for (said, is_refusal) in [
            ("ERR eval/evalsha number of keys can't be negative or zero", true),
            ("ERR unknown command 'EVALSHA'", true),
            ("ERR user_script:66: attempt to index nil script: 0a9f75e9, on @user_script:66.", false),
            ("ERR Error running script (call to f_0a9f75e9): @user_script:1: x", false),
            ("the reply makes no sense", false),
        ] {
            assert_eq!(FailureReport::new(StoreFailure::Other, said).is_refusal(), is_refusal, "{said}");
        }
        assert!(!FailureReport::new(StoreFailure::Forbidden, "ERR no").is_refusal());
    }

    #[test]
    fn a_report_is_one_line_without_arguments_and_passwords() {
        let said = "ERR unknown command `AUTH`, with args beginning with: `s3cret`, ";
        let report = FailureReport::new(StoreFailure::Other, said);
        assert_eq!(&*report.said, "ERR unknown command `AUTH`");
        let report = FailureReport::new(StoreFailure::Other, "no s3cret\r\nhere").without("s3cret");
        assert_eq!(&*report.said, "no ***  here");
        assert_eq!(report.clone().without(""), report);
        assert_eq!(FailureReport::new(StoreFailure::Other, "x".repeat(999)).said.len(), SAID_MAX);
    }
}
