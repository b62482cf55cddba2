//! The sums of many rows over a time range, for top lists.
//!
//! Beside `reader`, which reads the points of a few rows. A block that holds no series of interest is
//! passed by without a look at its bytes: ten thousand routes cost a list of rules nothing.
//!
//! Invariant: the rows of one block are visited one after the other.

use std::ops::ControlFlow;

use super::{HistoryReader, block_range, read_block_key};
use crate::bytes::wide;
use crate::codec::block::SeriesBlock;
use crate::error::Result;
use crate::row_id::RowId;
use crate::tables::TableId;
use crate::tier::Tier;
use crate::time_text::TimeRange;

impl HistoryReader<'_> {
    /// Visits the sum of every row in the range, perhaps in parts: of the stored blocks whose number
    /// is wanted, and of all that is in memory.
    pub(crate) fn row_totals(
        &self,
        range: TimeRange,
        is_wanted: &impl Fn(u32) -> bool,
        visit: &mut impl FnMut(RowId, u64),
    ) -> Result<()> {
        for tier in Tier::ALL {
            let (from, to) = block_range(tier, tier.chunk_of(range.from_s), range.to_s.saturating_add(59));
            self.tables.scan(TableId::Blocks, &from..&to, &mut |key, bytes| {
                let (start_s, block) = read_block_key(key)?;
                if is_wanted(block) {
                    totals_of_block(tier, range, (start_s, bytes), visit)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for (start_s, hour) in self.hours_within(range) {
            for (id, row) in hour.iter() {
                let within =
                    row.each().filter(|(of_hour, _)| range.touches(start_s + u64::from(*of_hour) * 60, 60));
                visit(id, within.fold(0, |sum, (_, count)| sum.saturating_add(count)));
            }
        }
        Ok(())
    }
}

fn totals_of_block(
    tier: Tier,
    range: TimeRange,
    (start_s, bytes): (u64, &[u8]),
    visit: &mut impl FnMut(RowId, u64),
) -> Result<()> {
    let is_whole = start_s >= range.from_s && start_s + tier.chunk_s() <= range.to_s;
    for row in SeriesBlock::open(bytes)?.rows() {
        let row = row?;
        if is_whole {
            visit(row.id, row.total()?);
            continue;
        }
        let mut sum = 0_u64;
        row.each(&mut |at, count| {
            if range.touches(start_s + wide(at) * tier.step_s(), tier.step_s()) {
                sum = sum.saturating_add(count);
            }
            Ok(())
        })?;
        if sum > 0 {
            visit(row.id, sum);
        }
    }
    Ok(())
}
