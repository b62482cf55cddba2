//! The names of series.
//!
//! Recorders count by [`Label`]; the catalogue gives each label a number; the
//! number and an outcome's slot make up a [`RowId`], which records and blocks
//! are sorted by.
//!
//! Invariant: there is no label for "other". What no named series has is the
//! difference between all requests (or all decisions) and the named series, so
//! forgetting a series never changes a total.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::codec::bytes::{Reader, index, put_bytes};
use crate::error::{Error, Result, corrupt};
use tollgate_core::Outcome;

/// What series are asked by.
///
/// ```
/// use tollgate_history::By;
/// assert_eq!("rule".parse::<By>().unwrap(), By::Rule);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum By {
    /// The route of the request.
    #[default]
    Route,
    /// The rule that ruled.
    Rule,
    /// The key that was charged.
    Key,
}

impl By {
    /// All, the usual one first.
    pub const ALL: [Self; 3] = [Self::Route, Self::Rule, Self::Key];

    /// The name in questions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Rule => "rule",
            Self::Key => "key",
        }
    }

    /// What the named series of this kind are a part of.
    pub const fn all(self) -> Label {
        match self {
            Self::Route => Label::Requests,
            Self::Rule | Self::Key => Label::Decisions,
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for By {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|by| by.name() == text).ok_or_else(|| Error::Question {
            what: "series are by route, rule or key, not by",
            text: text.into(),
        })
    }
}

/// The name of a series.
///
/// ```
/// use tollgate_history::{By, Label};
/// let label = Label::Route("/cart".into());
/// assert_eq!((label.by(), label.name()), (Some(By::Route), "/cart"));
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
    Rule(Arc<str>),
    /// The decisions of a rule about a key.
    Key {
        /// The rule.
        rule: Arc<str>,
        /// The key.
        name: Arc<str>,
    },
}

impl Label {
    /// What kind of series it is; none for a total.
    pub const fn by(&self) -> Option<By> {
        match self {
            Self::Requests | Self::Decisions => None,
            Self::Route(_) => Some(By::Route),
            Self::Rule(_) => Some(By::Rule),
            Self::Key { .. } => Some(By::Key),
        }
    }

    /// The name that is shown; empty for a total.
    pub fn name(&self) -> &str {
        match self {
            Self::Requests | Self::Decisions => "",
            Self::Route(name) | Self::Rule(name) | Self::Key { name, .. } => name,
        }
    }

    /// The rule of a key; empty for all others.
    pub(crate) fn rule(&self) -> &str {
        match self {
            Self::Requests | Self::Decisions | Self::Route(_) | Self::Rule(_) => "",
            Self::Key { rule, .. } => rule,
        }
    }

    /// A name that tells keys apart and that nobody can read: half of a SHA-256 of
    /// the salt and the name, in hexadecimal. The same everywhere with the same salt.
    ///
    /// ```
    /// use tollgate_history::Label;
    /// assert_eq!(Label::hashed("user_id=42", "salt"), Label::hashed("user_id=42", "salt"));
    /// assert_ne!(Label::hashed("user_id=42", "salt"), Label::hashed("user_id=42", "pepper"));
    /// assert_eq!(Label::hashed("user_id=42", "").len(), 32);
    /// ```
    pub fn hashed(name: &str, salt: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(u64::try_from(salt.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(salt);
        hash.update(name);
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Bytes that no other label has, as files keep it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40);
        bytes.push(match self {
            Self::Requests => b'q',
            Self::Decisions => b'r',
            Self::Route(_) => b'R',
            Self::Rule(_) => b'U',
            Self::Key { .. } => b'K',
        });
        put_bytes(&mut bytes, self.rule().as_bytes());
        bytes.extend_from_slice(self.name().as_bytes());
        bytes
    }

    /// The label of these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let rule = reader.text()?;
        let name = std::str::from_utf8(reader.rest()).map_err(|_| corrupt("a name is not UTF-8"))?;
        match kind {
            b'q' => Ok(Self::Requests),
            b'r' => Ok(Self::Decisions),
            b'R' => Ok(Self::Route(name.into())),
            b'U' => Ok(Self::Rule(name.into())),
            b'K' => Ok(Self::Key { rule: rule.into(), name: name.into() }),
            _ => Err(corrupt("a name of an unknown kind")),
        }
    }
}

