//! The keys of every table, as files keep them.
//!
//! Invariant: numbers are big-endian, so that the order of the bytes is the order
//! of time. Blocks are by tier, time and shard: a top list reads one range, a
//! roll-up removes one, a curve asks for single keys.

use crate::error::{Result, corrupt};
use crate::flush::{FlushName, Instance};
use crate::tier::Tier;

/// Below and above every key of a table: no key is as long as the end.
pub(crate) fn table_range() -> (Vec<u8>, Vec<u8>) {
    (Vec::new(), vec![0xff; 1_100])
}

pub(crate) fn seen_key(instance: Instance) -> Vec<u8> {
    instance.0.to_vec()
}

pub(crate) fn log_key(hour: u32, name: FlushName) -> Vec<u8> {
    let mut key = hour.to_be_bytes().to_vec();
    key.extend_from_slice(&name.instance.0);
    key.extend_from_slice(&name.seq.to_be_bytes());
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

/// The start is in seconds; it stays below 2^32 until 2106, and is kept in minutes
/// to last longer than that.
pub(crate) fn block_key(tier: Tier, start_s: u64, shard: u32) -> Vec<u8> {
    let mut key = chunk_key(tier, start_s);
    key.extend_from_slice(&shard.to_be_bytes());
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

/// The start of a block's chunk in seconds, and its shard.
pub(crate) fn read_block_key(key: &[u8]) -> Result<(u64, u32)> {
    let (_, key) = key.split_first().ok_or(corrupt("a key of a block is too short"))?;
    let (minute, shard) = key.split_first_chunk::<4>().ok_or(corrupt("a key of a block is too short"))?;
    let shard: [u8; 4] = shard.try_into().map_err(|_| corrupt("a key of a block has a wrong length"))?;
    Ok((u64::from(u32::from_be_bytes(*minute)) * 60, u32::from_be_bytes(shard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_the_order_of_tier_time_and_shard() {
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
