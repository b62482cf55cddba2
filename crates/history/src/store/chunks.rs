//! Chunks that are being added to, before they are blocks again.
//!
//! Folding and rolling up add points here; [`Chunks::write`] merges them with
//! what is stored already and puts the result into the batch.

use std::collections::BTreeMap;

use super::keys::block_key;
use super::{Catalogue, RowId};
use crate::codec::block::{self, Block};
use crate::codec::bytes::index;
use crate::engine::{Batch, Engine, Table};
use crate::error::{Error, Result, corrupt};
use crate::label::SHARD_ROWS;
use crate::tier::Tier;

/// The rows of one block to be, each at its place in the shard.
#[derive(Debug)]
pub(super) struct Shard {
    number: u32,
    points: usize,
    /// Which row of `values` is whose, counted from one; none if it is zero.
    places: Vec<u16>,
    /// The points of one row after the other.
    values: Vec<u64>,
}

impl Shard {
    fn new(number: u32, points: usize) -> Self {
        Self { number, points, places: vec![0; SHARD_ROWS], values: Vec::new() }
    }

    /// The points of one row.
    pub(super) fn row(&mut self, id: RowId) -> &mut [u64] {
        let Self { points, places, values, .. } = self;
        let Some(place) = places.get_mut(id.of_shard()) else { return &mut [] };
        if *place == 0 {
            values.resize(values.len() + *points, 0);
            *place = u16::try_from(values.len() / *points).unwrap_or(0);
        }
        let start = index(u64::from(*place)).saturating_sub(1) * *points;
        values.get_mut(start..start + *points).unwrap_or(&mut [])
    }

    /// The rows in the order of their ids.
    fn rows(&self) -> impl Iterator<Item = (RowId, &[u64])> {
        let ids = (RowId::first_of(self.number).0..).map(RowId);
        ids.zip(&self.places).filter(|(_, place)| **place > 0).map(|(id, place)| {
            let start = (usize::from(*place) - 1) * self.points;
            (id, self.values.get(start..start + self.points).unwrap_or(&[]))
        })
    }

    fn add_block(&mut self, bytes: &[u8]) -> Result<()> {
        for row in Block::open(bytes)?.rows() {
            let row = row?;
            if row.id.shard() != self.number {
                return Err(corrupt("a block has a row of another block"));
            }
            let kept = self.row(row.id);
            row.each(&mut |at, count| {
                if let Some(kept) = kept.get_mut(at) {
                    *kept = row.id.merge(*kept, count);
                }
            })?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Chunks {
    shards: BTreeMap<(Tier, u64, u32), Shard>,
}

impl Chunks {
    /// The points of one row in the chunk that starts at that second.
    pub(super) fn row(&mut self, tier: Tier, start_s: u64, id: RowId) -> &mut [u64] {
        self.shard(tier, start_s, id.shard()).row(id)
    }

    /// The rows of one block of the chunk that starts at that second.
    pub(super) fn shard(&mut self, tier: Tier, start_s: u64, number: u32) -> &mut Shard {
        let shard = self.shards.entry((tier, start_s, number));
        shard.or_insert_with(|| Shard::new(number, tier.points()))
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
        for ((tier, start_s, number), shard) in self.shards {
            let key = block_key(tier, start_s, number);
            let rows = shard.rows().filter(|(id, _)| known.label(id.sid()).is_some());
            match block::encode(tier.points(), rows) {
                Some(bytes) => batch.put(Table::Blocks, key, bytes),
                None => batch.remove(Table::Blocks, key),
            }
        }
        Ok(damaged)
    }

    fn add_stored(&mut self, engine: &impl Engine) -> Result<u64> {
        let keys: Vec<Vec<u8>> =
            self.shards.keys().map(|(tier, start_s, shard)| block_key(*tier, *start_s, *shard)).collect();
        let mut shards: Vec<&mut Shard> = self.shards.values_mut().collect();
        let (mut damaged, mut failed) = (0, None);
        engine.get_many(Table::Blocks, &keys, &mut |place, bytes| {
            let Some(shard) = shards.get_mut(place) else { return };
            match shard.add_block(bytes) {
                Ok(()) => {}
                Err(Error::Corrupt { .. }) => damaged += 1,
                Err(error) => failed = Some(error),
            }
        })?;
        failed.map_or(Ok(damaged), Err)
    }
}
