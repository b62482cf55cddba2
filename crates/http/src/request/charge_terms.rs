//! When a descriptor of a mapping is charged, and what.
//!
//! Written beside the actions of a descriptor. Most are charged 1 when the request comes; others
//! by what its answer turns out to be, which `crate::admission` sees.
//!
//! Deliberately not here: reading answers.

use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderName;

use crate::error::Error;

/// The most statuses of a list, and names of a path within JSON.
pub const STATUSES_MAX: usize = 64;
/// Names of a path within JSON.
pub const FIELD_DEPTH_MAX: usize = 16;

/// When a descriptor is charged, and what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChargeTerms {
    /// 1 when the request comes.
    #[default]
    AtOnce,
    /// 1 when the request comes, given back if the answer has one of these.
    RefundOn(StatusSet),
    /// Nothing but a question whether anything is left when the request comes, and the cost when it
    /// was answered.
    OnResponse {
        /// Only answers with one of these; none if all.
        status: Option<StatusSet>,
        /// What is charged.
        cost: ResponseCost,
    },
}

impl ChargeTerms {
    /// Whether the answer has a say.
    pub const fn need_response(&self) -> bool {
        match self {
            Self::AtOnce => false,
            Self::RefundOn(_) | Self::OnResponse { .. } => true,
        }
    }

    /// Whether the body of the answer has a say.
    pub const fn read_body(&self) -> bool {
        matches!(self, Self::OnResponse { cost: ResponseCost::Json { .. }, .. })
    }

    /// Whether a request is charged in the end, if its answer has this status.
    pub(crate) fn charge(&self, status: Option<u16>) -> bool {
        let is_among = |set: &StatusSet| status.is_some_and(|status| set.has(status));
        match self {
            Self::AtOnce | Self::OnResponse { status: None, .. } => true,
            Self::RefundOn(set) => !is_among(set),
            Self::OnResponse { status: Some(set), .. } => is_among(set),
        }
    }

    /// Whether something is taken when the request comes.
    pub const fn take_at_once(&self) -> bool {
        match self {
            Self::AtOnce | Self::RefundOn(_) => true,
            Self::OnResponse { .. } => false,
        }
    }
}

/// What an answer costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseCost {
    /// 1.
    One,
    /// The number in a header or a trailer.
    Header {
        /// Its name.
        name: HeaderName,
        /// What an answer without such a number costs.
        default: u64,
    },
    /// A number in a body of JSON, or in the last event of a stream that has it.
    Json {
        /// The names that lead to it, one within the other.
        field: Vec<String>,
        /// What an answer without such a number costs.
        default: u64,
    },
}

impl ResponseCost {
    /// The field of JSON that names joined by dots lead to.
    ///
    /// # Errors
    /// If a name is empty, or there are too many.
    pub fn json(field: &str, default: u64) -> Result<Self, Error> {
        let field: Vec<String> = field.split('.').map(str::to_owned).collect();
        if field.iter().any(String::is_empty) {
            return Err(Error::Empty { what: "a name of the field" });
        }
        if field.len() > FIELD_DEPTH_MAX {
            return Err(Error::TooMany {
                what: "names of a field",
                count: field.len(),
                max: FIELD_DEPTH_MAX,
            });
        }
        Ok(Self::Json { field, default })
    }
}

/// Statuses of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSet(Vec<StatusPattern>);

/// One status, or all of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPattern {
    /// Such as 401.
    Exactly(u16),
    /// Such as 5 for 500 to 599.
    Class(u16),
}

impl StatusPattern {
    /// Such as `401` or `5xx`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Status { text: text.to_owned() };
        let class = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"));
        match class {
            Some(class) => {
                let class = class.parse().ok().filter(|class| (1..=5).contains(class));
                class.map(Self::Class).ok_or_else(wrong)
            }
            None => {
                let status = text.parse().ok().filter(|status| (100..=599).contains(status));
                status.map(Self::Exactly).ok_or_else(wrong)
            }
        }
    }
}

impl StatusSet {
    /// These statuses.
    ///
    /// # Errors
    /// If there are none or too many.
    pub fn new(patterns: Vec<StatusPattern>) -> Result<Self, Error> {
        if patterns.is_empty() {
            return Err(Error::Empty { what: "a list of statuses" });
        }
        if patterns.len() > STATUSES_MAX {
            return Err(Error::TooMany { what: "statuses", count: patterns.len(), max: STATUSES_MAX });
        }
        Ok(Self(patterns))
    }

    /// These statuses, as [`StatusPattern::parse`] reads each.
    ///
    /// # Errors
    /// If one is wrong, or there are none or too many.
    pub fn parse(texts: &[&str]) -> Result<Self, Error> {
        Self::new(texts.iter().map(|text| StatusPattern::parse(text)).collect::<Result<_, _>>()?)
    }

    /// Whether a status is one of them.
    pub fn has(&self, status: u16) -> bool {
        self.0.iter().any(|pattern| match pattern {
            StatusPattern::Exactly(own) => *own == status,
            StatusPattern::Class(class) => *class == status / 100,
        })
    }
}

/// Terms that are in force, and whether the log was told of an answer that they could not read.
#[derive(Debug, Default)]
pub(crate) struct ActiveTerms {
    pub(crate) terms: ChargeTerms,
    has_warned: AtomicBool,
}

impl ActiveTerms {
    pub(crate) fn new(terms: ChargeTerms) -> Self {
        Self { terms, has_warned: AtomicBool::new(false) }
    }

    /// Tells the log once, however often it happens.
    pub(crate) fn warn(&self, field: &[String], default: u64, reason: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let field = field.join(".");
            tracing::warn!(
                "cannot read {field} in an answer, because {reason}; such answers are charged {default} \
                 (told once)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_number_or_a_class() {
        let set =
            StatusSet::new(["401", "5xx"].map(|text| StatusPattern::parse(text).unwrap()).into()).unwrap();
        let has: Vec<u16> = (100..600).filter(|status| set.has(*status)).collect();
        assert_eq!(has, std::iter::once(401).chain(500..600).collect::<Vec<_>>());
        for wrong in ["", "99", "600", "6xx", "0xx", "xx", "40", "4x", "-401", "401 ", "abc"] {
            assert!(StatusPattern::parse(wrong).is_err(), "{wrong}");
        }
        assert!(StatusSet::new(Vec::new()).is_err());
    }

    #[test]
    fn a_field_has_names() {
        let field = |text: &str| ResponseCost::json(text, 1);
        assert_eq!(
            field("usage.total"),
            Ok(ResponseCost::Json { field: vec!["usage".into(), "total".into()], default: 1 })
        );
        for wrong in ["", ".", "a.", ".a", "a..b"] {
            assert!(field(wrong).is_err(), "{wrong}");
        }
        assert!(field(&["a"; FIELD_DEPTH_MAX + 1].join(".")).is_err());
    }
}
