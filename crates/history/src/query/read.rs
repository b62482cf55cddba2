//! Walks over the stored points of a span, tier by tier.
//!
//! Below the questions: [`History::points`] for a few rows, [`History::row_totals`]
//! for all of them.

use std::ops::ControlFlow;

use super::Span;
use crate::codec::block::Block;
use crate::codec::bytes::wide;
use crate::engine::{Engine, Table};
use crate::error::{Result, corrupt};
use crate::label::RowId;
use crate::store::{History, block_key, block_range, read_block_key};
use crate::tier::Tier;

/// One stored point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// Which of the rows that were asked for.
    pub(crate) place: usize,
    /// Where it begins.
    pub(crate) second: u64,
    pub(crate) tier: Tier,
    pub(crate) count: u64,
}

impl<E: Engine> History<E> {
    /// The part of a span that is kept in a tier.
    fn part(&self, tier: Tier, span: Span) -> Option<Span> {
        let (from, to) = self.state.rolled.zone(tier);
        let part = Span { from_s: span.from_s.max(from), to_s: span.to_s.min(to) };
        (part.from_s < part.to_s).then_some(part)
    }

    /// Calls `visit` with every point of these rows, which are sorted.
    pub(crate) fn points(&self, rows: &[RowId], span: Span, visit: &mut impl FnMut(Point)) -> Result<()> {
        self.fresh()?;
        for tier in Tier::ALL {
            if let Some(part) = self.part(tier, span) {
                self.points_of_tier(tier, rows, part, visit)?;
            }
        }
        for (start_s, hour) in self.head.within(span.from_s, span.to_s) {
            for (place, id) in rows.iter().enumerate() {
                let Some(row) = hour.get(*id) else { continue };
                for (of_hour, count) in row.each() {
                    let second = start_s + u64::from(of_hour) * 60;
                    if count > 0 && span.touches(second, 60) {
                        visit(Point { place, second, tier: Tier::Minutes, count });
                    }
                }
            }
        }
        Ok(())
    }

    fn points_of_tier(
        &self,
        tier: Tier,
        rows: &[RowId],
        span: Span,
        visit: &mut impl FnMut(Point),
    ) -> Result<()> {
        // Rows are sorted, so those of one shard are next to each other.
        let groups: Vec<&[RowId]> = rows.chunk_by(|one, other| one.shard() == other.shard()).collect();
        let mut keys = Vec::new();
        let mut about = Vec::new();
        let Some(oldest_s) = self.first_chunk(tier, span.to_s.next_multiple_of(60))? else { return Ok(()) };
        let mut start_s = tier.chunk_of(span.from_s).max(oldest_s);
        while start_s < span.to_s && start_s <= self.state.newest_s() {
            let mut first = 0;
            for group in &groups {
                let shard = group.first().map_or(0, |id| id.shard());
                keys.push(block_key(tier, start_s, shard));
                about.push((start_s, first, *group));
                first += group.len();
            }
            start_s += tier.chunk_s();
        }
        let mut failed = None;
        self.engine.get_many(Table::Blocks, &keys, &mut |at, bytes| {
            let Some((start_s, first, group)) = about.get(at) else { return };
            let read = Block::open(bytes).and_then(|block| {
                let mut inner = Ok(());
                block.find(group, &mut |place, row| {
                    let each = row.each(&mut |at, count| {
                        let second = start_s + wide(at) * tier.step_s();
                        if span.touches(second, tier.step_s()) {
                            visit(Point { place: first + place, second, tier, count });
                        }
                    });
                    if each.is_err() {
                        inner = Err(corrupt("a row cannot be read"));
                    }
                })?;
                inner
            });
            if let Err(error) = read {
                failed = Some(error);
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Calls `visit` with the sum of every row in the span, perhaps in parts.
    pub(crate) fn row_totals(&self, span: Span, visit: &mut impl FnMut(RowId, u64)) -> Result<()> {
        self.fresh()?;
        for tier in Tier::ALL {
            let Some(part) = self.part(tier, span) else { continue };
            let (from, to) = block_range(tier, tier.chunk_of(part.from_s), part.to_s.saturating_add(59));
            let mut failed = None;
            self.engine.scan(Table::Blocks, &from..&to, &mut |key, bytes| match totals_of_block(
                tier,
                part,
                (key, bytes),
                visit,
            ) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        for (start_s, hour) in self.head.within(span.from_s, span.to_s) {
            for (id, row) in hour.iter() {
                let within =
                    row.each().filter(|(of_hour, _)| span.touches(start_s + u64::from(*of_hour) * 60, 60));
                visit(id, within.fold(0, |sum, (_, count)| sum.saturating_add(count)));
            }
        }
        Ok(())
    }
}

fn totals_of_block(
    tier: Tier,
    span: Span,
    (key, bytes): (&[u8], &[u8]),
    visit: &mut impl FnMut(RowId, u64),
) -> Result<()> {
    let (start_s, _) = read_block_key(key)?;
    let is_whole = start_s >= span.from_s && start_s + tier.chunk_s() <= span.to_s;
    for row in Block::open(bytes)?.rows() {
        let row = row?;
        if is_whole {
            visit(row.id, row.total()?);
            continue;
        }
        let mut sum = 0_u64;
        row.each(&mut |at, count| {
            if span.touches(start_s + wide(at) * tier.step_s(), tier.step_s()) {
                sum = sum.saturating_add(count);
            }
        })?;
        if sum > 0 {
            visit(row.id, sum);
        }
    }
    Ok(())
}
