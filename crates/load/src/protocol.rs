//! The protocols in which a server can be loaded.
//!
//! A file of its own because errors, transport and plan all name it.

use std::fmt;

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadProtocol {
    /// Envoy's rate limit service.
    Grpc,
    /// `POST /v1/check`, unless the plan names another path.
    Http,
    /// `TOLLGATE.CHECK`, unless the plan names another command.
    Resp,
}

impl fmt::Display for LoadProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
            Self::Resp => "RESP",
        })
    }
}
