//! A heap whose priorities are brought up to date only when they come up.
//!
//! The series index takes the label seen least recently from it, and the name
//! filter the rarest name. Priorities grow with every flush and the least is
//! wanted rarely, so the heap is not told about growth: `take` is given the current
//! priorities, and moves only the keys that come to the top.
//!
//! Invariant: each key is here once, with a priority that is at most its current one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A min-heap of keys whose priorities only grow; of equal ones the smallest key is first.
#[derive(Debug, Clone)]
pub(crate) struct LazyHeap<N, K> {
    heap: BinaryHeap<Reverse<(N, K)>>,
}

impl<N: Ord, K: Ord> Default for LazyHeap<N, K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

impl<N: Ord, K: Ord> FromIterator<(N, K)> for LazyHeap<N, K> {
    fn from_iter<I: IntoIterator<Item = (N, K)>>(all: I) -> Self {
        Self { heap: all.into_iter().map(Reverse).collect() }
    }
}

impl<N: Ord + Copy, K: Ord> LazyHeap<N, K> {
    /// Adds a key that is not here yet.
    pub(crate) fn insert(&mut self, priority: N, key: K) {
        self.heap.push(Reverse((priority, key)));
    }

    /// Removes the key with the least priority, if `is_wanted`. `current` gives the
    /// priority of a key; keys that have none are dropped.
    pub(crate) fn take(
        &mut self,
        current: impl Fn(&K) -> Option<N>,
        is_wanted: impl Fn(N) -> bool,
    ) -> Option<(N, K)> {
        loop {
            let mut first = self.heap.peek_mut()?;
            match current(&first.0.1) {
                None => {
                    PeekMut::pop(first);
                }
                Some(priority) if priority > first.0.0 => first.0.0 = priority,
                Some(priority) if is_wanted(priority) => return Some(PeekMut::pop(first).0),
                Some(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a plain map that is searched for its least.
        #[test]
        fn the_least_comes_first_however_others_have_grown(
            steps in proptest::collection::vec((0_u8..3, 0_u8..20, 0_u32..50), 0..200),
        ) {
            let mut heap = LazyHeap::default();
            let mut plain: BTreeMap<u8, u32> = BTreeMap::new();
            for (what, key, number) in steps {
                match (what, plain.get_mut(&key)) {
                    (0, None) => {
                        plain.insert(key, number);
                        heap.insert(number, key);
                    }
                    (1, Some(kept)) => *kept = (*kept).max(number),
                    (2, _) => {
                        let expected = plain.iter().map(|(key, kept)| (*kept, *key)).min();
                        let expected = expected.filter(|(kept, _)| *kept < number);
                        let taken = heap.take(|key| plain.get(key).copied(), |kept| kept < number);
                        prop_assert_eq!(taken, expected);
                        if let Some((_, key)) = taken {
                            plain.remove(&key);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
