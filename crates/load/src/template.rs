//! A request as bytes with gaps for the key.
//!
//! A key is written with as many digits as the largest has, so that all requests are equally long
//! and their lengths can be written beforehand.

/// A request as bytes with gaps for the key.
#[derive(Debug, Clone)]
pub(crate) struct RequestTemplate {
    /// What stands before, between and behind the keys.
    pieces: Vec<Vec<u8>>,
    width: usize,
}

/// The digits of the largest key.
const DIGITS_MAX: usize = 10;

/// How many digits a key of `count` has.
fn width(count: u32) -> usize {
    count.saturating_sub(1).checked_ilog10().map_or(1, |log| usize::try_from(log).unwrap_or(9) + 1)
}

impl RequestTemplate {
    /// A template of what `build` makes of a key. It is called twice, with nothing but zeros and with
    /// nothing but ones: where the two differ is a key, whatever else the protocol has in it.
    pub(crate) fn new(keys: u32, build: impl Fn(&str) -> Vec<u8>) -> Self {
        let width = width(keys);
        let with = |digit: &str| build(&digit.repeat(width));
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
        // By hand: `write!` would take longer than all else that is done for a request.
        let (mut digits, mut rest) = ([b'0'; DIGITS_MAX], key);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        let digits = digits.get(DIGITS_MAX - self.width.min(DIGITS_MAX)..).unwrap_or_default();
        for (index, piece) in self.pieces.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(digits);
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
    fn a_key_goes_into_every_gap() {
        let cases = [
            (1_000, "<00421042042|01>"),
            (50, "<04214242|01>"),
            (u32::MAX, "<00000000042100000000420000000042|01>"),
        ];
        for (count, expected) in cases {
            let template = RequestTemplate::new(count, |key| format!("<0{key}1{key}{key}|01>").into_bytes());
            let mut out = Vec::new();
            template.write(42, &mut out);
            assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
            assert_eq!(template.len(), out.len());
        }
    }
}
