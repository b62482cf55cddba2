//! Frames of HTTP/2 (RFC 9113): the kinds that a caller of one method needs.

/// Bytes of the head of a frame.
pub(super) const HEAD: usize = 9;
/// No frame is larger unless its receiver allows it, and we do not.
pub(super) const PAYLOAD_MAX: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;

/// One frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Http2Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Http2Frame<'a> {
    /// The first frame and its length; none if it is incomplete, an error if it is too large.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, ()> {
        let Some(([a, b, c, kind, flags, stream @ ..], rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).map_err(|_| ())?;
        if length > PAYLOAD_MAX {
            return Err(());
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        // The first bit is reserved.
        let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
        Ok(Some((Self { kind: *kind, flags: *flags, stream, payload }, HEAD + length)))
    }

    /// The payload without its padding.
    pub(super) fn unpadded(&self) -> &'a [u8] {
        match self.payload {
            [pad, rest @ ..] if self.flags & PADDED != 0 => {
                rest.get(..rest.len().saturating_sub(usize::from(*pad))).unwrap_or_default()
            }
            payload => payload,
        }
    }
}

/// Appends the head of a frame.
pub(super) fn head(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    let [_, length @ ..] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends a frame.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    head(out, kind, flags, stream, payload.len());
    out.extend_from_slice(payload);
}
