//! Bits behind bytes, for the logs; read again by `LogGaps` in the module above.

/// Writes bits, low ones of a byte first, behind the bytes that are there.
pub(super) struct BitWriter<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    /// High bits of the last byte that are free.
    pub(super) free: usize,
}

impl BitWriter<'_> {
    /// The low `bits` of a number.
    fn number(&mut self, number: u64, bits: u32) {
        let (mut left, mut number) = (usize::try_from(bits).unwrap_or_default(), number & ((1 << bits) - 1));
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let low = u8::try_from(number & 0xff).unwrap_or_default();
            if let Some(last) = self.bytes.last_mut() {
                *last |= low << (8 - self.free);
            }
            let taken = left.min(self.free);
            number >>= taken;
            self.free -= taken;
            left -= taken;
        }
    }

    /// Rice's code of a number of 1 or more.
    pub(super) fn rice(&mut self, number: u64, low_bits: u32) {
        let mut zeros = (number - 1) >> low_bits;
        while zeros > 32 {
            self.number(0, 32);
            zeros -= 32;
        }
        self.number(1 << zeros, u32::try_from(zeros).unwrap_or_default() + 1);
        self.number(number - 1, low_bits);
    }
}
