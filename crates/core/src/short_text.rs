//! Whether two short texts are the same, without a call.
//!
//! Domains and keys of descriptors have a few letters, and each request compares some of them. A general comparison
//! is a call that first finds out how long they are; up to 16 bytes are compared as two words that may overlap. Nor is
//! there a call for any other length, because a function with one has registers to save.

/// Whether two texts are the same.
#[inline]
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    one.len() == other.len()
        && match one.len() {
            0..4 => one.iter().eq(other),
            4..8 => ends::<4>(one) == ends::<4>(other),
            8..=16 => ends::<8>(one) == ends::<8>(other),
            _ => ends::<8>(one) == ends::<8>(other) && one.as_chunks::<8>().0 == other.as_chunks::<8>().0,
        }
}

/// The first and the last bytes of a text that has as many.
#[inline]
fn ends<const N: usize>(text: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (text.first_chunk(), text.last_chunk())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_differ_by_any_of_their_bytes() {
        for length in 0..40 {
            let text = "x".repeat(length);
            assert!(is_same(&text, &text.clone()));
            assert!(!is_same(&text, &format!("{text}x")));
            for at in 0..length {
                let mut other = text.clone();
                other.replace_range(at..=at, "y");
                assert!(!is_same(&text, &other), "{text} {other}");
            }
        }
    }
}
