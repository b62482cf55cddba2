//! Who has the least, among many whose numbers grow all the time.
//!
//! The catalogue asks it for the label that was seen least recently, and the
//! filter for the rarest name. Numbers grow with every flush and the least is
//! asked for rarely, so growth is not told here: whoever asks says what the
//! numbers are by now, and only what comes up is put in its place.
//!
//! Invariant: each key is here once, with a number that is at most its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Keys by numbers that only grow; of equal numbers the smallest key comes first.
#[derive(Debug, Clone)]
pub(crate) struct Least<N, K> {
    heap: BinaryHeap<Reverse<(N, K)>>,
}

impl<N: Ord, K: Ord> Default for Least<N, K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

impl<N: Ord, K: Ord> FromIterator<(N, K)> for Least<N, K> {
    fn from_iter<I: IntoIterator<Item = (N, K)>>(all: I) -> Self {
        Self { heap: all.into_iter().map(Reverse).collect() }
    }
}

impl<N: Ord + Copy, K: Ord> Least<N, K> {
    /// One more, which is not here yet.
    pub(crate) fn insert(&mut self, number: N, key: K) {
        self.heap.push(Reverse((number, key)));
    }

    /// Takes out the one with the least, if that is `below` what is wanted. `now`
    /// tells the number that a key has by now; those that have none are gone.
    pub(crate) fn take(
        &mut self,
        now: impl Fn(&K) -> Option<N>,
        below: impl Fn(N) -> bool,
    ) -> Option<(N, K)> {
        loop {
            let mut first = self.heap.peek_mut()?;
            match now(&first.0.1) {
                None => {
                    PeekMut::pop(first);
                }
                Some(number) if number > first.0.0 => first.0.0 = number,
                Some(number) if below(number) => return Some(PeekMut::pop(first).0),
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
        /// Beside a plain map, which is searched for its least.
        #[test]
        fn the_least_comes_first_however_others_have_grown(
            steps in proptest::collection::vec((0_u8..3, 0_u8..20, 0_u32..50), 0..200),
        ) {
            let mut least = Least::default();
            let mut plain: BTreeMap<u8, u32> = BTreeMap::new();
            for (what, key, number) in steps {
                match (what, plain.get_mut(&key)) {
                    (0, None) => {
                        plain.insert(key, number);
                        least.insert(number, key);
                    }
                    (1, Some(kept)) => *kept = (*kept).max(number),
                    (2, _) => {
                        let expected = plain.iter().map(|(key, kept)| (*kept, *key)).min();
                        let expected = expected.filter(|(kept, _)| *kept < number);
                        let taken = least.take(|key| plain.get(key).copied(), |kept| kept < number);
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
