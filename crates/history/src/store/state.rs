//! What the history knows about itself: its format, how far it has come.
//!
//! One row in the table `Meta`, written with every batch.

use crate::codec::bytes::{put_checksum, put_varint, versioned};
use crate::engine::{Batch, Engine, Table};
use crate::error::Result;
use crate::tier::Rolled;

const KEY: &[u8] = b"state";

/// The format of the tables as a whole: their keys and what they hold.
const VERSION: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// The newest minute that was counted; 0 if there is none.
    pub(crate) newest_minute: u32,
    /// Up to where each tier has been rolled up.
    pub(crate) rolled: Rolled,
}

impl State {
    pub(super) fn load(engine: &impl Engine) -> Result<Self> {
        let Some(bytes) = engine.get(Table::Meta, KEY)? else { return Ok(Self::default()) };
        let mut reader = versioned(&bytes, VERSION, "a state of no known version")?;
        let newest_minute = reader.varint_u32()?;
        let rolled =
            Rolled { minutes: reader.varint()?, five_minutes: reader.varint()?, hours: reader.varint()? };
        Ok(Self { newest_minute, rolled })
    }

    pub(super) fn put(&self, batch: &mut Batch) {
        let mut bytes = vec![VERSION];
        put_varint(&mut bytes, u64::from(self.newest_minute));
        for second in [self.rolled.minutes, self.rolled.five_minutes, self.rolled.hours] {
            put_varint(&mut bytes, second);
        }
        put_checksum(&mut bytes);
        batch.put(Table::Meta, KEY.to_vec(), bytes);
    }

    /// The newest second that was counted.
    pub(crate) fn newest_s(&self) -> u64 {
        u64::from(self.newest_minute) * 60
    }
}
