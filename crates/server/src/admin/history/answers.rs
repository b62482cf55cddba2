//! An answer in the format that was asked for.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tollgate_history::query::{csv, ndjson};

use super::{Format, Rows, to_wire};

/// The answer in a format.
pub(super) fn respond(format: Format, answer: &(impl Rows + Serialize)) -> Response {
    let (kind, text) = match format {
        Format::Json => return json(answer),
        Format::Ndjson => ("application/x-ndjson", ndjson(answer)),
        Format::Csv => ("text/csv; charset=utf-8; header=present", csv(answer)),
    };
    ([(CONTENT_TYPE, kind)], text).into_response()
}

/// The answer as one document.
pub(super) fn json(answer: &impl Serialize) -> Response {
    to_wire::respond(answer)
}
