//! What a chunked body must look like.
//!
//! Follows the bytes of a body to its end without keeping any of them. Chunk extensions are passed
//! on to hyper, which drops them; so many bytes of them and of trailers that nobody has a use for
//! them end the connection.

/// Bytes of chunk lines and trailers of one body that are not data, beyond 32 for each chunk.
const OVERHEAD_MAX: u64 = 16 << 10;

/// Where in a chunked body the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// In the size, of which so many digits were read.
    Size(u8),
    /// In the extensions after the size.
    Extension,
    /// After the CR of the size line.
    SizeEnd,
    Data,
    /// After the data.
    DataCr,
    DataLf,
    /// In the trailers, in a line of so many bytes.
    Trailer(u64),
    /// After the CR of such a line.
    TrailerEnd(u64),
    Done,
}

/// A chunked body being followed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkedBody {
    state: ChunkState,
    /// Bytes of this chunk that are still to come.
    left: u64,
    overhead: u64,
}

/// The body breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body is malformed")]
pub(crate) struct ChunkError;

impl ChunkedBody {
    pub(crate) const fn new() -> Self {
        Self { state: ChunkState::Size(0), left: 0, overhead: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// How many of these bytes belong to the body.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty() && !self.is_done()) {
            at += match self.take_data(rest).len() {
                0 => self.follow_framing(rest)?,
                taken => taken,
            };
        }
        Ok(at)
    }

    /// The data that these bytes begin with, which is followed; nothing if they begin with framing.
    pub(crate) fn take_data<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.state != ChunkState::Data {
            return &[];
        }
        let taken = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.left -= u64::try_from(taken).unwrap_or(0);
        if self.left == 0 {
            self.state = ChunkState::DataCr;
        }
        bytes.get(..taken).unwrap_or_default()
    }

    /// How many of these bytes are framing, up to the next data or the end of the body.
    pub(crate) fn follow_framing(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).filter(|_| !self.is_done() && self.state != ChunkState::Data) {
            self.step(*byte)?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<(), ChunkError> {
        self.overhead += 1;
        if self.overhead > OVERHEAD_MAX {
            return Err(ChunkError);
        }
        self.state = match (self.state, byte) {
            (ChunkState::Size(digits @ 0..=14), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).ok_or(ChunkError)?;
                self.left = self.left * 16 + u64::from(digit);
                ChunkState::Size(digits + 1)
            }
            (ChunkState::Size(1..), b';') => ChunkState::Extension,
            (ChunkState::Size(1..), b'\r') | (ChunkState::Extension, b'\r') => ChunkState::SizeEnd,
            (ChunkState::Extension, b'\t' | b' '..=b'~' | 0x80..) => ChunkState::Extension,
            (ChunkState::SizeEnd, b'\n') if self.left == 0 => ChunkState::Trailer(0),
            (ChunkState::SizeEnd, b'\n') => {
                // A chunk of any use pays for its own line.
                self.overhead = self.overhead.saturating_sub(32);
                ChunkState::Data
            }
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size(0),
            (ChunkState::Trailer(length), b'\r') => ChunkState::TrailerEnd(length),
            (ChunkState::Trailer(0), b' ' | b'\t') => return Err(ChunkError),
            (ChunkState::Trailer(length), b'\t' | b' '..=b'~' | 0x80..) => ChunkState::Trailer(length + 1),
            (ChunkState::TrailerEnd(0), b'\n') => ChunkState::Done,
            (ChunkState::TrailerEnd(_), b'\n') => ChunkState::Trailer(0),
            _ => return Err(ChunkError),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes belong to the body, however it is cut in two.
    fn follow(bytes: &[u8]) -> Result<(usize, bool), ChunkError> {
        let mut whole = ChunkedBody::new();
        let taken = whole.follow(bytes);
        for cut in 0..bytes.len() {
            let mut cut_body = ChunkedBody::new();
            let parts = cut_body.follow(&bytes[..cut]).and_then(|first| {
                if first < cut { Ok(first) } else { Ok(first + cut_body.follow(&bytes[cut..])?) }
            });
            assert_eq!(parts, taken, "cut at {cut}");
        }
        Ok((taken?, whole.is_done()))
    }

    #[test]
    fn a_body_ends_where_its_last_chunk_does() {
        for (body, rest) in [
            ("0\r\n\r\n", "GET"),
            ("3\r\nabc\r\n0\r\n\r\n", "x"),
            ("00A;x=\"y\"\r\n0123456789\r\n000\r\nA: b\r\nC:\r\n\r\n", "\r\n"),
        ] {
            assert_eq!(follow(format!("{body}{rest}").as_bytes()), Ok((body.len(), true)), "{body}");
        }
        assert_eq!(follow(b"5\r\nabc"), Ok((6, false)));
    }

    #[test]
    fn a_malformed_body_is_refused() {
        for body in [
            "\r\n",
            ";\r\n",
            "g\r\n",
            "0x1\r\n",
            "-1\r\n",
            "+1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\nab",
            "1\r\na\n0\r\n",
            "1\r\nab\r\n",
            "1\r\na\r\n\r\n",
            "1;\n\r\n",
            "1;\0\r\n",
            "0\r\n\n",
            "0\r\n a: b\r\n\r\n",
            "0\r\na\nb\r\n",
            "1234567890abcdef0\r\n",
        ] {
            assert_eq!(follow(body.as_bytes()), Err(ChunkError), "{body:?}");
        }
        let extensions = format!("1;{}\r\n", "a".repeat(20 << 10));
        assert_eq!(ChunkedBody::new().follow(extensions.as_bytes()), Err(ChunkError));
    }
}
