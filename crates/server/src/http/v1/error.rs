//! Why a call gets no answer, where in the call the reason is, and what to
//! send instead.

use axum::http::StatusCode;

use crate::body::BodyError;
use crate::bounds::{BATCH_DESCRIPTORS_MAX, KEY_MAX, VALUE_MAX};
use crate::service::ServiceError;

/// Why a call gets no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum V1Error {
    /// Something in the body or the query is not as it must be.
    #[error("{detail}")]
    Field {
        /// Where, as a JSON pointer; empty for the whole body.
        pointer: String,
        detail: String,
        fix: String,
    },
    /// The body did not arrive.
    #[error("{0}")]
    Body(BodyError),
    /// The body is not said to be JSON.
    #[error("the body is not declared as JSON")]
    MediaType,
    /// Nothing to decide by.
    #[error("{0}")]
    Service(ServiceError),
    /// There is no such path.
    #[error("there is no {path}")]
    NoSuchPath { path: String },
    /// What was asked for is not there, or cannot be told.
    #[error("{detail}")]
    NoAnswer { status: StatusCode, detail: String, fix: &'static str },
    /// The path does not take that method.
    #[error("this path does not take that method")]
    Method { allowed: &'static str },
}

impl From<BodyError> for V1Error {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl From<ServiceError> for V1Error {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

/// What a request looks like, for those who sent something else.
pub(super) const SHAPE: &str = r#"send {"domain":"shop","descriptors":[{"user_id":"42"}],"cost":1}"#;

/// What a field must be; the words of every refusal about one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldError {
    Empty,
    Domain,
    NoDescriptors,
    BatchDescriptors,
    KeyLength,
    ValueLength,
    DomainLength,
    KeyTwice,
    NotInEntriesForm,
    OneKey,
    Query,
}

impl FieldError {
    /// What is wrong, and what to send.
    fn words(self) -> (&'static str, String) {
        match self {
            Self::Empty => ("the body is empty", SHAPE.into()),
            Self::Domain => ("the domain is missing or empty", "send the domain of a rule file".into()),
            Self::NoDescriptors => {
                ("there are no descriptors", r#"send at least one, such as {"user_id":"42"}"#.into())
            }
            Self::BatchDescriptors => (
                "too many descriptors in the batch as a whole",
                format!("send at most {BATCH_DESCRIPTORS_MAX} in a batch"),
            ),
            Self::DomainLength => ("the domain is too long", format!("send at most {KEY_MAX} bytes")),
            Self::KeyLength => ("the key is too long", format!("send at most {KEY_MAX} bytes")),
            Self::ValueLength => ("the value is too long", format!("send at most {VALUE_MAX} bytes")),
            Self::KeyTwice => (
                "the key is there twice",
                r#"send each key once, or send {"entries":[{"key":"…","value":"…"}]}"#.into(),
            ),
            Self::NotInEntriesForm => (
                "there is no such member beside \"entries\"",
                r#"send {"entries":[…],"cost":1}, or leave "entries" out"#.into(),
            ),
            Self::OneKey => ("a batch is not taken here", "send one request".into()),
            Self::Query => (
                "the query does not name a key",
                "send ?domain=NAME&key=value, with each entry of the descriptor in order, or send a body"
                    .into(),
            ),
        }
    }

    /// The refusal of what stands at `pointer`.
    pub(crate) fn at(self, pointer: impl Into<String>) -> V1Error {
        let (detail, fix) = self.words();
        V1Error::Field { pointer: pointer.into(), detail: detail.to_owned(), fix }
    }
}

/// A step of a JSON pointer (RFC 6901).
pub(super) fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}
