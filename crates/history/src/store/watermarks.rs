//! How far the history has come: the newest count, and how far each tier is rolled up.
//!
//! One row of the table `Meta`, written with every batch.
//!
//! Invariant: every second belongs to exactly one tier, which is where a count of it goes.
//! Points of other tiers may be there from a time when a watermark was too high.

use crate::bytes::{put_checksum, put_varint, versioned};
use crate::error::Result;
use crate::tables::{TableId, Tables, WriteBatch};
use crate::tier::Tier;

const KEY: &[u8] = b"state";

/// The format of the tables as a whole: their keys and values.
const VERSION: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Watermarks {
    /// The newest minute that was counted; 0 if there is none.
    pub(crate) newest_minute: u32,
    /// Everything before these seconds has been rolled up from its tier into the next.
    pub(crate) minutes_s: u64,
    pub(crate) five_minutes_s: u64,
    pub(crate) hours_s: u64,
}

impl Watermarks {
    pub(super) fn load(tables: &impl Tables) -> Result<Self> {
        let Some(bytes) = tables.get(TableId::Meta, KEY)? else { return Ok(Self::default()) };
        let mut reader = versioned(&bytes, VERSION, "watermarks of no known version")?;
        Ok(Self {
            newest_minute: reader.varint_u32()?,
            minutes_s: reader.varint()?,
            five_minutes_s: reader.varint()?,
            hours_s: reader.varint()?,
        })
    }

    pub(super) fn put(&self, batch: &mut WriteBatch) {
        let mut bytes = vec![VERSION];
        put_varint(&mut bytes, u64::from(self.newest_minute));
        for second in [self.minutes_s, self.five_minutes_s, self.hours_s] {
            put_varint(&mut bytes, second);
        }
        put_checksum(&mut bytes);
        batch.put(TableId::Meta, KEY.to_vec(), bytes);
    }

    /// The newest second that was counted.
    pub(crate) fn newest_s(&self) -> u64 {
        u64::from(self.newest_minute) * 60
    }

    pub(crate) fn see_minute(&mut self, minute: u32) {
        self.newest_minute = self.newest_minute.max(minute);
    }

    /// The first second that belongs to a tier, and the first after it that does not.
    pub(crate) const fn range_of(&self, tier: Tier) -> (u64, u64) {
        match tier {
            Tier::Minutes => (self.minutes_s, u64::MAX),
            Tier::FiveMinutes => (self.five_minutes_s, self.minutes_s),
            Tier::Hours => (self.hours_s, self.five_minutes_s),
            Tier::Days => (0, self.hours_s),
        }
    }

    /// The tier that a second belongs to.
    pub(crate) fn tier_at(&self, second: u64) -> Tier {
        let has = |tier: &Tier| second >= self.range_of(*tier).0;
        Tier::ALL.into_iter().find(has).unwrap_or(Tier::Days)
    }

    /// Lowers watermarks that no count of now or earlier can have set; whether there were any.
    pub(crate) fn lower(&mut self, now_s: u64) -> bool {
        let before = *self;
        self.minutes_s = self.minutes_s.min(Tier::Minutes.due_s(now_s));
        self.five_minutes_s = self.five_minutes_s.min(Tier::FiveMinutes.due_s(now_s));
        self.hours_s = self.hours_s.min(Tier::Hours.due_s(now_s));
        *self != before
    }

    /// Notes how far a tier is rolled up.
    pub(crate) fn advance(&mut self, tier: Tier, second: u64) {
        let watermark = match tier {
            Tier::Minutes => &mut self.minutes_s,
            Tier::FiveMinutes => &mut self.five_minutes_s,
            Tier::Hours => &mut self.hours_s,
            Tier::Days => return,
        };
        *watermark = (*watermark).max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_has_one_tier() {
        const DAY_S: u64 = 86_400;
        let watermarks = Watermarks {
            minutes_s: 100 * DAY_S,
            five_minutes_s: 94 * DAY_S,
            hours_s: 63 * DAY_S,
            ..Watermarks::default()
        };
        let cases = [
            (100 * DAY_S, Tier::Minutes),
            (100 * DAY_S - 1, Tier::FiveMinutes),
            (94 * DAY_S - 1, Tier::Hours),
            (63 * DAY_S - 1, Tier::Days),
            (0, Tier::Days),
        ];
        for (second, tier) in cases {
            assert_eq!(watermarks.tier_at(second), tier);
        }
        assert_eq!(Watermarks::default().tier_at(0), Tier::Minutes);
    }
}
