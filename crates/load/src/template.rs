//! A request as bytes with room for the key.
//!
//! A key is written with as many digits as the largest has, so that every
//! request is as long as every other, and lengths can be written beforehand.

use std::io::Write as _;

use crate::plan::{KEY, Keys, Question};

/// A request as bytes with room for the key.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// What stands before, between and behind the keys.
    pieces: Vec<Vec<u8>>,
    width: usize,
}

/// How many digits a key of `count` has.
fn width(count: u32) -> usize {
    count.saturating_sub(1).checked_ilog10().map_or(1, |log| usize::try_from(log).unwrap_or(9) + 1)
}

impl Template {
    /// A template of what `build` makes of entries. It is asked twice, for keys
    /// of nothing but zeros and of nothing but ones: where the two differ, there
    /// is a key, whatever else the protocol has in it.
    pub(crate) fn new(
        question: &Question,
        keys: Keys,
        build: impl Fn(Vec<(String, String)>) -> Vec<u8>,
    ) -> Self {
        let width = width(keys.count);
        let with = |digit: &str| {
            let key = digit.repeat(width);
            let entries = question.entries.iter();
            build(entries.map(|(name, value)| (name.clone(), value.replace(KEY, &key))).collect())
        };
        let (mut pieces, mut piece, mut digits) = (Vec::new(), Vec::new(), 0);
        for (zero, one) in with("0").into_iter().zip(with("1")) {
            if zero == one {
                piece.push(zero);
                continue;
            }
            digits += 1;
            if digits == width {
                pieces.push(std::mem::take(&mut piece));
                digits = 0;
            }
        }
        pieces.push(piece);
        Self { pieces, width }
    }

    /// How many bytes a request has.
    pub(crate) fn len(&self) -> usize {
        let keys = self.pieces.len().saturating_sub(1);
        self.pieces.iter().map(Vec::len).sum::<usize>() + keys * self.width
    }

    /// Appends the request for a key.
    pub(crate) fn write(&self, key: u32, out: &mut Vec<u8>) {
        for (index, piece) in self.pieces.iter().enumerate() {
            if index > 0 {
                write!(out, "{key:0width$}", width = self.width).expect("a vector takes everything");
            }
            out.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_as_many_digits_as_the_largest() {
        assert_eq!([1, 2, 10, 11, 100, 101, 10_000_000].map(width), [1, 1, 1, 2, 2, 3, 7]);
    }

    #[test]
    fn a_key_goes_wherever_it_was_asked_for() {
        let entries =
            vec![("a".to_owned(), "0{key}1{key}{key}".to_owned()), ("b".to_owned(), "01".to_owned())];
        let question = Question { domain: "d".to_owned(), entries, cost: 1 };
        for (count, expected) in [(1_000, "<00421042042|01>"), (50, "<04214242|01>")] {
            let build =
                |entries: Vec<(String, String)>| format!("<{}|{}>", entries[0].1, entries[1].1).into_bytes();
            let template = Template::new(&question, Keys { count, zipf: None }, build);
            let mut out = Vec::new();
            template.write(42, &mut out);
            assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
            assert_eq!(template.len(), out.len());
        }
    }
}
