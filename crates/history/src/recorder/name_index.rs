//! Where the counts of a name are, by the name's hash.
//!
//! [`super::thread_counts`] asks it for every decision. In a flood of keys most of them are not here, because
//! there is room for the first few thousand only, and finding that out must not fetch memory that the
//! limiter needs. So half of each hash, its tag, stands apart from the rest, 16 tags to a line of memory: one line
//! tells that a name is not here. A byte of each hash, as in other tables, would be right by chance for one name in ten,
//! and then fetch the hash itself from a place that is in no cache.
//!
//! Invariants: a line is filled from its front, so that a name is not beyond a line with room. A name is told
//! by its whole hash. Names are never removed.

use prefetch_index::prefetch_index;

use crate::bytes::index;

/// Tags in a cache line.
const TAGS: usize = 16;
/// Names for each line on average, so that few lines are full.
const NAMES_A_LINE: usize = TAGS / 2;
/// Lines of the first table.
const LINES_MIN: usize = 16;

/// Parts of hashes; 0 where there is none.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct TagLine([u32; TAGS]);

/// Finds the number of a name. Names are numbered in the order in which they come.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    /// A power of two of them, or none.
    tags: Vec<TagLine>,
    /// By line and tag, the number of the name.
    numbers: Vec<[u32; TAGS]>,
    /// By number.
    hashes: Vec<u64>,
}

/// The half of a hash that does not choose the line. Never 0.
#[inline]
fn tag_of(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or(u32::MAX) | 1
}

impl NameIndex {
    /// The number of a name, if it is here.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let tag = tag_of(hash);
        let mut at = self.first_line(hash);
        loop {
            let TagLine(tags) = self.tags.get(at)?;
            // All of them at once, without a jump for each.
            if tags.iter().fold(false, |is_here, own| is_here | (*own == tag))
                && let Some(number) = self.find_in_line(at, hash)
            {
                return Some(number);
            }
            if tags.last() == Some(&0) {
                return None;
            }
            at = self.next_line(at);
        }
    }

    /// Has the line of memory fetched that tells whether a name is here.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_index(&self.tags, self.first_line(hash));
    }

    fn find_in_line(&self, at: usize, hash: u64) -> Option<usize> {
        let (TagLine(tags), numbers) = (self.tags.get(at)?, self.numbers.get(at)?);
        let tag = tag_of(hash);
        let alike = tags.iter().zip(numbers).filter(|(own, _)| **own == tag);
        alike
            .map(|(_, number)| index(u64::from(*number)))
            .find(|number| self.hashes.get(*number) == Some(&hash))
    }

    /// Numbers a name that is not here.
    pub(super) fn insert(&mut self, hash: u64) {
        if self.hashes.len() >= self.tags.len() * NAMES_A_LINE {
            self.grow();
        }
        let number = u32::try_from(self.hashes.len()).unwrap_or(u32::MAX);
        self.hashes.push(hash);
        self.place(hash, number);
    }

    #[cold]
    fn grow(&mut self) {
        let lines = (self.tags.len() * 2).max(LINES_MIN);
        self.tags = vec![TagLine::default(); lines];
        self.numbers = vec![[0; TAGS]; lines];
        for number in 0..self.hashes.len() {
            if let Some(hash) = self.hashes.get(number).copied() {
                self.place(hash, u32::try_from(number).unwrap_or(u32::MAX));
            }
        }
    }

    /// Writes a tag behind the last of its line, or of the next one with room: half of all tags are free.
    fn place(&mut self, hash: u64, number: u32) {
        let mut at = self.first_line(hash);
        while let (Some(TagLine(tags)), Some(numbers)) = (self.tags.get_mut(at), self.numbers.get_mut(at)) {
            if let Some((tag, own)) = tags.iter_mut().zip(numbers).find(|(tag, _)| **tag == 0) {
                (*tag, *own) = (tag_of(hash), number);
                return;
            }
            at = self.next_line(at);
        }
    }

    #[inline]
    fn first_line(&self, hash: u64) -> usize {
        index(hash & u64::from(u32::MAX)) & self.tags.len().wrapping_sub(1)
    }

    #[inline]
    fn next_line(&self, at: usize) -> usize {
        (at + 1) & self.tags.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Hashes that share lines, tags, or both.
    fn hashes() -> impl Strategy<Value = Vec<u64>> {
        let alike = (0..4_u64, 0..64_u64).prop_map(|(high, low)| high << 32 | low);
        let full = prop_oneof![alike, any::<u64>(), (0..200_u64).prop_map(|high| high << 33)];
        prop::collection::vec(full, 0..600)
    }

    proptest! {
        #[test]
        fn it_knows_the_names_that_were_inserted_and_no_others(known in hashes(), asked in hashes()) {
            let (mut index, mut model) = (NameIndex::default(), HashMap::new());
            for hash in known {
                prop_assert_eq!(index.find(hash), model.get(&hash).copied());
                if !model.contains_key(&hash) {
                    model.insert(hash, model.len());
                    index.insert(hash);
                }
            }
            for hash in asked.iter().chain(model.keys()) {
                prop_assert_eq!(index.find(*hash), model.get(hash).copied());
            }
        }
    }
}
