//! Why there is no answer from the upstream.

use http::StatusCode;
use tokio_rustls::rustls::AlertDescription;
use tollgate_http::MappingDenial;

use crate::bounds::{FIELDS_MAX, UPSTREAM_HEAD_MAX};
use crate::strict::HeadError;

/// Why there is no answer from the upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GatewayError {
    #[error("{0}")]
    Head(HeadError),
    #[error("there must be one host, with a name or an address and perhaps a port")]
    Host,
    #[error("CONNECT is for forward proxies, and this is none")]
    Connect,
    #[error("TRACE shows a client's fields to whoever asks, and is not forwarded")]
    Trace,
    #[error("a method is of capital letters, - and _")]
    Method,
    #[error("the path has an escaped NUL")]
    NulInPath,
    /// The mapping denies it.
    #[error(transparent)]
    Mapping(MappingDenial),
    #[error("no rules are loaded yet; send it again later")]
    NoRules,
    #[error("the body of the request broke off or is malformed")]
    RequestBody,
    #[error("the body of the request did not arrive in time")]
    SlowRequestBody,
    #[error("nothing is served at this host and path: no route of the gateway fits")]
    NoRoute,
    #[error("the upstream cannot be reached")]
    Unreachable,
    #[error(
        "the upstream broke TLS off with the alert {0:?}: it asks for a certificate of the gateway, or for another one"
    )]
    TlsRefused(AlertDescription),
    #[error("the upstream did not accept a connection in time")]
    ConnectTimeout,
    #[error(
        "the upstream closed the connection without an answer, or answered with what is not HTTP, or with a \
         head of more than {UPSTREAM_HEAD_MAX} bytes or {FIELDS_MAX} fields"
    )]
    NoAnswer,
    #[error("the upstream did not answer in time")]
    FirstByteTimeout,
}

impl GatewayError {
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Head(error) => error.status(),
            Self::Host
            | Self::Method
            | Self::NulInPath
            | Self::RequestBody
            | Self::Mapping(MappingDenial::EscapedSlash) => StatusCode::BAD_REQUEST,
            Self::Mapping(MappingDenial::Missing { .. }) => StatusCode::FORBIDDEN,
            Self::Connect | Self::Trace => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::NoRules => StatusCode::SERVICE_UNAVAILABLE,
            Self::SlowRequestBody => StatusCode::REQUEST_TIMEOUT,
            Self::Unreachable | Self::NoAnswer | Self::TlsRefused(_) => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout | Self::FirstByteTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Whether the client's bytes cannot be trusted any more.
    pub(crate) const fn closes(&self) -> bool {
        match self {
            Self::Head(_)
            | Self::Host
            | Self::Connect
            | Self::Trace
            | Self::Method
            | Self::NulInPath
            | Self::RequestBody
            | Self::SlowRequestBody => true,
            Self::NoRules
            | Self::Mapping(_)
            | Self::NoRoute
            | Self::Unreachable
            | Self::ConnectTimeout
            | Self::NoAnswer
            | Self::TlsRefused(_)
            | Self::FirstByteTimeout => false,
        }
    }
}
