//! A request as it is kept, and what became of it.

use tollgate_core::{OwnedRequest, Time};

use crate::id::DeferredId;

/// Names and values of headers.
pub type HeaderList = Vec<(String, Vec<u8>)>;

/// A request that is sent later. It does not change while it waits; [`SendProgress`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredRequest {
    /// What its caller asks for it by.
    pub id: DeferredId,
    /// When it was taken, by the calendar.
    pub accepted: Time,
    /// It is not sent after that.
    pub expires: Time,
    /// Whose turn it waits for: requests of one key are sent in the order in which they came.
    pub key: String,
    /// The name of the limit that denied it.
    pub rule: String,
    /// What the limiter is asked before it is sent.
    pub check: OwnedRequest,
    /// The method.
    pub method: String,
    /// The host that it was sent to; none over HTTP/1.0.
    pub host: Option<String>,
    /// Path and query.
    pub path: String,
    /// The headers that are kept, an `Idempotency-Key` among them.
    pub headers: HeaderList,
    /// The body.
    pub body: Vec<u8>,
}

/// How often a request was tried, and when it may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendProgress {
    /// Attempts that failed.
    pub attempts: u32,
    /// Not before this, by the calendar.
    pub not_before: Time,
}

/// What the upstream answered, within bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResponse {
    /// The status.
    pub status: u16,
    /// Its headers, without credentials.
    pub headers: HeaderList,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether the body was longer.
    pub is_cut: bool,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeferredEnd {
    /// The upstream has answered.
    Done(KeptResponse),
    /// It was tried as often as it may be.
    Failed {
        /// Why the last attempt failed.
        reason: String,
        /// What the upstream said then, if anything.
        response: Option<KeptResponse>,
    },
    /// It waited for too long.
    Expired,
}

/// Where a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeferredState {
    /// It waits for its turn.
    Waiting,
    /// It is on its way.
    Sending,
    /// It is done with.
    Ended(DeferredEnd),
}

impl DeferredState {
    /// The word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Ended(DeferredEnd::Done(_)) => "done",
            Self::Ended(DeferredEnd::Failed { .. }) => "failed",
            Self::Ended(DeferredEnd::Expired) => "expired",
        }
    }
}

/// What whoever has the id is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredStatus {
    /// Where it is.
    pub state: DeferredState,
    /// Attempts that failed.
    pub attempts: u32,
}
