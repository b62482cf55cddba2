//! Numbers of series and of their rows.
//!
//! A row is one curve: a series and an outcome. Records and blocks are sorted by
//! [`RowId`], so a block of 64 series is a range of row ids. The numbers are in
//! files (`spec/history`): never change them.

use tollgate_core::Outcome;

use crate::bytes::{ByteReader, put_varint};
use crate::error::{Result, corrupt};
use crate::label::SeriesKind;

/// The number of a series in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesId(pub(crate) u32);

impl SeriesId {
    /// All requests.
    pub(crate) const REQUESTS: Self = Self(0);
    /// All decisions.
    pub(crate) const DECISIONS: Self = Self(1);
    /// The first of a named series.
    pub(crate) const FIRST: Self = Self(2);
    /// One past the last. Three bits of a row id are the slot, and half of the rest
    /// is for labels without a number.
    pub(crate) const END: u32 = 1 << 28;

    /// A stand-in for a label that has no number yet: its place in some list.
    pub(crate) const fn unnumbered(place: u32) -> Self {
        Self(Self::END + place)
    }

    /// The place in that list; none if the series has a number.
    pub(crate) const fn unnumbered_place(self) -> Option<u32> {
        self.0.checked_sub(Self::END)
    }

    /// The total that the named series of a kind are a part of.
    pub(crate) const fn total_of(kind: SeriesKind) -> Self {
        match kind {
            SeriesKind::Route => Self::REQUESTS,
            SeriesKind::Rule | SeriesKind::Key => Self::DECISIONS,
        }
    }

    pub(crate) fn row(self, outcome: Outcome) -> RowId {
        RowId((self.0 << 3) | slot(outcome))
    }

    /// Which block of a chunk its rows are in.
    pub(crate) const fn block(self) -> u32 {
        self.0 >> 6
    }

    /// Its index among the series of its block.
    pub(crate) fn index_in_block(self) -> usize {
        usize::try_from(self.0).unwrap_or_default() % BLOCK_SERIES
    }
}

/// Series of one block.
pub(crate) const BLOCK_SERIES: usize = 64;

/// Rows of one block: 64 series with eight slots each.
pub(crate) const BLOCK_ROWS: usize = 512;

/// One curve: a series and a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowId(pub(crate) u32);

impl RowId {
    /// Appends it as the difference from the last one, which it becomes.
    pub(crate) fn put(self, bytes: &mut Vec<u8>, last: &mut u32) {
        put_varint(bytes, u64::from(self.0 - *last));
        *last = self.0;
    }

    /// Reads what [`RowId::put`] has written.
    pub(crate) fn read(reader: &mut ByteReader<'_>, last: &mut u32) -> Result<Self> {
        let id = last.checked_add(reader.varint_u32()?).ok_or(corrupt("a row's number is too large"))?;
        *last = id;
        Ok(Self(id))
    }

    /// The busiest minute of all requests within a coarse point; merged by maximum.
    pub(crate) const PEAK: Self = Self(6);
    /// How many flushes cover a point. Zero means that no process was counting.
    pub(crate) const UP: Self = Self(7);

    pub(crate) const fn series(self) -> SeriesId {
        SeriesId(self.0 >> 3)
    }

    /// The same slot of another series.
    pub(crate) const fn with_series(self, series: SeriesId) -> Self {
        Self((series.0 << 3) | (self.0 & 7))
    }

    pub(crate) fn outcome(self) -> Option<Outcome> {
        Outcome::ALL.get(usize::try_from(self.0 & 7).unwrap_or_default()).copied()
    }

    /// Which block of a chunk it is in.
    pub(crate) const fn block(self) -> u32 {
        self.0 >> 9
    }

    /// The first row of a block.
    pub(crate) const fn first_of_block(block: u32) -> Self {
        Self(block << 9)
    }

    /// Its index among the rows of its block.
    pub(crate) fn index_in_block(self) -> usize {
        usize::try_from(self.0).unwrap_or_default() % BLOCK_ROWS
    }

    /// What two parts of one point make together.
    pub(crate) fn merge(self, one: u64, other: u64) -> u64 {
        if self == Self::PEAK { one.max(other) } else { one.saturating_add(other) }
    }
}

/// The lowest three bits of a row id.
fn slot(outcome: Outcome) -> u32 {
    u32::try_from(outcome.index()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_knows_its_series_and_its_outcome() {
        for outcome in Outcome::ALL {
            let row = SeriesId(77).row(outcome);
            assert_eq!((row.series(), row.outcome()), (SeriesId(77), Some(outcome)));
        }
        assert_eq!((RowId::PEAK.outcome(), RowId::UP.outcome()), (None, None));
    }
}
