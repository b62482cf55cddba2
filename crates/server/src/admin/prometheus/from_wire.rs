//! Parameters of a query or a form → when, and which expression.

use axum::body::Body;
use axum::extract::Request;
use tollgate_history::promql::{Instants, TEXT_MAX};
use tollgate_history::time_text;

use super::to_wire::PromApiError;
use crate::body;

/// Points of a curve, at most; Prometheus has the same limit.
const POINTS_MAX: usize = 11_000;
/// The largest form: an expression and a few numbers, percent-encoded.
const FORM_MAX: usize = 4 * TEXT_MAX;

/// The parameters of a request.
pub(super) struct PromParams(Vec<(String, String)>);

impl PromParams {
    /// Those of the query, and those of the form if there is one.
    pub(super) async fn read(request: Request<Body>) -> Result<Self, PromApiError> {
        let (parts, body) = request.into_parts();
        let mut pairs = Vec::new();
        let mut add = |text: &[u8]| pairs.extend(form_urlencoded::parse(text).into_owned());
        add(parts.uri.query().unwrap_or_default().as_bytes());
        let form =
            body::receive(body, FORM_MAX).await.map_err(|error| PromApiError::bad(error.to_string()))?.bytes;
        add(&form);
        Ok(Self(pairs))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str())
    }

    pub(super) fn expression(&self) -> Result<String, PromApiError> {
        let text = self.text("query").filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| PromApiError::bad("there is no query; send an expression"))
    }

    /// The metric to tell about; all if none.
    pub(super) fn metric(&self) -> Option<&str> {
        self.text("metric").filter(|name| !name.is_empty())
    }

    /// Everything that was sent as `match[]`.
    pub(super) fn selectors(&self) -> Vec<String> {
        self.0.iter().filter(|(name, _)| name == "match[]").map(|(_, text)| text.clone()).collect()
    }

    /// A time in milliseconds, if it was sent.
    pub(super) fn instant(&self, name: &'static str) -> Result<Option<u64>, PromApiError> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let read = millis(text).or_else(|| Some(time_text::instant(text, 0).ok()?.saturating_mul(1_000)));
        let wrong = || {
            let words = format!("{name} is no time: {text:?}; send unix seconds or RFC 3339");
            PromApiError::bad(words)
        };
        read.map(Some).ok_or_else(wrong)
    }

    pub(super) fn range(&self) -> Result<Instants, PromApiError> {
        let needed = |name: &'static str| {
            self.instant(name)?.ok_or_else(|| PromApiError::bad(format!("there is no {name}; send a time")))
        };
        let (from_ms, to_ms) = (needed("start")?, needed("end")?);
        let step = self.text("step").unwrap_or_default();
        let step_ms = millis(step).or_else(|| Some(time_text::duration(step).ok()?.saturating_mul(1_000)));
        let Some(step_ms) = step_ms.filter(|step| *step > 0) else {
            let words = format!("step is no length: {step:?}; send seconds, or such as 5m");
            return Err(PromApiError::bad(words));
        };
        if to_ms < from_ms {
            return Err(PromApiError::bad("the end is before the start; send an end after it"));
        }
        let instants = Instants::Range { from_ms, to_ms, step_ms };
        if instants.count() > POINTS_MAX {
            let words = format!("more than {POINTS_MAX} points; send a longer step or a shorter time");
            return Err(PromApiError::bad(words));
        }
        Ok(instants)
    }
}

/// Seconds with or without a fraction, in milliseconds.
fn millis(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(thousandths.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_milliseconds_without_rounding() {
        let cases = [("1", 1_000), ("1.5", 1_500), ("1.0019", 1_001), ("1800000000.25", 1_800_000_000_250)];
        for (text, ms) in cases {
            assert_eq!(millis(text), Some(ms), "{text}");
        }
        for text in ["", ".5", "-1", "1e9", "5m", "1.2.3", "99999999999999999999"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
