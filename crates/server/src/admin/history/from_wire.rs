//! The query string of a request → a query.
//!
//! Invariant: an error names the parameter and what to send instead; a parameter that is
//! unknown, or there twice, is an error; but a curve may be asked for by several names.

use axum::extract::RawQuery;
use tollgate_history::query::{Comparison, RuleFilter, SeriesQuery, TimeRange, TopOrder, TopQuery};
use tollgate_history::{Error, Outcome, SeriesKind, time_text};

use crate::http::v1::error::V1Error;

/// The parameters of each path.
pub(super) const SERIES: &[&str] = &[
    "by",
    "name",
    "domain",
    "rule",
    "from",
    "to",
    "last",
    "step",
    "max_points",
    "compare",
    "outcome",
    "format",
];
pub(super) const TOP: &[&str] = &["by", "domain", "rule", "from", "to", "last", "order", "limit", "format"];
pub(super) const SUMMARY: &[&str] = &["from", "to", "last", "format"];
pub(super) const FORGET: &[&str] = &["name", "domain", "rule"];
pub(super) const VALUES: &[&str] = &["prefix", "limit"];

/// Points of a curve and rows of a list, at most.
const POINTS_MAX: u64 = 11_000;
const ROWS_MAX: u64 = 10_000;
/// Rows of a list, if nothing else is said.
const ROWS_DEFAULT: u64 = 100;
/// What a query for curves may have several times, and how often.
const REPEATED: &str = "name";
const NAMES_MAX: usize = 100;
/// The range of a query that names no time.
const DEFAULT_S: u64 = 86_400;

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFormat {
    Json,
    Ndjson,
    Csv,
}

/// The parameters of one request.
#[derive(Debug)]
pub(in crate::admin) struct HistoryParams(Vec<(String, String)>);

