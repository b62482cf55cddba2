//! The identity of one counter.
//!
//! [`crate::RuleSet`] makes a [`Key`] for each charge; a store hashes it or
//! writes it down with [`Key::write`]. The encoding is described in
//! `spec/keys.md`.
//!
//! Invariant: the encoding is injective: two keys with the same bytes have
//! the same domain, entries and kind of limit.
//!
//! Deliberately not here: the hash, and the form a shared store wants.

use crate::limit::{KeyTag, Limit};
use crate::request::Entry;

/// The version of the encoding.
pub const VERSION: u8 = 2;

/// Marks the key of a penalty, which is the limit's with this bit in the ordinal;
/// no descriptor has so many limits.
const PENALTY_ORDINAL: u32 = 1 << 30;
/// Marks the key of a node's share of a limit, in the same way.
const SHARE_ORDINAL: u32 = 1 << 31;

/// The mark, the version, the algorithm, its parameter, the window, the ordinal.
const TAIL_BYTES: usize = 4 + 1 + 1 + 4 + 8 + 4;

/// The identity of one counter: domain, entries, and which limit of theirs.
///
/// The limit takes part with its algorithm and window, not with its numbers:
/// who raises a limit keeps the usage, who changes the window starts afresh.
///
/// ```
/// use tollgate_core::{Entry, Key, Limit, Micros, Shape};
/// let limit = Limit::new(10, Micros::SECOND, Shape::FixedWindow)?;
/// let bytes = |entries: &[Entry<'_>]| {
///     let key = Key { domain: "shop", entries, shared: &[], limit: &limit, ordinal: 0 };
///     let mut bytes = Vec::new();
///     key.write(|piece| bytes.extend_from_slice(piece));
///     bytes
/// };
/// assert_ne!(bytes(&[("a", "b_c").into()]), bytes(&[("a_b", "c").into()]));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// The domain of the request.
    pub domain: &'a str,
    /// The entries of the descriptor.
    pub entries: &'a [Entry<'a>],
    /// By level, the pattern that stands in for the value, where values share.
    pub shared: &'a [Option<Box<str>>],
    /// The limit.
    pub limit: &'a Limit,
    /// Which of several limits of the same kind.
    pub ordinal: u32,
}

/// Equal keys are one counter.
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.domain == other.domain && self.tail() == other.tail() && self.entries().eq(other.entries())
    }
}

impl Eq for Key<'_> {}

impl<'a> Key<'a> {
    /// The key of the penalty of this key's limit.
    #[must_use]
    pub const fn penalty(self) -> Self {
        Self { ordinal: self.ordinal | PENALTY_ORDINAL, ..self }
    }

    /// Whether it is the key of a penalty.
    pub const fn is_penalty(&self) -> bool {
        self.ordinal & PENALTY_ORDINAL != 0
    }

    /// The key of a node's share of this key's limit.
    #[must_use]
    pub const fn share(self, share: &'a Limit) -> Self {
        Self { limit: share, ordinal: self.ordinal | SHARE_ORDINAL, ..self }
    }

    /// Whether it is the key of a share.
    pub const fn is_share(&self) -> bool {
        self.ordinal & SHARE_ORDINAL != 0
    }

    /// Which of several limits of the same kind it belongs to.
    pub const fn limit_ordinal(&self) -> u32 {
        self.ordinal & !(PENALTY_ORDINAL | SHARE_ORDINAL)
    }

    /// The entries as they count: with the pattern where values share.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + '_ {
        let shared = self.shared.iter().map(Option::as_deref).chain(std::iter::repeat(None));
        self.entries.iter().zip(shared).map(|(entry, pattern): (&'a Entry<'a>, Option<&'a str>)| Entry {
            key: entry.key,
            value: pattern.unwrap_or(entry.value),
        })
    }

    /// Writes the encoding piece by piece to `sink`.
    pub fn write(&self, mut sink: impl FnMut(&[u8])) {
        self.write_scope(&mut sink);
        self.write_values(sink);
    }

    /// The first part: what all keys of a limit have in common, whatever the values of their entries.
    pub fn write_scope(&self, mut sink: impl FnMut(&[u8])) {
        write_text(self.domain, &mut sink);
        for entry in self.entries {
            write_text(entry.key, &mut sink);
        }
        sink(&self.tail());
    }

    /// The second part: the values, with the pattern where values share.
    #[inline]
    pub fn write_values(&self, mut sink: impl FnMut(&[u8])) {
        if self.shared.is_empty() {
            for entry in self.entries {
                write_text(entry.value, &mut sink);
            }
            return;
        }
        for entry in self.entries() {
            write_text(entry.value, &mut sink);
        }
    }

    /// What tells limits of the same entries apart. It begins with a length
    /// that no text has, so that the end of the entries' keys is told apart too.
    fn tail(&self) -> [u8; TAIL_BYTES] {
        let KeyTag { byte, parameter, .. } = self.limit.shape().key_tag();
        let mut tail = [0; TAIL_BYTES];
        let mut rest = &mut tail[..];
        let mut put = |bytes: &[u8]| {
            if let Some((head, behind)) = std::mem::take(&mut rest).split_at_mut_checked(bytes.len()) {
                head.copy_from_slice(bytes);
                rest = behind;
            }
        };
        put(&u32::MAX.to_be_bytes());
        put(&[VERSION, byte]);
        put(&parameter.to_be_bytes());
        put(&self.limit.window().get().to_be_bytes());
        put(&self.ordinal.to_be_bytes());
        tail
    }
}

/// Writes a text of a key as [`Key::write`] does.
#[inline]
pub fn write_text(text: &str, sink: &mut impl FnMut(&[u8])) {
    sink(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    sink(text.as_bytes());
}
