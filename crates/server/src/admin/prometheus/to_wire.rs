//! Values and errors → JSON as Prometheus writes it.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use tollgate_history::promql::{self, Instants, LabelSet, Metric, PromValue};

use crate::history::HistoryQueryError;

/// An error as Prometheus writes it.
#[derive(Debug)]
pub(super) struct PromApiError {
    status: StatusCode,
    kind: &'static str,
    words: String,
}

impl PromApiError {
    /// A parameter is not as it must be.
    pub(super) fn bad(words: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind: "bad_data", words: words.into() }
    }
}

impl From<promql::Error> for PromApiError {
    fn from(error: promql::Error) -> Self {
        let words = error.to_string();
        match error {
            promql::Error::Syntax { .. } => Self::bad(words),
            promql::Error::History(_) => {
                Self { status: StatusCode::INTERNAL_SERVER_ERROR, kind: "internal", words }
            }
            promql::Error::Unsupported { .. } | promql::Error::TooMuch { .. } | _ => {
                Self { status: StatusCode::UNPROCESSABLE_ENTITY, kind: "execution", words }
            }
        }
    }
}

impl From<HistoryQueryError> for PromApiError {
    fn from(why: HistoryQueryError) -> Self {
        let words = why.to_string();
        let (status, kind) = match why {
            HistoryQueryError::Slow => (StatusCode::SERVICE_UNAVAILABLE, "timeout"),
            HistoryQueryError::Off | HistoryQueryError::Closed { .. } | HistoryQueryError::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
            HistoryQueryError::Broken | HistoryQueryError::History(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
        };
        Self { status, kind, words }
    }
}

/// The response, or the error in its place.
pub(super) fn respond(answer: Result<Json, PromApiError>) -> Response {
    let (status, body) = match answer {
        Ok(data) => (StatusCode::OK, json!({ "status": "success", "data": data })),
        Err(PromApiError { status, kind, words }) => {
            (status, json!({ "status": "error", "errorType": kind, "error": words }))
        }
    };
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A value at one instant.
pub(super) fn instant(value: &PromValue, at_ms: u64) -> Json {
    match value {
        PromValue::Scalar(numbers) => {
            let number = numbers.first().copied().unwrap_or(f64::NAN);
            json!({ "resultType": "scalar", "result": sample(at_ms, number) })
        }
        PromValue::Series(series) => {
            let one = |one: &promql::Samples| {
                let number = one.values.first().copied().flatten()?;
                Some(json!({ "metric": one.labels, "value": sample(at_ms, number) }))
            };
            json!({ "resultType": "vector", "result": series.iter().filter_map(one).collect::<Vec<_>>() })
        }
    }
}

/// A value at many instants.
pub(super) fn range(value: &PromValue, instants: Instants) -> Json {
    let points = |values: &mut dyn Iterator<Item = Option<f64>>| {
        let samples = instants.each().zip(values).filter_map(|(at, number)| Some(sample(at, number?)));
        samples.collect::<Vec<_>>()
    };
    let result = match value {
        PromValue::Scalar(numbers) => {
            vec![json!({ "metric": {}, "values": points(&mut numbers.iter().copied().map(Some)) })]
        }
        PromValue::Series(series) => {
            let one = |one: &promql::Samples| {
                let values = points(&mut one.values.iter().copied());
                (!values.is_empty()).then(|| json!({ "metric": one.labels, "values": values }))
            };
            series.iter().filter_map(one).collect()
        }
    };
    json!({ "resultType": "matrix", "result": result })
}

pub(super) fn label_sets(sets: &[LabelSet]) -> Json {
    json!(sets)
}

pub(super) fn texts(texts: &[impl AsRef<str>]) -> Json {
    texts.iter().map(|text| text.as_ref()).collect()
}

pub(super) fn metadata(metrics: &[Metric]) -> Json {
    let about = |metric: &Metric| {
        let about = json!([{ "type": "counter", "help": metric.help(), "unit": "" }]);
        (metric.name().to_owned(), about)
    };
    Json::Object(metrics.iter().map(about).collect())
}

pub(super) fn build() -> Json {
    json!({ "application": "Tollgate", "version": env!("CARGO_PKG_VERSION") })
}

/// A time in seconds, and a number in text.
fn sample(at_ms: u64, number: f64) -> Json {
    let seconds = std::time::Duration::from_millis(at_ms).as_secs_f64();
    json!([seconds, text(number)])
}

fn text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number.is_sign_positive() { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        number.to_string()
    }
}
