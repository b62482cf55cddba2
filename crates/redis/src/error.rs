//! What can go wrong: once, when a store is made, and any time, when it is asked.
//!
//! [`Error`] is for whoever configures; [`Trouble`] is the short word for why a
//! server could not be asked, which the breaker acts on and [`crate::Stats`]
//! count by.
//!
//! Invariant: a trouble is never a caller's problem. Each limit does its
//! `on_store_error`, and the answer says so.

use redis::{ErrorKind, RedisError};

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
    /// There can be no thread that asks for a history.
    #[error("a thread for the history cannot be started")]
    Thread {
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a server could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// It was not asked: it is known to be in trouble.
    Open,
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    Lost,
    /// It is a replica and takes no writes.
    ReadOnly,
    /// It reads its data from disk.
    Loading,
    /// The cluster does not serve this slot.
    ClusterDown,
    /// It has no memory for writes.
    OutOfMemory,
    /// It takes no writes for other reasons, or is busy with a script.
    Unwritable,
    /// It lets this client in, or do this, not.
    Forbidden,
    /// The keys of the request are just moving to another server.
    Moving,
    /// What it keeps under our key is not ours.
    BadState,
    /// An answer that makes no sense, or an error not known here.
    Other,
}

impl Trouble {
    /// All, in the order of their numbers.
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

    /// Whether asking again soon is useless, so that the breaker opens at once.
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

/// What a server says instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The script is not there.
    NoScript,
    /// The slot is at another server now.
    Moved {
        /// Which slot.
        slot: u16,
        /// Where it is.
        address: String,
    },
    /// This once, ask another server.
    Ask {
        /// Which one.
        address: String,
    },
    /// It is in trouble.
    Trouble(Trouble),
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<&RedisError> for Refusal {
    fn from(error: &RedisError) -> Self {
        let redirect = error.redirect_node();
        // Only a server has words of its own; all else is ours, or the socket's.
        match (error.code(), redirect) {
            (Some("MOVED"), Some((address, slot))) => Self::Moved { slot, address: address.to_owned() },
            (Some("ASK"), Some((address, _))) => Self::Ask { address: address.to_owned() },
            (Some("NOSCRIPT"), _) => Self::NoScript,
            (Some(code), _) => Self::Trouble(by_code(code, error.detail().unwrap_or_default())),
            (None, _) if error.is_io_error() => Self::Trouble(Trouble::Lost),
            (None, _) if error.kind() == ErrorKind::AuthenticationFailed => Self::Trouble(Trouble::Forbidden),
            (None, _) => Self::Trouble(Trouble::Other),
        }
    }
}

/// What servers say where an access list keeps a script from a command: Redis, and Valkey.
const FORBIDDEN_IN_A_SCRIPT: [&str; 2] = ["The user executing the script", "ACL failure in script"];

fn by_code(code: &str, detail: &str) -> Trouble {
    match code {
        "READONLY" => Trouble::ReadOnly,
        "LOADING" | "MASTERDOWN" => Trouble::Loading,
        "CLUSTERDOWN" => Trouble::ClusterDown,
        "TRYAGAIN" | "CROSSSLOT" => Trouble::Moving,
        "OOM" => Trouble::OutOfMemory,
        "MISCONF" | "NOREPLICAS" | "BUSY" => Trouble::Unwritable,
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Trouble::Forbidden,
        "WRONGTYPE" => Trouble::BadState,
        "ERR" if FORBIDDEN_IN_A_SCRIPT.iter().any(|words| detail.contains(words)) => Trouble::Forbidden,
        "ERR" if detail.contains("script") => by_detail(detail),
        _ => Trouble::Other,
    }
}

/// Redis up to 6 tells what a command in a script met only behind where in the
/// script it was: `… @user_script: 66: -READONLY You can't …`.
fn by_detail(detail: &str) -> Trouble {
    let met = detail.rsplit_once(": -").map(|(_, met)| met.split_once(' ').unwrap_or((met, "")));
    match met {
        Some((code, detail)) if code != "ERR" => by_code(code, detail),
        Some(_) | None => Trouble::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_in_a_script_met_is_known_on_old_servers_too() {
        let wrapped = |met: &str| {
            let met =
                format!("Error running script (call to f_0a9f75e9): @user_script:1: @user_script: 1: {met}");
            by_code("ERR", &met)
        };
        for (met, trouble) in [
            ("-READONLY You can't write against a read only replica.", Trouble::ReadOnly),
            ("-OOM command not allowed when used memory > 'maxmemory'.", Trouble::OutOfMemory),
            ("-NOREPLICAS Not enough good replicas to write.", Trouble::Unwritable),
            ("The user executing the script can't run this command or subcommand", Trouble::Forbidden),
            (
                "ACL failure in script: User default has no permissions to run the 'get' command",
                Trouble::Forbidden,
            ),
            ("attempt to perform arithmetic on a nil value", Trouble::Other),
            ("-ERR something: -", Trouble::Other),
        ] {
            assert_eq!(wrapped(met), trouble, "{met}");
        }
    }
}
