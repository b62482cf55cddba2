//! Which series a selector matches.

use regex::{Regex, RegexBuilder};

use super::Error;
use super::lex::wrong;
use crate::label::{Label, SeriesKind};
use tollgate_core::Outcome;

/// The largest program that a regular expression may become, in bytes.
const REGEX_MAX: usize = 1 << 20;

/// The counters that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Requests, by route and outcome.
    Requests,
    /// Decisions, by domain, rule and outcome.
    Decisions,
    /// Decisions, by domain, rule, key and outcome.
    KeyDecisions,
}

impl Metric {
    /// All.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Decisions, Self::KeyDecisions];

    /// The name in expressions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "tollgate_requests_total",
            Self::Decisions => "tollgate_decisions_total",
            Self::KeyDecisions => "tollgate_key_decisions_total",
        }
    }

    /// What it counts.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Requests => "Requests by route and outcome; what has no series of its own is (other).",
            Self::Decisions => {
                "Decisions by domain, rule and outcome; what has no series of its own is (other)."
            }
            Self::KeyDecisions => "Decisions by domain, rule, key and outcome, of the most frequent keys.",
        }
    }

    /// Which kind of series it is made of.
    pub(super) const fn kind(self) -> SeriesKind {
        match self {
            Self::Requests => SeriesKind::Route,
            Self::Decisions => SeriesKind::Rule,
            Self::KeyDecisions => SeriesKind::Key,
        }
    }

    /// The labels besides the name and the outcome.
    pub(super) const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Requests => &["route"],
            Self::Decisions => &["domain", "rule"],
            Self::KeyDecisions => &["domain", "rule", "key"],
        }
    }
}

/// How a label's value is compared.
#[derive(Debug, Clone)]
enum ValueTest {
    Is(String),
    Matches(Regex),
}

/// A condition on a label.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    pub(super) label: String,
    test: ValueTest,
    is_negated: bool,
}

impl Matcher {
    /// `label sign "text"`, where the text stands at `at`.
    pub(super) fn new(label: &str, sign: &str, text: &str, at: usize) -> Result<Self, Error> {
        let test = match sign {
            "=" | "!=" => ValueTest::Is(text.to_owned()),
            _ => {
                let whole = format!("^(?s:{text})$");
                let regex = RegexBuilder::new(&whole).size_limit(REGEX_MAX).build();
                let words = |error: regex::Error| match error {
                    regex::Error::CompiledTooBig(_) => "this regular expression is too large".to_owned(),
                    regex::Error::Syntax(_) | _ => "this is no regular expression".to_owned(),
                };
                ValueTest::Matches(regex.map_err(|error| wrong(at, words(error)))?)
            }
        };
        Ok(Self { label: label.to_owned(), test, is_negated: sign.starts_with('!') })
    }

    /// The condition as it is written.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        let (signs, text) = match &self.test {
            ValueTest::Is(text) => (["=", "!="], text.as_str()),
            ValueTest::Matches(regex) => {
                let text = regex.as_str().strip_prefix("^(?s:").and_then(|text| text.strip_suffix(")$"));
                (["=~", "!~"], text.unwrap_or_default())
            }
        };
        let sign = if self.is_negated { signs[1] } else { signs[0] };
        format!("{}{sign}{text:?}", self.label)
    }

    /// Whether a value matches; a label that is missing is empty.
    pub(super) fn takes(&self, value: &str) -> bool {
        let is_met = match &self.test {
            ValueTest::Is(text) => text == value,
            ValueTest::Matches(regex) => regex.is_match(value),
        };
        is_met != self.is_negated
    }
}

/// Which series, and when.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) matchers: Vec<Matcher>,
    pub(super) offset_ms: u64,
}

impl Selector {
    /// The counters that it matches.
    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        let takes = |metric: &Metric| self.take("__name__", metric.name()) && self.ignores_absent(*metric);
        Metric::ALL.into_iter().filter(takes)
    }

    /// A condition on a label that a counter does not have must accept the empty text.
    fn ignores_absent(&self, metric: Metric) -> bool {
        let has = |label: &str| matches!(label, "__name__" | "outcome") || metric.labels().contains(&label);
        self.matchers.iter().filter(|matcher| !has(&matcher.label)).all(|matcher| matcher.takes(""))
    }

    fn take(&self, label: &str, value: &str) -> bool {
        self.matchers.iter().filter(|matcher| matcher.label == label).all(|matcher| matcher.takes(value))
    }

    /// Whether it says anything about the names of series.
    pub(super) fn names(&self) -> bool {
        self.matchers.iter().any(|matcher| !matches!(matcher.label.as_str(), "__name__" | "outcome"))
    }

    pub(super) fn takes_outcome(&self, outcome: Outcome) -> bool {
        self.take("outcome", outcome.name())
    }

    pub(super) fn takes_label(&self, label: &Label) -> bool {
        match label {
            Label::Requests | Label::Decisions => false,
            Label::Route(route) => self.take("route", route),
            Label::Rule { domain, name } => self.take("domain", domain) && self.take("rule", name),
            Label::Key { domain, rule, name } => {
                self.take("domain", domain) && self.take("rule", rule) && self.take("key", name)
            }
        }
    }
}
