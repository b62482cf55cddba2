//! Chunks that are being added to, before they are blocks again.
//!
//! Folding and rolling up add points here; [`Chunks::write`] merges them with
//! what is stored already and puts the result into the batch.

use std::collections::BTreeMap;

use super::keys::block_key;
use super::{Catalogue, RowId};
use crate::Map;
use crate::codec::block::{self, Block};
use crate::engine::{Batch, Engine, Table};
use crate::error::Result;
use crate::tier::Tier;

/// The points of a chunk, by row.
type Rows = Map<RowId, Vec<u64>>;

#[derive(Debug, Default)]
pub(super) struct Chunks {
    shards: BTreeMap<(Tier, u64, u32), Rows>,
}

impl Chunks {
    /// The points of one row in the chunk that starts at that second.
    pub(super) fn row(&mut self, tier: Tier, start_s: u64, id: RowId) -> &mut [u64] {
        let rows = self.shards.entry((tier, start_s, id.shard())).or_default();
        rows.entry(id).or_insert_with(|| vec![0; tier.points()])
    }

    /// Adds one point.
    pub(super) fn add(&mut self, tier: Tier, second: u64, id: RowId, count: u64) {
        let row = self.row(tier, tier.chunk_of(second), id);
        if let Some(kept) = row.get_mut(tier.point_of(second)) {
            *kept = id.merge(*kept, count);
        }
    }

    /// Puts the chunks into the batch, with what is stored of them already. Rows
    /// of forgotten labels are left out.
    pub(super) fn write(self, engine: &impl Engine, known: &Catalogue, batch: &mut Batch) -> Result<()> {
        for ((tier, start_s, shard), mut rows) in self.shards {
            let key = block_key(tier, start_s, shard);
            if let Some(stored) = engine.get(Table::Blocks, &key)? {
                add_stored(&stored, tier, &mut rows)?;
            }
            rows.retain(|id, _| known.label(id.sid()).is_some());
            let mut sorted: Vec<(RowId, Vec<u64>)> = rows.into_iter().collect();
            sorted.sort_unstable_by_key(|(id, _)| *id);
            match block::encode(tier.points(), sorted.iter().map(|(id, row)| (*id, row.as_slice()))) {
                Some(bytes) => batch.put(Table::Blocks, key, bytes),
                None => batch.remove(Table::Blocks, key),
            }
        }
        Ok(())
    }
}

fn add_stored(bytes: &[u8], tier: Tier, rows: &mut Rows) -> Result<()> {
    for row in Block::open(bytes)?.rows() {
        let row = row?;
        let kept = rows.entry(row.id).or_insert_with(|| vec![0; tier.points()]);
        row.each(&mut |at, count| {
            if let Some(kept) = kept.get_mut(at) {
                *kept = row.id.merge(*kept, count);
            }
        })?;
    }
    Ok(())
}
