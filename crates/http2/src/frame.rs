//! Frames of RFC 9113: their heads, kinds, flags and error codes, read and written.
//!
//! Below everything else here; it knows no connection and no stream.

/// The head of a frame: its length, its kind, its flags and its stream.
pub(crate) const HEAD_BYTES: usize = 9;
/// The longest payload that either side sends: what RFC 9113 gives everybody, and we never ask for more.
pub(crate) const PAYLOAD_MAX: usize = 16_384;

/// Flags of frames. Their meaning depends on the kind.
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY: u8 = 0x20;

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// One that we do not know, and must ignore.
    Unknown,
}

impl FrameKind {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::Reset,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            _ => Self::Unknown,
        }
    }

    /// Its number; none of the unknown is ever written.
    const fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Headers => 1,
            Self::Priority => 2,
            Self::Reset => 3,
            Self::Settings => 4,
            Self::PushPromise => 5,
            Self::Ping => 6,
            Self::GoAway => 7,
            Self::WindowUpdate => 8,
            Self::Continuation => 9,
            Self::Unknown => u8::MAX,
        }
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) length: usize,
    pub(crate) kind: FrameKind,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    /// The head that `bytes` begin with, if it has arrived whole.
    #[inline]
    pub(crate) fn at(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = bytes.first_chunk::<HEAD_BYTES>()?;
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX);
        Some(Self { length, kind: FrameKind::of(*kind), flags: *flags, stream: number31(*stream) })
    }

    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A number of 31 bits, whose first bit means nothing.
pub(crate) const fn number31(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// The first four bytes of a payload as a number of 31 bits.
pub(crate) fn first_number31(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| number31(*bytes))
}

/// Writes the head of a frame whose payload has `length` bytes, at most [`PAYLOAD_MAX`].
#[inline]
pub(crate) fn put_head(out: &mut Vec<u8>, length: usize, kind: FrameKind, flags: u8, stream: u32) {
    let [_, a, b, c] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    let [s, t, u, v] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind.number(), flags, s, t, u, v]);
}

/// Writes a block of header fields, in as many frames as it takes.
pub(crate) fn put_headers(out: &mut Vec<u8>, block: &[u8], end_stream: u8, stream: u32) {
    let (mut rest, mut kind, mut flags) = (block, FrameKind::Headers, end_stream);
    loop {
        let (part, others) = rest.split_at_checked(PAYLOAD_MAX).unwrap_or((rest, &[]));
        let last = if others.is_empty() { END_HEADERS } else { 0 };
        put_head(out, part.len(), kind, flags | last, stream);
        out.extend_from_slice(part);
        if others.is_empty() {
            return;
        }
        (rest, kind, flags) = (others, FrameKind::Continuation, 0);
    }
}

pub(crate) fn put_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    put_head(out, 4, FrameKind::Reset, 0, stream);
    out.extend_from_slice(&code.number().to_be_bytes());
}

pub(crate) fn put_go_away(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    put_head(out, 8, FrameKind::GoAway, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.number().to_be_bytes());
}

pub(crate) fn put_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    put_head(out, 4, FrameKind::WindowUpdate, 0, stream);
    out.extend_from_slice(&bytes.to_be_bytes());
}

pub(crate) fn put_ping(out: &mut Vec<u8>, flags: u8, opaque: &[u8]) {
    put_head(out, opaque.len(), FrameKind::Ping, flags, 0);
    out.extend_from_slice(opaque);
}

/// Why a stream or a connection ends (RFC 9113, 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Nothing is wrong.
    NoError,
    /// The other side broke the protocol.
    Protocol,
    /// We did.
    Internal,
    /// More bytes than the window has room for.
    FlowControl,
    /// A frame for a stream that has ended.
    StreamClosed,
    /// A frame of a length that its kind does not have.
    FrameSize,
    /// Not begun, so that it can be tried again.
    RefusedStream,
    /// Not wanted any more.
    Cancel,
    /// Header fields that cannot be read, after which none can.
    Compression,
    /// Too much of something.
    EnhanceYourCalm,
}

impl ErrorCode {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::NoError => 0,
            Self::Protocol => 1,
            Self::Internal => 2,
            Self::FlowControl => 3,
            Self::StreamClosed => 5,
            Self::FrameSize => 6,
            Self::RefusedStream => 7,
            Self::Cancel => 8,
            Self::Compression => 9,
            Self::EnhanceYourCalm => 11,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_is_written() {
        let mut out = Vec::new();
        put_head(&mut out, 0x01_02_03, FrameKind::Ping, ACK, 0x7fff_ffff);
        assert_eq!(out, [1, 2, 3, 6, 1, 0x7f, 0xff, 0xff, 0xff]);
        let head = FrameHead::at(&out).unwrap();
        assert_eq!(
            (head.length, head.kind, head.flags, head.stream),
            (0x01_02_03, FrameKind::Ping, 1, 0x7fff_ffff)
        );
        assert_eq!(FrameHead::at(&out[..8]), None);
    }

    #[test]
    fn a_long_block_goes_on_in_continuations() {
        let block = vec![7; 2 * PAYLOAD_MAX + 5];
        let mut out = Vec::new();
        put_headers(&mut out, &block, END_STREAM, 1);
        let (mut rest, mut seen) = (out.as_slice(), Vec::new());
        while let Some(head) = FrameHead::at(rest) {
            seen.push((head.kind, head.flags, head.length));
            rest = &rest[HEAD_BYTES + head.length..];
        }
        let (first, next) = (FrameKind::Headers, FrameKind::Continuation);
        assert_eq!(seen, [(first, END_STREAM, PAYLOAD_MAX), (next, 0, PAYLOAD_MAX), (next, END_HEADERS, 5)]);
    }
}
