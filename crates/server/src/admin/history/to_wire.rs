//! Results and errors → responses.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tollgate_history::query::{Tabular, csv, ndjson};
use tollgate_history::{Outcome, SeriesKind};

use super::from_wire::ResultFormat;
use crate::history::HistoryQueryError;
use crate::http::v1::error::V1Error;
use crate::http::v1::to_wire;

/// What can be asked for, and how many names there are.
#[derive(Debug, Serialize)]
pub(super) struct LabelsBody {
    labels: Vec<LabelBody>,
    outcomes: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct LabelBody {
    name: &'static str,
    values: usize,
}

impl LabelsBody {
    pub(super) fn new(counts: &[(SeriesKind, usize)]) -> Self {
        let label = |(kind, values): &(SeriesKind, usize)| LabelBody { name: kind.name(), values: *values };
        Self { labels: counts.iter().map(label).collect(), outcomes: Outcome::ALL.map(Outcome::name).into() }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ValuesBody {
    pub(super) name: &'static str,
    pub(super) values: Vec<String>,
    /// Whether there are more than these.
    pub(super) more: bool,
}

/// What came of forgetting a key.
#[derive(Debug, Serialize)]
pub(super) struct ForgottenBody {
    pub(super) forgotten: usize,
}

/// A response, or the error in its place.
pub(in crate::admin) async fn respond(response: impl Future<Output = Result<Response, V1Error>>) -> Response {
    response.await.unwrap_or_else(|error| to_wire::error(&error).into())
}

/// A result in the format that was asked for.
pub(super) fn tabular(format: ResultFormat, result: &(impl Tabular + Serialize)) -> Response {
    let (kind, text) = match format {
        ResultFormat::Json => return json(result),
        ResultFormat::Ndjson => ("application/x-ndjson", ndjson(result)),
        ResultFormat::Csv => ("text/csv; charset=utf-8; header=present", csv(result)),
    };
    ([(CONTENT_TYPE, kind)], text).into_response()
}

/// A result as one document.
pub(super) fn json(result: &impl Serialize) -> Response {
    to_wire::respond(result)
}

impl From<HistoryQueryError> for V1Error {
    fn from(error: HistoryQueryError) -> Self {
        let (status, fix) = match error {
            HistoryQueryError::Off => {
                (StatusCode::SERVICE_UNAVAILABLE, "start the server with TOLLGATE_HISTORY=true")
            }
            HistoryQueryError::Closed { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "see the log and /v1/history/status, and ask again")
            }
            HistoryQueryError::Busy | HistoryQueryError::Slow => {
                (StatusCode::SERVICE_UNAVAILABLE, "ask again later, or about a shorter time")
            }
            HistoryQueryError::Broken | HistoryQueryError::History(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "see the log and /v1/history/status")
            }
        };
        Self::NoAnswer { status, detail: error.to_string(), fix }
    }
}
