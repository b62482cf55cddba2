//! Bytes → the words of a command.
//!
//! A command is an array of bulk strings, or a line of words as a person types
//! it. Nothing else is a command, so nothing nests.
//!
//! Invariants: words are slices of what was read; a command of usual length is
//! read without an allocation. When more of a command arrives only its lengths
//! are read again, never its words.
//!
//! Deliberately not here: other RESP types, which only replies have.
//! docs/decisions/005 says why it is written by hand.

use smallvec::SmallVec;

use crate::bounds::{RESP_COMMAND_MAX, RESP_INLINE_MAX, RESP_WORD_MAX, RESP_WORDS_MAX};

/// Most commands have no more words; more cost an allocation.
const WORDS_USUAL: usize = 8;
/// No length that we accept takes more bytes, with its mark and its end.
const LENGTH_BYTES_MAX: usize = 16;

/// The words of a command, its name first.
pub(super) type CommandWords<'a> = SmallVec<[&'a [u8]; WORDS_USUAL]>;

/// What some bytes begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RespFrame {
    /// A command, and how many bytes it took.
    Command(usize),
    /// The beginning of a command.
    Partial,
}

/// Why it is unknown where the next command begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FramingError {
    #[error("Protocol error: a length must be a number and CRLF")]
    Length,
    #[error("Protocol error: an array of {found} is too long; send at most {RESP_WORDS_MAX} words")]
    TooManyWords { found: u64 },
    #[error("Protocol error: a word of {found} bytes is too long; send at most {RESP_WORD_MAX}")]
    WordTooLong { found: u64 },
    #[error("Protocol error: the command is too long; send at most {RESP_COMMAND_MAX} bytes")]
    CommandTooLong,
    #[error("Protocol error: expected '$', got '{}'; a command is an array of bulk strings", shown(*found))]
    NotBulk { found: u8 },
    #[error("Protocol error: a bulk string must end with CRLF where its length says")]
    BulkEnd,
    #[error("Protocol error: a line of more than {RESP_INLINE_MAX} bytes is too long")]
    LineTooLong,
    #[error("Protocol error: this looks like TLS, but this port does not speak it")]
    Tls,
    #[error("Protocol error: this is RESP and not HTTP; --http says where that is")]
    Http,
}

/// A byte as an error can show it.
fn shown(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { '?' }
}

/// Reads the command that `bytes` begin with into `words`, which were empty. A command without words needs no
/// answer; of the beginning of one they hold what has arrived, which nobody needs.
pub(super) fn next<'a>(bytes: &'a [u8], words: &mut CommandWords<'a>) -> Result<RespFrame, FramingError> {
    match bytes.first() {
        None => Ok(RespFrame::Partial),
        Some(b'*') => array(bytes, words),
        // A TLS handshake begins with it, and no command does.
        Some(0x16) => Err(FramingError::Tls),
        Some(_) => line(bytes, words),
    }
}

fn array<'a>(bytes: &'a [u8], words: &mut CommandWords<'a>) -> Result<RespFrame, FramingError> {
    let Some((count, mut at)) = length(bytes, 0)? else { return Ok(RespFrame::Partial) };
    let Some(count) = count else { return Ok(RespFrame::Command(at)) };
    if count > RESP_WORDS_MAX {
        return Err(FramingError::TooManyWords { found: count });
    }
    for _ in 0..count {
        if let Some((word, end)) = short_word(bytes, at) {
            words.push(word);
            at = end;
            continue;
        }
        match bytes.get(at) {
            None => return partial(at),
            Some(b'$') => {}
            Some(found) => return Err(FramingError::NotBulk { found: *found }),
        }
        let Some((word, begin)) = length(bytes, at)? else { return partial(at) };
        let word = word.ok_or(FramingError::Length)?;
        let size = usize::try_from(word).ok().filter(|size| *size <= RESP_WORD_MAX);
        let end = begin + size.ok_or(FramingError::WordTooLong { found: word })?;
        // As much of the end as has arrived must be right.
        let Some(word) = bytes.get(begin..end) else { return partial(end) };
        match bytes.get(end..).unwrap_or_default() {
            [b'\r', b'\n', ..] => words.push(word),
            [] | [b'\r'] => return partial(end),
            _ => return Err(FramingError::BulkEnd),
        }
        at = end + 2;
    }
    if at > RESP_COMMAND_MAX { Err(FramingError::CommandTooLong) } else { Ok(RespFrame::Command(at)) }
}

/// A whole word of fewer than a hundred bytes, as nearly all are, and where what follows it begins. None if it
/// is anything else, which the caller then finds out.
#[inline]
fn short_word(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    let (size, begin) = match *bytes.get(at..)? {
        [b'$', ones, b'\r', b'\n', ..] => (digit(ones)?, at + 4),
        [b'$', tens, ones, b'\r', b'\n', ..] => (digit(tens)? * 10 + digit(ones)?, at + 5),
        _ => return None,
    };
    let (word, end) = bytes.get(begin..begin + size + 2)?.split_at_checked(size)?;
    (end == b"\r\n").then_some((word, begin + size + 2))
}

/// The rest is to come, unless the command is already known to be too long.
fn partial(known: usize) -> Result<RespFrame, FramingError> {
    if known > RESP_COMMAND_MAX { Err(FramingError::CommandTooLong) } else { Ok(RespFrame::Partial) }
}

/// The length after the mark at `at` (none if it is negative), and where its
/// content begins; nothing if the length has not arrived whole.
fn length(bytes: &[u8], at: usize) -> Result<Option<(Option<u64>, usize)>, FramingError> {
    // The number of words nearly always.
    if let Some([_, digit @ b'0'..=b'9', b'\r', b'\n', ..]) = bytes.get(at..) {
        return Ok(Some((Some(u64::from(digit - b'0')), at + 4)));
    }
    let digits = bytes.get(at + 1..).unwrap_or_default();
    let (is_negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, digits),
    };
    let mut value: u64 = 0;
    for (count, byte) in digits.iter().take(LENGTH_BYTES_MAX).enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + u64::from(byte - b'0'),
            b'\r' if count > 0 => {
                return match digits.get(count + 1) {
                    Some(b'\n') if is_negative => Ok(Some((None, at + count + 4))),
                    Some(b'\n') => Ok(Some((Some(value), at + count + 3))),
                    Some(_) => Err(FramingError::Length),
                    None => Ok(None),
                };
            }
            _ => return Err(FramingError::Length),
        }
    }
    if digits.len() < LENGTH_BYTES_MAX { Ok(None) } else { Err(FramingError::Length) }
}

fn line<'a>(bytes: &'a [u8], words: &mut CommandWords<'a>) -> Result<RespFrame, FramingError> {
    let looked_at = bytes.get(..RESP_INLINE_MAX).unwrap_or(bytes);
    let Some(end) = looked_at.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < RESP_INLINE_MAX {
            Ok(RespFrame::Partial)
        } else {
            Err(FramingError::LineTooLong)
        };
    };
    let text = looked_at.get(..end).unwrap_or_default();
    words.extend(text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()));
    let is_request = words.len() == 3 && words.last().is_some_and(|word| word.starts_with(b"HTTP/"));
    let is_host = words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"host:"));
    // Otherwise a page in a browser could send us commands in its body.
    if is_request || is_host { Err(FramingError::Http) } else { Ok(RespFrame::Command(end + 1)) }
}

#[cfg(test)]
mod tests;
