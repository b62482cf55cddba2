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
use crate::error::{Error, Result};
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
    /// of forgotten labels are left out. Tells how many stored blocks were damaged:
    /// what they held is lost, and stops nothing.
    pub(super) fn write(mut self, engine: &impl Engine, known: &Catalogue, batch: &mut Batch) -> Result<u64> {
        let damaged = self.add_stored(engine)?;
        for ((tier, start_s, shard), mut rows) in self.shards {
            let key = block_key(tier, start_s, shard);
            rows.retain(|id, _| known.label(id.sid()).is_some());
            let mut sorted: Vec<(RowId, Vec<u64>)> = rows.into_iter().collect();
            sorted.sort_unstable_by_key(|(id, _)| *id);
            match block::encode(tier.points(), sorted.iter().map(|(id, row)| (*id, row.as_slice()))) {
                Some(bytes) => batch.put(Table::Blocks, key, bytes),
                None => batch.remove(Table::Blocks, key),
            }
        }
        Ok(damaged)
    }

    fn add_stored(&mut self, engine: &impl Engine) -> Result<u64> {
        let keys: Vec<Vec<u8>> =
            self.shards.keys().map(|(tier, start_s, shard)| block_key(*tier, *start_s, *shard)).collect();
        let mut shards: Vec<(Tier, &mut Rows)> =
            self.shards.iter_mut().map(|((tier, _, _), rows)| (*tier, rows)).collect();
        let (mut damaged, mut failed) = (0, None);
        engine.get_many(Table::Blocks, &keys, &mut |place, bytes| {
            let Some((tier, rows)) = shards.get_mut(place) else { return };
            match add_stored(bytes, *tier, rows) {
                Ok(()) => {}
                Err(Error::Corrupt { .. }) => damaged += 1,
                Err(error) => failed = Some(error),
            }
        })?;
        failed.map_or(Ok(damaged), Err)
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
