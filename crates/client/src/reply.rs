//! What a server answered, or what stands in for its answer.
//!
//! Made by `v1_wire` and `grpc_wire`, or by [`crate::Client`] itself where no server was asked.

use tollgate_core::{Algorithm, Micros, Verdict};

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReply {
    /// Now, later, or not.
    pub verdict: Verdict,
    /// Which of `decisions` the verdict comes from, if the server says so.
    pub binding: Option<usize>,
    /// One for each limit that the request met. Over gRPC one for each descriptor that met any.
    pub decisions: Vec<ServerDecision>,
    /// Why it is so, if the server says more than that a limit is used up: `penalty`, `deny_list`,
    /// `allow_list`, `override`, or a word that a later server knows. Over gRPC only of a denial, and
    /// only if the server tells bodies through Envoy.
    pub reason: Option<String>,
    /// Who says so.
    pub origin: ReplyOrigin,
    /// A name in the request that no rules have, so that no limit applies. Over HTTP only.
    pub unknown: Option<MisspeltName>,
}

/// Who a reply comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOrigin {
    /// The server was asked.
    Server,
    /// The server has denied the same before and told when to come again; that time is not over.
    Memory,
    /// The server did not answer, and [`crate::WhenUnreachable`] decides.
    Unreachable,
}

/// What one limit decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDecision {
    /// Which descriptor of the request it is for, from 0.
    pub descriptor: usize,
    /// The rule's name, or its path if it has none.
    pub rule: Option<String>,
    /// How it was decided, if the server says so and this version knows it. Over HTTP only.
    pub algorithm: Option<Algorithm>,
    /// What this limit alone says.
    pub verdict: Verdict,
    /// What it lets through at once; over gRPC what the rule says per unit.
    pub limit: u64,
    /// How many of cost 1 would still pass.
    pub remaining: u64,
    /// When it is as good as new, nothing else happening.
    pub reset_after: Micros,
    /// What it says is not enforced. Over HTTP only.
    pub shadow: bool,
    /// It lets this through only because it is soft. Over HTTP only.
    pub soft: bool,
    /// It was decided without the server's store, which could not be asked.
    pub degraded: bool,
    /// Why it denies, if it is not used up: `penalty`, `deny_list` or `override`. Over HTTP only.
    pub reason: Option<String>,
    /// The message of a rule that denies. Over HTTP only.
    pub message: Option<String>,
}

/// A name that no rules have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisspeltName {
    /// The name.
    pub name: String,
    /// The one in the rules that it may have been meant to be.
    pub nearest: Option<String>,
}

impl ServerReply {
    /// A reply that no server gave.
    pub(crate) const fn unreachable(verdict: Verdict) -> Self {
        Self {
            verdict,
            binding: None,
            decisions: Vec::new(),
            reason: None,
            origin: ReplyOrigin::Unreachable,
            unknown: None,
        }
    }

    /// The decision that the verdict comes from.
    pub fn binding(&self) -> Option<&ServerDecision> {
        self.decisions.get(self.binding?)
    }
}

/// A reply as it came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WireReply {
    pub(crate) reply: ServerReply,
    /// The server has told when a denied request passes, rather than when all is as good as new.
    pub(crate) tells_retry: bool,
}
