//! The body of an answer, from the upstream's framing into that of the client.
//!
//! A body with a length goes on as it is. One in chunks, or one that ends with its connection, goes
//! on in chunks of our own, without extensions and trailers: a client that wants trailers says so
//! with `TE`, and such requests are hyper's.
//!
//! Invariant: what is not whole never looks whole to the client.

use crate::strict::{ChunkError, ChunkedBody};

/// How the end of an upstream's body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// So many bytes; 0 where there is no body.
    Length(u64),
    Chunked,
    UntilClosed,
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct BodyRelay {
    state: RelayState,
    /// Bytes of it that were passed on, without any framing.
    pub(super) bytes: u64,
}

#[derive(Debug)]
enum RelayState {
    Length(u64),
    Chunked(ChunkedBody),
    UntilClosed,
    Done,
}

impl BodyRelay {
    pub(super) const fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::Length(0) => RelayState::Done,
            BodyFraming::Length(left) => RelayState::Length(left),
            BodyFraming::Chunked => RelayState::Chunked(ChunkedBody::new()),
            BodyFraming::UntilClosed => RelayState::UntilClosed,
        };
        Self { state, bytes: 0 }
    }

    /// Whether all of it was passed on.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, RelayState::Done)
    }

    /// Passes on what came; how many of these bytes belong to the body.
    pub(super) fn pass_on(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, ChunkError> {
        match &mut self.state {
            RelayState::Length(left) => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                out.extend_from_slice(bytes.get(..taken).unwrap_or_default());
                self.bytes += wide(taken);
                *left -= wide(taken);
                if *left == 0 {
                    self.state = RelayState::Done;
                }
                Ok(taken)
            }
            RelayState::Chunked(body) => {
                let mut taken = 0;
                while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
                    let data = body.take_data(rest);
                    self.bytes += wide(data.len());
                    chunk(data, out);
                    taken += if data.is_empty() { body.follow_framing(rest)? } else { data.len() };
                    if body.is_done() {
                        out.extend_from_slice(LAST_CHUNK);
                        self.state = RelayState::Done;
                        break;
                    }
                }
                Ok(taken)
            }
            RelayState::UntilClosed => {
                chunk(bytes, out);
                self.bytes += wide(bytes.len());
                Ok(bytes.len())
            }
            RelayState::Done => Ok(0),
        }
    }

    /// The connection has ended; false if the body has not.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> bool {
        if matches!(self.state, RelayState::UntilClosed) {
            out.extend_from_slice(LAST_CHUNK);
            self.state = RelayState::Done;
        }
        self.is_done()
    }
}

/// What ends a body in chunks.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A chunk; none for nothing, which would end the body.
fn chunk(data: &[u8], out: &mut Vec<u8>) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:X}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a body that comes in pieces of a size: taken bytes, and what was passed on.
    fn relay(framing: BodyFraming, body: &[u8], size: usize) -> Option<(usize, Vec<u8>, bool)> {
        let (mut relay, mut out, mut taken) = (BodyRelay::new(framing), Vec::new(), 0);
        for piece in body.chunks(size) {
            let own = relay.pass_on(piece, &mut out).ok()?;
            taken += own;
            if own < piece.len() {
                break;
            }
        }
        Some((taken, out, relay.is_done()))
    }

    /// The data of a body in chunks.
    fn data(mut chunks: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        while let Some(end) = chunks.windows(2).position(|pair| pair == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
            data.extend_from_slice(&chunks[end + 2..end + 2 + size]);
            chunks = &chunks[end + 4 + size..];
        }
        data
    }

    #[test]
    fn a_body_ends_where_it_says_however_it_comes() {
        let chunked = b"3;a=b\r\nabc\r\n00b\r\nhello world\r\n0\r\nX-Sum: 1\r\n\r\n";
        for size in 1..=chunked.len() {
            let both = [chunked.as_slice(), b"HTTP"].concat();
            let (taken, out, is_done) = relay(BodyFraming::Chunked, &both, size).unwrap();
            assert_eq!((taken, is_done), (chunked.len(), true), "{size}");
            assert!(out.ends_with(b"\r\n0\r\n\r\n") && data(&out) == b"abchello world", "{size}");
            let length = relay(BodyFraming::Length(5), b"hello world", size).unwrap();
            assert_eq!(length, (5, b"hello".to_vec(), true));
        }
    }

    #[test]
    fn what_breaks_off_never_looks_whole() {
        let (_, out, is_done) = relay(BodyFraming::Chunked, b"5\r\nhel", 3).unwrap();
        assert!(!is_done && !out.ends_with(LAST_CHUNK));
        assert_eq!(relay(BodyFraming::Chunked, b"5\r\nhello6\r\n", 4), None);
        let mut until_closed = BodyRelay::new(BodyFraming::UntilClosed);
        let mut out = Vec::new();
        until_closed.pass_on(b"hello", &mut out).unwrap();
        assert!(until_closed.end(&mut out) && data(&out) == b"hello" && out.ends_with(LAST_CHUNK));
        assert!(!BodyRelay::new(BodyFraming::Length(1)).end(&mut out));
    }
}
