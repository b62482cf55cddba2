//! Division by a number that is known beforehand, as a multiplication.
//!
//! A limit divides by the same few numbers at every check, and a division takes longer than all the rest of it.
//!
//! Invariant: exact for every numerator below 2^53, which all that a decision counts in is.

/// Numerators have so many bits at most.
const NUMERATOR_BITS: u32 = 53;

/// `1 / divisor`, in binary places enough for numerators of [`NUMERATOR_BITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reciprocal {
    factor: u64,
    shift: u32,
}

impl Reciprocal {
    /// The reciprocal of a number below 2^63 that is not zero.
    ///
    /// The factor is `2^(53 + shift) / divisor`, rounded up to the next whole number, so it is too large by at most
    /// `divisor / 2^(53 + shift)` of itself. With `divisor < 2^shift` a numerator below 2^53 does not see it.
    pub(crate) fn new(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        let shift = u64::BITS - divisor.leading_zeros();
        let factor = (1_u128 << (NUMERATOR_BITS + shift)) / u128::from(divisor) + 1;
        Self { factor: u64::try_from(factor).unwrap_or(u64::MAX), shift }
    }

    /// `⌊numerator / divisor⌋`.
    #[inline]
    pub(crate) fn divide(self, numerator: u64) -> u64 {
        debug_assert!(numerator < 1 << NUMERATOR_BITS, "a numerator has 53 bits");
        let product = u128::from(numerator << (u64::BITS - NUMERATOR_BITS)) * u128::from(self.factor);
        u64::try_from(product >> u64::BITS).unwrap_or(u64::MAX) >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NUMERATOR_MAX: u64 = (1 << NUMERATOR_BITS) - 1;

    #[test]
    fn the_ends_of_every_quotient_are_exact() {
        let powers = (0..53).map(|bits| 1_u64 << bits);
        let divisors = powers.flat_map(|power| [power - 1, power, power + 1]).filter(|divisor| *divisor > 0);
        for divisor in divisors.chain([3, 7, 10, 86_400_000_000, 1_000_003]) {
            let reciprocal = Reciprocal::new(divisor);
            for quotient in [0, 1, 2, 3, NUMERATOR_MAX / divisor / 2, NUMERATOR_MAX / divisor] {
                let least = quotient.saturating_mul(divisor).min(NUMERATOR_MAX);
                for numerator in [least, least.saturating_sub(1), NUMERATOR_MAX] {
                    assert_eq!(reciprocal.divide(numerator), numerator / divisor, "{numerator} / {divisor}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_a_division(divisor in 1..=NUMERATOR_MAX, small in 1_u64..10_000, numerator in 0..=NUMERATOR_MAX) {
            for divisor in [divisor, small] {
                prop_assert_eq!(Reciprocal::new(divisor).divide(numerator), numerator / divisor);
            }
        }
    }
}
