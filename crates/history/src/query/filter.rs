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

    /// Whether that is the series of this key, under one of these rules.
    pub fn takes_key(&self, label: &Label, key: &KeyName) -> bool {
        label.kind() == Some(SeriesKind::Key) && key.is_kept_as(label.name()) && self.takes(label)
    }

    pub(super) fn takes(&self, label: &Label) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| wanted == own);
        let rule = if let Label::Rule { name, .. } = label { name } else { label.rule() };
        is(&self.domain, label.domain()) && is(&self.rule, rule)
    }
}

/// The name of a key as people write it, to be found however it is kept: in clear,
/// hashed as a whole, or with some of its values hashed.
///
/// ```
/// use tollgate_history::Label;
/// use tollgate_history::query::KeyName;
/// let name = KeyName::new("plan=free,api_key=s3cr3t", "salt");
/// assert!(name.is_kept_as("plan=free,api_key=s3cr3t"));
/// assert!(name.is_kept_as(&format!("plan=free,api_key={}", Label::hashed("s3cr3t", "salt"))));
/// assert!(!name.is_kept_as(&format!("plan=free,api_key={}", Label::hashed("other", "salt"))));
/// ```
#[derive(Debug, Clone)]
pub struct KeyName {
    clear: String,
    hashed: String,
    /// Where it is one entry, in whose value there may be commas.
    single: String,
    /// Each entry in clear, and with its value hashed.
    entries: Vec<[String; 2]>,
}

impl KeyName {
    /// The key `name`; `salt` is what hashes are mixed with.
    pub fn new(name: &str, salt: &str) -> Self {
        let hashed_value = |entry: &str| match entry.split_once('=') {
            Some((key, value)) => format!("{key}={}", Label::hashed(value, salt)),
            None => Label::hashed(entry, salt),
        };
        Self {
            clear: name.to_owned(),
            hashed: Label::hashed(name, salt),
            single: hashed_value(name),
            entries: name.split(',').map(|entry| [entry.to_owned(), hashed_value(entry)]).collect(),
        }
    }

    /// Whether a history with that salt keeps it under this name.
    pub fn is_kept_as(&self, kept: &str) -> bool {
        if [&self.clear, &self.hashed, &self.single].into_iter().any(|name| name == kept) {
            return true;
        }
        let mut parts = kept.split(',');
        let is_same = self
            .entries
            .iter()
            .all(|entry| parts.next().is_some_and(|part| entry.iter().any(|own| own == part)));
        is_same && parts.next().is_none()
    }
}

/// A text that is left out of results where it is empty.
pub(super) fn present(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
