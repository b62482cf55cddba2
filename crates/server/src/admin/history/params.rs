//! The query of a request → a question.
//!
//! Invariant: whatever is wrong is told with the parameter's name and with what to
//! send instead; a parameter that is unknown, or there twice, is wrong.

use axum::extract::RawQuery;
use tollgate_history::query::{Compare, Order, SeriesQuestion, Span, TopQuestion};
use tollgate_history::{By, Error, Outcome, when};

use super::{ROWS_USUAL, V1Error};

/// The parameters of each path.
pub(super) const SERIES: &[&str] =
    &["by", "name", "from", "to", "last", "step", "max_points", "compare", "verdict", "format"];
pub(super) const TOP: &[&str] = &["by", "from", "to", "last", "order", "limit", "format"];
pub(super) const SUMMARY: &[&str] = &["from", "to", "last", "format"];
pub(super) const VALUES: &[&str] = &["prefix", "limit"];

/// The most points of a curve and rows of a list.
const POINTS_MAX: u64 = 11_000;
const ROWS_MAX: u64 = 10_000;
/// What a question is about that names no time.
const USUAL_S: u64 = 86_400;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Ndjson,
    Csv,
}

/// The parameters of one request.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads those that a path takes.
    pub(super) fn read(RawQuery(query): RawQuery, taken: &[&str]) -> Result<Self, V1Error> {
        let query = query.unwrap_or_default();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        for (at, (name, _)) in pairs.iter().enumerate() {
            if !taken.contains(&name.as_str()) {
                let fix = match taken {
                    [] => "send none".to_owned(),
                    taken => format!("send one of {}", taken.join(", ")),
                };
                return Err(wrong(name, "there is no such parameter", fix));
            }
            if pairs.iter().take(at).any(|(earlier, _)| earlier == name) {
                return Err(wrong(name, "the parameter is there twice", "send it once"));
            }
        }
        Ok(Self(pairs))
    }

    /// A parameter that is there and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, text) = self.0.iter().find(|(own, text)| own == name && !text.is_empty())?;
        Some(text)
    }

    /// A number of at least one.
    pub(super) fn number(&self, name: &'static str, usual: u64, most: u64) -> Result<u64, V1Error> {
        let Some(text) = self.text(name) else { return Ok(usual) };
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| {
            wrong(name, format!("{text:?} is not a number in range"), format!("send 1 to {most}"))
        })
    }

    pub(super) fn format(&self) -> Result<Format, V1Error> {
        match self.text("format") {
            None | Some("json") => Ok(Format::Json),
            Some("ndjson") => Ok(Format::Ndjson),
            Some("csv") => Ok(Format::Csv),
            Some(other) => {
                Err(wrong("format", format!("there is no format {other:?}"), "send json, ndjson or csv"))
            }
        }
    }

    /// Only these verdicts; none for all.
    pub(super) fn verdicts(&self) -> Result<Option<Vec<Outcome>>, V1Error> {
        let Some(text) = self.text("verdict") else { return Ok(None) };
        let one = |name: &str| {
            Outcome::from_name(name.trim()).ok_or_else(|| {
                let known = Outcome::ALL.map(Outcome::name).join(", ");
                wrong("verdict", format!("there is no verdict {name:?}"), format!("send some of {known}"))
            })
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn series(&self, now_s: u64) -> Result<SeriesQuestion, V1Error> {
        let usual = SeriesQuestion::new(self.by()?, self.span(now_s)?);
        let compare = self.text("compare").map(|text| text.parse::<Compare>()).transpose();
        Ok(SeriesQuestion {
            name: self.text("name").map(str::to_owned),
            step_s: self.step()?,
            points: self.number("max_points", usual.points, POINTS_MAX)?,
            compare: compare.map_err(|error| asked("compare", &error))?,
            ..usual
        })
    }

    pub(super) fn top(&self, now_s: u64) -> Result<(TopQuestion, Order), V1Error> {
        let order = self.text("order").map(|text| text.parse::<Order>()).transpose();
        let order = order.map_err(|error| asked("order", &error))?.unwrap_or_default();
        let limit = self.number("limit", ROWS_USUAL, ROWS_MAX)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok((TopQuestion { by: self.by()?, span: self.span(now_s)?, limit }, order))
    }

    /// When.
    pub(super) fn span(&self, now_s: u64) -> Result<Span, V1Error> {
        let instant = |name: &'static str| {
            let read = |text| when::instant(text, now_s).map_err(|error| asked(name, &error));
            self.text(name).map(read).transpose()
        };
        let to_s = instant("to")?.unwrap_or(now_s);
        let from_s = match (instant("from")?, self.text("last")) {
            (Some(_), Some(_)) => {
                return Err(wrong("last", "there is a start and a length", "send from or last, not both"));
            }
            (Some(from), None) => from,
            (None, Some(last)) => {
                to_s.saturating_sub(when::span(last).map_err(|error| asked("last", &error))?)
            }
            (None, None) => to_s.saturating_sub(USUAL_S),
        };
        if from_s >= to_s {
            let detail = format!("it is {}, and the end {}", when::rfc3339(from_s), when::rfc3339(to_s));
            return Err(wrong("from", detail, "send a start before the end"));
        }
        Ok(Span { from_s, to_s })
    }

    fn by(&self) -> Result<By, V1Error> {
        let by = self.text("by").map(str::parse).transpose();
        by.map(Option::unwrap_or_default).map_err(|error| asked("by", &error))
    }

    fn step(&self) -> Result<Option<u64>, V1Error> {
        match self.text("step") {
            None | Some("auto") => Ok(None),
            Some(text) => {
                let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
                let step = seconds.map_or_else(|| when::span(text), Ok);
                step.map(Some).map_err(|error| asked("step", &error))
            }
        }
    }
}

fn wrong(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> V1Error {
    V1Error::Field { pointer: format!("/{name}"), detail: detail.into(), fix: fix.into() }
}

/// What the history says about a text; its words name the fix.
fn asked(name: &str, error: &Error) -> V1Error {
    let fix = match name {
        "from" | "to" => "send RFC 3339, unix seconds, or now-6h",
        "last" | "step" => "send a number with s, m, h, d, w or y, such as 24h",
        "by" => "send route, rule or key",
        "order" => "send total or denied",
        _ => "send previous_period, previous_week or previous_year",
    };
    wrong(name, error.to_string(), fix)
}
