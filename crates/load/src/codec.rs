//! The protocols: a request to bytes, bytes to a verdict.
//!
//! Each codec is just enough of its protocol to send one kind of request many times; a whole client
//! would take longer to send it than the server to answer.
//!
//! Deliberately not here: sockets and clocks.

mod grpc;
mod http;
mod resp;

use crate::plan::{LoadRequest, Plan};
use crate::protocol::LoadProtocol;
use grpc::GrpcCodec;
use http::HttpCodec;
use resp::RespCodec;

/// What a response says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseVerdict {
    Allow,
    /// Allowed without meeting any limit that is enforced.
    Unlimited,
    Delay,
    Deny,
    /// Something else, in the server's words.
    Error(String),
}

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Too few bytes to tell.
    Incomplete,
    /// Something that is no response, such as a setting.
    Control { length: usize },
    /// The response to a request by its number.
    Response { length: usize, number: u64, verdict: ResponseVerdict },
}

/// Why a connection cannot be used any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFailure {
    /// These bytes are not the protocol.
    WrongProtocol(String),
    /// The server closes it.
    Closed(String),
}

/// One connection's worth of a protocol. Requests are numbered from 0.
pub(crate) trait Codec: Send {
    /// Appends what is sent before the first request.
    fn open(&mut self, _out: &mut Vec<u8>) {}

    /// Whether another request may be sent besides those in flight.
    fn has_room(&self, _in_flight: usize) -> bool {
        true
    }

    /// Appends a request about a key.
    fn encode(&mut self, number: u64, key: u32, out: &mut Vec<u8>);

    /// Tells what `bytes` begin with; what must be sent in return is appended to `out`.
    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Decoded, ConnectionFailure>;
}

/// A codec for a new connection.
pub(crate) fn new(plan: &Plan) -> Box<dyn Codec> {
    match &plan.request {
        LoadRequest::Check(LoadProtocol::Grpc, check) => Box::new(GrpcCodec::new(plan, check)),
        LoadRequest::Check(LoadProtocol::Http, check) => Box::new(HttpCodec::check(plan, check)),
        LoadRequest::Check(LoadProtocol::Resp, check) => Box::new(RespCodec::check(plan, check)),
        LoadRequest::Command(words) => Box::new(RespCodec::command(plan, words)),
        LoadRequest::Post { path, body } => Box::new(HttpCodec::post(plan, path, body)),
        LoadRequest::Get { path, header } => Box::new(HttpCodec::get(plan, path, header)),
    }
}

/// The beginning of bytes as a person can read it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    /// Enough to recognise a protocol by.
    const SHOWN_MAX: usize = 40;
    let start = bytes.get(..SHOWN_MAX).unwrap_or(bytes);
    format!("it says '{}'", start.escape_ascii())
}
