//! The names of series.
//!
//! Recorders count by [`Label`]; the store gives each label a number, and the number
//! with an outcome makes a row id (`row_id`).
//!
//! Invariant: there is no label for "other". What no named series has is the
//! difference between all requests (or all decisions) and the named series, so
//! forgetting a series never changes a total.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::bytes::{ByteReader, put_bytes};
use crate::error::{Error, Result, corrupt};

/// The three kinds of named series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SeriesKind {
    /// Requests by route.
    #[default]
    Route,
    /// Decisions by rule.
    Rule,
    /// Decisions by rule and key.
    Key,
}

impl SeriesKind {
    /// All, the default first.
    pub const ALL: [Self; 3] = [Self::Route, Self::Rule, Self::Key];

    /// The name in queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Rule => "rule",
            Self::Key => "key",
        }
    }
}

impl fmt::Display for SeriesKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SeriesKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| Error::Query {
            what: "series are by route, rule or key, not by",
            text: text.into(),
        })
    }
}

/// The name of a series.
///
/// ```
/// use tollgate_history::{SeriesKind, Label};
/// let label = Label::Route("/cart".into());
/// assert_eq!((label.kind(), label.name()), (Some(SeriesKind::Route), "/cart"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// Every request.
    Requests,
    /// Every decision: a request that meets two rules has two.
    Decisions,
    /// The requests to a route.
    Route(Arc<str>),
    /// The decisions of a rule.
    Rule {
        /// The domain; empty for limits that callers bring along.
        domain: Arc<str>,
        /// The rule.
        name: Arc<str>,
    },
    /// The decisions of a rule about a key.
    Key {
        /// The domain of the rule.
        domain: Arc<str>,
        /// The rule.
        rule: Arc<str>,
        /// The key.
        name: Arc<str>,
    },
}

impl Label {
    /// What kind of series it is; none for a total.
    pub const fn kind(&self) -> Option<SeriesKind> {
        match self {
            Self::Requests | Self::Decisions => None,
            Self::Route(_) => Some(SeriesKind::Route),
            Self::Rule { .. } => Some(SeriesKind::Rule),
            Self::Key { .. } => Some(SeriesKind::Key),
        }
    }

    /// The name that is shown; empty for a total.
    pub fn name(&self) -> &str {
        match self {
            Self::Requests | Self::Decisions => "",
            Self::Route(name) | Self::Rule { name, .. } | Self::Key { name, .. } => name,
        }
    }

    /// The domain of a rule or a key; empty for all others.
    pub(crate) fn domain(&self) -> &str {
        match self {
            Self::Requests | Self::Decisions | Self::Route(_) => "",
            Self::Rule { domain, .. } | Self::Key { domain, .. } => domain,
        }
    }

    /// The rule of a key; empty for all others.
    pub(crate) fn rule(&self) -> &str {
        match self {
            Self::Requests | Self::Decisions | Self::Route(_) | Self::Rule { .. } => "",
            Self::Key { rule, .. } => rule,
        }
    }

    /// A pseudonym: the first half of the SHA-256 of salt and name, in hexadecimal.
    /// Every process with the same salt gives the same one.
    pub fn hashed(name: &str, salt: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(u64::try_from(salt.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(salt);
        hash.update(name);
        // On the path of every decision about a hidden value, so that nothing is formatted.
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
        hash.finalize().iter().take(16).flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// Bytes that no other label has, as files keep it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40);
        bytes.push(match self {
            Self::Requests => b'q',
            Self::Decisions => b'r',
            Self::Route(_) => b'R',
            Self::Rule { .. } => b'U',
            Self::Key { .. } => b'K',
        });
        put_bytes(&mut bytes, self.domain().as_bytes());
        put_bytes(&mut bytes, self.rule().as_bytes());
        bytes.extend_from_slice(self.name().as_bytes());
        bytes
    }

    /// The label of these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        let kind = reader.byte()?;
        let (domain, rule) = (reader.text()?, reader.text()?);
        let name = std::str::from_utf8(reader.rest()).map_err(|_| corrupt("a name is not UTF-8"))?;
        match kind {
            b'q' => Ok(Self::Requests),
            b'r' => Ok(Self::Decisions),
            b'R' => Ok(Self::Route(name.into())),
            b'U' => Ok(Self::Rule { domain: domain.into(), name: name.into() }),
            b'K' => Ok(Self::Key { domain: domain.into(), rule: rule.into(), name: name.into() }),
            _ => Err(corrupt("a name of an unknown kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(domain: &str, name: &str) -> Label {
        Label::Rule { domain: domain.into(), name: name.into() }
    }

    fn key(domain: &str, rule: &str, name: &str) -> Label {
        Label::Key { domain: domain.into(), rule: rule.into(), name: name.into() }
    }

    #[test]
    fn labels_survive_their_encoding_and_no_two_share_one() {
        let labels = [
            Label::Requests,
            Label::Decisions,
            Label::Route("/a".into()),
            Label::Route("".into()),
            rule("", "/a"),
            rule("/", "a"),
            key("d", "a", "bc"),
            key("d", "ab", "c"),
            key("da", "b", "c"),
        ];
        let mut seen = std::collections::HashSet::new();
        for label in labels {
            let bytes = label.encode();
            assert_eq!(Label::decode(&bytes).unwrap(), label);
            assert!(seen.insert(bytes), "{label:?}");
        }
        assert!(Label::decode(b"").is_err());
        assert!(Label::decode(b"?\0\0").is_err());
        assert!(Label::decode(b"R\0\0\xff").is_err());
    }

    #[test]
    fn pseudonyms_depend_on_the_salt() {
        let hashed = |salt| Label::hashed("user_id=42", salt);
        assert_eq!((hashed("salt"), hashed("").len()), (hashed("salt"), 32));
        assert_ne!(hashed("salt"), hashed("pepper"));
    }
}
