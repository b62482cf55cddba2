//! The keys of every table.
//!
//! Invariant: numbers are big-endian, so that the order of the bytes is the order
//! of time. Blocks are sorted by tier, time and block number: a top list reads one
//! range, a roll-up removes one, a curve gets single keys.

use crate::error::{Result, corrupt};
use crate::flush::{FlushId, InstanceId};
use crate::tier::Tier;

pub(crate) fn last_flush_key(instance: InstanceId) -> Vec<u8> {
    instance.0.to_vec()
}

pub(crate) fn log_key(hour: u32, id: FlushId) -> Vec<u8> {
    let mut key = hour.to_be_bytes().to_vec();
    key.extend_from_slice(&id.instance.0);
    key.extend_from_slice(&id.seq.to_be_bytes());
    key
}

/// The log of the hours from `hour` until before `end`.
pub(crate) fn log_range(hour: u32, end: u32) -> (Vec<u8>, Vec<u8>) {
    (hour.to_be_bytes().to_vec(), end.to_be_bytes().to_vec())
}

pub(crate) fn hour_of_log_key(key: &[u8]) -> Result<u32> {
    let hour = key.first_chunk::<4>().ok_or(corrupt("a key of the log is too short"))?;
    Ok(u32::from_be_bytes(*hour))
}

/// The start is written in minutes: in seconds, 32 bits would last until 2106.
pub(crate) fn block_key(tier: Tier, start_s: u64, block: u32) -> Vec<u8> {
    let mut key = chunk_key(tier, start_s);
    key.extend_from_slice(&block.to_be_bytes());
    key
}

fn chunk_key(tier: Tier, start_s: u64) -> Vec<u8> {
    let minute = u32::try_from(start_s / 60).unwrap_or(u32::MAX);
    let mut key = vec![tier.byte()];
    key.extend_from_slice(&minute.to_be_bytes());
    key
}

/// All blocks of a tier whose chunks start in a range of seconds.
pub(crate) fn block_range(tier: Tier, from_s: u64, to_s: u64) -> (Vec<u8>, Vec<u8>) {
    (chunk_key(tier, from_s), chunk_key(tier, to_s))
}

/// The start of a block's chunk in seconds, and the number of the block.
pub(crate) fn read_block_key(key: &[u8]) -> Result<(u64, u32)> {
    let (_, key) = key.split_first().ok_or(corrupt("a key of a block is too short"))?;
    let (minute, block) = key.split_first_chunk::<4>().ok_or(corrupt("a key of a block is too short"))?;
    let block: [u8; 4] = block.try_into().map_err(|_| corrupt("a key of a block has a wrong length"))?;
    Ok((u64::from(u32::from_be_bytes(*minute)) * 60, u32::from_be_bytes(block)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_the_order_of_tier_time_and_number() {
        let keys = [
            block_key(Tier::Minutes, 0, 9),
            block_key(Tier::Minutes, 3_600, 1),
            block_key(Tier::Minutes, 4_000_000_000 - 4_000_000_000 % 3_600, 0),
            block_key(Tier::Days, 0, 0),
        ];
        assert!(keys.is_sorted());
        assert_eq!(read_block_key(&keys[1]).unwrap(), (3_600, 1));
        assert!(read_block_key(&keys[1][..6]).is_err());
    }
}