impl HistoryParams {
    /// Reads those that a path takes.
    pub(in crate::admin) fn read(RawQuery(query): RawQuery, taken: &[&str]) -> Result<Self, V1Error> {
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
            let earlier = pairs.iter().take(at).filter(|(earlier, _)| earlier == name).count();
            if earlier > 0 && (name != REPEATED || taken != SERIES) {
                return Err(wrong(name, "the parameter is there twice", "send it once"));
            }
            if earlier >= NAMES_MAX {
                let fix = format!("send at most {NAMES_MAX}, and the others in another request");
                return Err(wrong(name, "there are too many names", fix));
            }
        }
        Ok(Self(pairs))
    }

    /// A parameter that is there and not empty.
    pub(in crate::admin) fn text(&self, name: &str) -> Option<&str> {
        let (_, text) = self.0.iter().find(|(own, text)| own == name && !text.is_empty())?;
        Some(text)
    }

    /// A number of at least one.
    pub(in crate::admin) fn number(
        &self,
        name: &'static str,
        default: u64,
        most: u64,
    ) -> Result<u64, V1Error> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| {
            wrong(name, format!("{text:?} is not a number in range"), format!("send 1 to {most}"))
        })
    }

    pub(super) fn format(&self) -> Result<ResultFormat, V1Error> {
        match self.text("format") {
            None | Some("json") => Ok(ResultFormat::Json),
            Some("ndjson") => Ok(ResultFormat::Ndjson),
            Some("csv") => Ok(ResultFormat::Csv),
            Some(other) => {
                Err(wrong("format", format!("there is no format {other:?}"), "send json, ndjson or csv"))
            }
        }
    }

    /// Only these outcomes; all by default.
    fn outcomes(&self) -> Result<Vec<Outcome>, V1Error> {
        let Some(text) = self.text("outcome") else { return Ok(Outcome::ALL.into()) };
        let one = |name: &str| {
            Outcome::from_name(name.trim()).ok_or_else(|| {
                let known = Outcome::ALL.map(Outcome::name).join(", ");
                wrong("outcome", format!("there is no outcome {name:?}"), format!("send some of {known}"))
            })
        };
        text.split(',').map(one).collect()
    }

    pub(super) fn series(&self, now_s: u64) -> Result<SeriesQuery, V1Error> {
        let default = SeriesQuery::new(self.kind()?, self.range(now_s)?);
        let compare = self.text("compare").map(|text| text.parse::<Comparison>()).transpose();
        let named = self.0.iter().filter(|(own, text)| own == REPEATED && !text.is_empty());
        let mut names = named.map(|(_, name)| name.clone());
        Ok(SeriesQuery {
            name: names.next(),
            more_names: names.collect(),
            filter: self.filter()?,
            step_s: self.step()?,
            points: self.number("max_points", default.points, POINTS_MAX)?,
            outcomes: self.outcomes()?,
            compare: compare.map_err(|error| rejected("compare", &error))?,
            ..default
        })
    }

    pub(super) fn top(&self, now_s: u64) -> Result<TopQuery, V1Error> {
        let order = self.text("order").map(|text| text.parse::<TopOrder>()).transpose();
        let order = order.map_err(|error| rejected("order", &error))?.unwrap_or_default();
        let limit = self.number("limit", ROWS_DEFAULT, ROWS_MAX)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(TopQuery { kind: self.kind()?, filter: self.filter()?, range: self.range(now_s)?, order, limit })
    }

    /// The key to forget, and of which rules.
    pub(super) fn key(&self) -> Result<(String, RuleFilter), V1Error> {
        let name = self.text("name").ok_or_else(|| wrong("name", "there is no key", "send its name"))?;
        Ok((name.to_owned(), self.rules()))
    }

    fn rules(&self) -> RuleFilter {
        let text = |name| self.text(name).map(str::to_owned);
        RuleFilter { domain: text("domain"), rule: text("rule") }
    }

    /// Of which rules.
    fn filter(&self) -> Result<RuleFilter, V1Error> {
        let filter = self.rules();
        if self.kind()? == SeriesKind::Route && filter != RuleFilter::default() {
            let name = if filter.rule.is_some() { "rule" } else { "domain" };
            return Err(wrong(name, "a route counts requests, which have no rule", "send by=rule or by=key"));
        }
        Ok(filter)
    }

    /// When.
    pub(in crate::admin) fn range(&self, now_s: u64) -> Result<TimeRange, V1Error> {
        let instant = |name: &'static str| {
            let read = |text| time_text::instant(text, now_s).map_err(|error| rejected(name, &error));
            self.text(name).map(read).transpose()
        };
        let to_s = instant("to")?.unwrap_or(now_s);
        let from_s = match (instant("from")?, self.text("last")) {
            (Some(_), Some(_)) => {
                return Err(wrong("last", "there is a start and a length", "send from or last, not both"));
            }
            (Some(from), None) => from,
            (None, Some(last)) => {
                to_s.saturating_sub(time_text::duration(last).map_err(|error| rejected("last", &error))?)
            }
            (None, None) => to_s.saturating_sub(DEFAULT_S),
        };
        if from_s >= to_s {
            let detail =
                format!("it is {}, and the end {}", time_text::rfc3339(from_s), time_text::rfc3339(to_s));
            return Err(wrong("from", detail, "send a start before the end"));
        }
        Ok(TimeRange { from_s, to_s })
    }

    fn kind(&self) -> Result<SeriesKind, V1Error> {
        let kind = self.text("by").map(str::parse).transpose();
        kind.map(Option::unwrap_or_default).map_err(|error| rejected("by", &error))
    }

    fn step(&self) -> Result<Option<u64>, V1Error> {
        match self.text("step") {
            None | Some("auto") => Ok(None),
            Some(text) => {
                let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
                let step = seconds.map_or_else(|| time_text::duration(text), Ok);
                step.map(Some).map_err(|error| rejected("step", &error))
            }
        }
    }
}

fn wrong(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> V1Error {
    V1Error::Field { pointer: format!("/{name}"), detail: detail.into(), fix: fix.into() }
}

/// The history's error about a text, with the fix.
fn rejected(name: &str, error: &Error) -> V1Error {
    let fix = match name {
        "from" | "to" => "send RFC 3339, unix seconds, or now-6h",
        "last" | "step" => "send a number with s, m, h, d, w or y, such as 24h",
        "by" => "send route, rule or key",
        "order" => "send total or denied",
        _ => "send previous_period, previous_week or previous_year",
    };
    wrong(name, error.to_string(), fix)
}
