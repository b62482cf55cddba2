//! The protocols: bytes of a question, verdict of an answer.
//!
//! Each is just enough of its protocol to ask one kind of question many times,
//! because a whole client would take longer to ask than the server to answer.
//!
//! Deliberately not here: sockets and clocks.

mod grpc;
mod http;
mod resp;

use crate::plan::{Plan, Protocol};
pub(crate) use grpc::Grpc;
pub(crate) use http::Http;
pub(crate) use resp::Resp;

/// What a question was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Delay,
    Deny,
    /// Something else, in the server's words.
    Error(String),
}

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Not enough to tell.
    Part,
    /// Something that answers nothing.
    Aside { length: usize },
    /// The answer to a question by its number.
    Answer { length: usize, number: u64, verdict: Verdict },
}

/// Why a connection is of no more use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// These bytes are not the protocol.
    Foreign(String),
    /// The server asks us to go.
    Goodbye(String),
}

/// One connection's worth of a protocol. Questions are numbered from 0.
pub(crate) trait Wire: Send {
    /// What is sent before all else.
    fn hello(&mut self, _out: &mut Vec<u8>) {}

    /// Whether another question may be asked besides so many that are on their way.
    fn has_room(&self, _on_the_way: usize) -> bool {
        true
    }

    /// Appends a question about a key.
    fn ask(&mut self, number: u64, key: u32, out: &mut Vec<u8>);

    /// What stands at the beginning of `bytes`; what must be said in return goes to `out`.
    fn hear(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Heard, Broken>;
}

/// A new connection's worth of what the plan wants.
pub(crate) fn new(plan: &Plan) -> Box<dyn Wire> {
    match plan.protocol {
        Protocol::Grpc => Box::new(Grpc::new(plan)),
        Protocol::Http => Box::new(Http::new(plan)),
        Protocol::Resp => Box::new(Resp::new(plan)),
    }
}

/// The beginning of bytes as a person can read it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    /// Enough to recognise a protocol by.
    const SHOWN_MAX: usize = 40;
    let start = bytes.get(..SHOWN_MAX).unwrap_or(bytes);
    format!("it says '{}'", start.escape_ascii())
}