/// The number of a series in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sid(pub(crate) u32);

impl Sid {
    /// All requests.
    pub(crate) const REQUESTS: Self = Self(0);
    /// All decisions.
    pub(crate) const RULINGS: Self = Self(1);
    /// The first that a name gets.
    pub(crate) const FIRST: Self = Self(2);
    /// One more than the last: three bits of a row are for the slot, and half of
    /// what is left is for labels that wait for a number.
    pub(crate) const END: u32 = 1 << 28;

    /// The place of a label among those of a post that had no number.
    pub(crate) const fn waiting(place: u32) -> Self {
        Self(Self::END + place)
    }

    /// That place, if it waits for a number.
    pub(crate) const fn place(self) -> Option<u32> {
        self.0.checked_sub(Self::END)
    }

    pub(crate) fn row(self, outcome: Outcome) -> RowId {
        RowId((self.0 << 3) | slot(outcome))
    }
}

/// Rows that share a block: 64 series of eight slots each.
pub(crate) const SHARD_ROWS: usize = 512;

/// One curve: a series and a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowId(pub(crate) u32);

impl RowId {
    /// The busiest minute of all requests in a bucket of a coarse tier; merged by maximum.
    pub(crate) const PEAK: Self = Self(6);
    /// How many flushes tell of a bucket: without one, nobody was there to count.
    pub(crate) const UP: Self = Self(7);

    pub(crate) const fn sid(self) -> Sid {
        Sid(self.0 >> 3)
    }

    /// The same curve of another series.
    pub(crate) const fn of(self, sid: Sid) -> Self {
        Self((sid.0 << 3) | (self.0 & 7))
    }

    pub(crate) fn outcome(self) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| slot(*outcome) == self.0 & 7)
    }

    /// Which block of a chunk it is in: 64 series share one.
    pub(crate) const fn shard(self) -> u32 {
        self.0 >> 9
    }

    /// The first row of a block.
    pub(crate) const fn first_of(shard: u32) -> Self {
        Self(shard << 9)
    }

    /// Its place among the rows of its block.
    pub(crate) fn of_shard(self) -> usize {
        index(u64::from(self.0)) % SHARD_ROWS
    }

    /// What two parts of one bucket make together.
    pub(crate) fn merge(self, one: u64, other: u64) -> u64 {
        if self == Self::PEAK { one.max(other) } else { one.saturating_add(other) }
    }
}

/// The lowest three bits of a row's number.
fn slot(outcome: Outcome) -> u32 {
    u32::try_from(outcome.index()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_their_encoding_and_no_two_share_one() {
        let labels = [
            Label::Requests,
            Label::Decisions,
            Label::Route("/a".into()),
            Label::Route("".into()),
            Label::Rule("/a".into()),
            Label::Key { rule: "a".into(), name: "bc".into() },
            Label::Key { rule: "ab".into(), name: "c".into() },
        ];
        let mut seen = std::collections::HashSet::new();
        for label in labels {
            let bytes = label.encode();
            assert_eq!(Label::decode(&bytes).unwrap(), label);
            assert!(seen.insert(bytes), "{label:?}");
        }
        assert!(Label::decode(b"").is_err());
        assert!(Label::decode(b"?\0").is_err());
        assert!(Label::decode(b"R\0\xff").is_err());
    }

    #[test]
    fn a_row_knows_its_series_and_its_outcome() {
        for outcome in Outcome::ALL {
            let row = Sid(77).row(outcome);
            assert_eq!((row.sid(), row.outcome()), (Sid(77), Some(outcome)));
        }
        assert_eq!((RowId::PEAK.outcome(), RowId::UP.outcome()), (None, None));
    }
}
