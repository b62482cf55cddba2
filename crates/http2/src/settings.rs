//! The settings of both ends (RFC 9113, 6.5).

use crate::config::Http2Config;
use crate::flow::WINDOW_MAX;
use crate::frame::{ErrorCode, FrameKind, PAYLOAD_MAX, put_head};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// A setting: its number and its value.
const SETTING_BYTES: usize = 6;
/// The largest frame that may be allowed.
const FRAME_SIZE_LIMIT: u32 = (1 << 24) - 1;

/// What we tell the other end.
pub(crate) fn put_ours(out: &mut Vec<u8>, config: &Http2Config) {
    let ours = [
        (MAX_CONCURRENT_STREAMS, config.streams_max),
        (INITIAL_WINDOW_SIZE, config.stream_window),
        (MAX_HEADER_LIST_SIZE, config.headers_max),
    ];
    put_head(out, ours.len() * SETTING_BYTES, FrameKind::Settings, 0, 0);
    for (setting, value) in ours {
        out.extend_from_slice(&setting.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// The new window of streams if a payload has one; the rest does not matter to us, but must be lawful:
/// we send neither pushes nor large frames, and have no use for a table at the other end.
pub(crate) fn initial_window(payload: &[u8]) -> Result<Option<u32>, ErrorCode> {
    let (settings, rest) = payload.as_chunks::<SETTING_BYTES>();
    if !rest.is_empty() {
        return Err(ErrorCode::FrameSize);
    }
    let mut window = None;
    for [s, t, a, b, c, d] in settings {
        let value = u32::from_be_bytes([*a, *b, *c, *d]);
        match u16::from_be_bytes([*s, *t]) {
            ENABLE_PUSH if value > 1 => return Err(ErrorCode::Protocol),
            INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => return Err(ErrorCode::FlowControl),
            INITIAL_WINDOW_SIZE => window = Some(value),
            MAX_FRAME_SIZE => {
                let least = u32::try_from(PAYLOAD_MAX).unwrap_or(u32::MAX);
                if !(least..=FRAME_SIZE_LIMIT).contains(&value) {
                    return Err(ErrorCode::Protocol);
                }
            }
            HEADER_TABLE_SIZE | MAX_CONCURRENT_STREAMS | MAX_HEADER_LIST_SIZE => {}
            // Unknown ones are ignored.
            _ => {}
        }
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(number: u16, value: u32) -> Vec<u8> {
        [&number.to_be_bytes()[..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn the_last_window_counts_and_unlawful_values_are_refused() {
        let two = [setting(4, 7), setting(99, 1), setting(4, 9)].concat();
        assert_eq!(initial_window(&two), Ok(Some(9)));
        assert_eq!(initial_window(&setting(1, 0)), Ok(None));
        assert_eq!(initial_window(&[0; 5]), Err(ErrorCode::FrameSize));
        assert_eq!(initial_window(&setting(2, 2)), Err(ErrorCode::Protocol));
        assert_eq!(initial_window(&setting(4, 1 << 31)), Err(ErrorCode::FlowControl));
        assert_eq!(initial_window(&setting(4, (1 << 31) - 1)), Ok(Some((1 << 31) - 1)));
        for size in [16_383, 1 << 24] {
            assert_eq!(initial_window(&setting(5, size)), Err(ErrorCode::Protocol));
        }
    }
}
