//! Blocks that are being added to.
//!
//! Compaction and roll-up add points here; [`BlockBuilders::write`] merges them with
//! the blocks that are stored already and puts the result into a batch.

use std::collections::BTreeMap;

use super::keys::block_key;
use super::series_index::SeriesIndex;
use crate::bytes::index;
use crate::codec::block::{self, SeriesBlock};
use crate::error::{Error, Result, corrupt};
use crate::row_id::{BLOCK_ROWS, RowId};
use crate::tables::{TableId, Tables, WriteBatch};
use crate::tier::Tier;

/// The rows of one block.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    number: u32,
    points: usize,
    /// For each row of the block its place in `values`, from one; 0 if it is empty.
    places: Vec<u16>,
    /// The points of one row after the other.
    values: Vec<u64>,
}

impl BlockBuilder {
    fn new(number: u32, points: usize) -> Self {
        Self { number, points, places: vec![0; BLOCK_ROWS], values: Vec::new() }
    }

    /// The points of one row.
    pub(super) fn row(&mut self, id: RowId) -> &mut [u64] {
        let Self { points, places, values, .. } = self;
        let Some(place) = places.get_mut(id.index_in_block()) else { return &mut [] };
        if *place == 0 {
            values.resize(values.len() + *points, 0);
            *place = u16::try_from(values.len() / *points).unwrap_or(0);
        }
        let start = index(u64::from(*place)).saturating_sub(1) * *points;
        values.get_mut(start..start + *points).unwrap_or(&mut [])
    }

    /// The rows in the order of their ids.
    fn rows(&self) -> impl Iterator<Item = (RowId, &[u64])> {
        let ids = (RowId::first_of_block(self.number).0..).map(RowId);
        ids.zip(&self.places).filter(|(_, place)| **place > 0).map(|(id, place)| {
            let start = (usize::from(*place) - 1) * self.points;
            (id, self.values.get(start..start + self.points).unwrap_or(&[]))
        })
    }

    fn add_block(&mut self, bytes: &[u8]) -> Result<()> {
        for row in SeriesBlock::open(bytes)?.rows() {
            let row = row?;
            if row.id.block() != self.number {
                return Err(corrupt("a block has a row of another block"));
            }
            let kept = self.row(row.id);
            row.each(&mut |at, count| {
                if let Some(kept) = kept.get_mut(at) {
                    *kept = row.id.merge(*kept, count);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The blocks of one batch, by tier, start of the chunk in seconds, and number.
#[derive(Debug, Default)]
pub(super) struct BlockBuilders {
    blocks: BTreeMap<(Tier, u64, u32), BlockBuilder>,
}

impl BlockBuilders {
    /// One block of the chunk that starts at that second.
    pub(super) fn block(&mut self, tier: Tier, start_s: u64, number: u32) -> &mut BlockBuilder {
        let block = self.blocks.entry((tier, start_s, number));
        block.or_insert_with(|| BlockBuilder::new(number, tier.points()))
    }

    /// The points of one row in the chunk that starts at that second.
    pub(super) fn row(&mut self, tier: Tier, start_s: u64, id: RowId) -> &mut [u64] {
        self.block(tier, start_s, id.block()).row(id)
    }

    /// Adds one point.
    pub(super) fn add(&mut self, tier: Tier, second: u64, id: RowId, count: u64) {
        let row = self.row(tier, tier.chunk_of(second), id);
        if let Some(kept) = row.get_mut(tier.point_of(second)) {
            *kept = id.merge(*kept, count);
        }
    }

    /// Puts the blocks into the batch, merged with what is stored of them. Rows of
    /// forgotten labels are left out. Returns how many stored blocks were damaged:
    /// their counts are lost, and the rest goes on.
    pub(super) fn write(
        mut self,
        tables: &impl Tables,
        series: &SeriesIndex,
        batch: &mut WriteBatch,
    ) -> Result<u64> {
        let damaged = self.add_stored(tables)?;
        for ((tier, start_s, number), block) in self.blocks {
            let key = block_key(tier, start_s, number);
            let rows = block.rows().filter(|(id, _)| series.label(id.series()).is_some());
            match block::encode(tier.points(), rows) {
                Some(bytes) => batch.put(TableId::Blocks, key, bytes),
                None => batch.remove(TableId::Blocks, key),
            }
        }
        Ok(damaged)
    }

    fn add_stored(&mut self, tables: &impl Tables) -> Result<u64> {
        let keys: Vec<Vec<u8>> =
            self.blocks.keys().map(|(tier, start_s, number)| block_key(*tier, *start_s, *number)).collect();
        let mut blocks: Vec<&mut BlockBuilder> = self.blocks.values_mut().collect();
        let mut damaged = 0;
        tables.get_many(TableId::Blocks, &keys, &mut |place, bytes| {
            let Some(block) = blocks.get_mut(place) else { return Ok(()) };
            match block.add_block(bytes) {
                Err(Error::Corrupt { .. }) => damaged += 1,
                done => done?,
            }
            Ok(())
        })?;
        Ok(damaged)
    }
}
