//! Of which rules a query is.

use crate::error::{Error, Result};
use crate::label::{Label, SeriesKind};

/// Which rules a query is about; all if nothing is said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleFilter {
    /// Only rules of this domain.
    pub domain: Option<String>,
    /// Only rules of this name.
    pub rule: Option<String>,
}

impl RuleFilter {
    pub(super) fn is_empty(&self) -> bool {
        self.domain.is_none() && self.rule.is_none()
    }

    /// Requests have no rule, because one request may meet several.
    pub(super) fn check(&self, kind: SeriesKind) -> Result<()> {
        match (kind, self.rule.as_ref().or(self.domain.as_ref())) {
            (SeriesKind::Route, Some(text)) => Err(Error::Query {
                what: "routes count requests, which have no rule or domain; ask by rule or key, not for",
                text: text.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether that is the series of a key with this name, under one of these rules.
    pub fn takes_key(&self, label: &Label, name: &str) -> bool {
        label.kind() == Some(SeriesKind::Key) && label.name() == name && self.takes(label)
    }

    pub(super) fn takes(&self, label: &Label) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| wanted == own);
        let rule = if let Label::Rule { name, .. } = label { name } else { label.rule() };
        is(&self.domain, label.domain()) && is(&self.rule, rule)
    }
}

/// A text that is left out of results where it is empty.
pub(super) fn present(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
