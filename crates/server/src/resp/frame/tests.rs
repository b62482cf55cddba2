//! What is a command, what is the beginning of one, and what is neither.

use super::*;

/// The words of a whole command, and the bytes it took.
fn whole(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let mut words = CommandWords::new();
    match super::next(bytes, &mut words) {
        Ok(RespFrame::Command(used)) => (words.to_vec(), used),
        other => panic!("{:?} is a whole command, not {other:?}", String::from_utf8_lossy(bytes)),
    }
}

fn next(bytes: &[u8]) -> Result<RespFrame, FramingError> {
    super::next(bytes, &mut CommandWords::new())
}

fn broken(bytes: &[u8]) -> FramingError {
    next(bytes).expect_err("framing is lost")
}

#[test]
fn a_command_is_an_array_of_bulk_strings() {
    let bytes = b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$4\r\n\r\n*$\r\n*1\r\n";
    assert_eq!(whole(bytes), (vec![&b"ECHO"[..], b"", b"\r\n*$"], bytes.len() - 4));
}

#[test]
fn a_line_is_a_command_too() {
    assert_eq!(whole(b"PING\r\nPING\r\n"), (vec![&b"PING"[..]], 6));
    assert_eq!(whole(b" \techo  hi\n"), (vec![&b"echo"[..], b"hi"], 11));
}

#[test]
fn nothing_is_answered_for_nothing() {
    for (bytes, used) in [(&b"*0\r\n"[..], 4), (b"*-1\r\n", 5), (b"\r\n", 2), (b"\n", 1), (b"  \r\n", 4)] {
        assert_eq!(whole(bytes), (vec![], used));
    }
}

#[test]
fn every_beginning_of_a_command_waits_for_the_rest() {
    for bytes in [&b"*2\r\n$4\r\nECHO\r\n$12\r\nhello\r\nworld\r\n"[..], b"*-1\r\n", b"PING now\r\n"] {
        for cut in 0..bytes.len() {
            assert_eq!(next(&bytes[..cut]), Ok(RespFrame::Partial), "{cut}");
        }
        assert_eq!(whole(bytes).1, bytes.len());
    }
}

#[test]
fn what_is_no_length_is_told_at_once() {
    for bytes in [
        &b"*a\r\n"[..],
        b"*\r\n",
        b"*1\n",
        b"*1\rx",
        b"*+1\r\n",
        b"*1a\r\n",
        b"*--1\r\n",
        b"*99999999999999999",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$x\r\n",
    ] {
        assert_eq!(broken(bytes), FramingError::Length, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn arrays_do_not_nest() {
    assert_eq!(broken(b"*1\r\n*1\r\n$4\r\nPING\r\n"), FramingError::NotBulk { found: b'*' });
    assert_eq!(broken(&b"*1\r\n".repeat(1_000_000)), FramingError::NotBulk { found: b'*' });
    assert_eq!(broken(b"*2\r\n$4\r\nPING\r\n:1\r\n"), FramingError::NotBulk { found: b':' });
    let told = broken(b"*1\r\n\x00").to_string();
    assert_eq!(told, "Protocol error: expected '$', got '?'; a command is an array of bulk strings");
}

#[test]
fn lengths_are_bounded_before_anything_is_held() {
    assert_eq!(broken(b"*257\r\n"), FramingError::TooManyWords { found: 257 });
    assert_eq!(broken(b"*4294967296\r\n"), FramingError::TooManyWords { found: 4_294_967_296 });
    assert_eq!(broken(b"*1\r\n$65537\r\n"), FramingError::WordTooLong { found: 65_537 });
    let word = [&b"$65536\r\n"[..], &[b'x'; 65_536], b"\r\n"].concat();
    let four = [&b"*4\r\n"[..], &word, &word, &word, &word].concat();
    assert_eq!(broken(&four), FramingError::CommandTooLong);
    assert_eq!(
        broken(&four[..four.len() - word.len() + 8]),
        FramingError::CommandTooLong,
        "it is not waited for"
    );
    assert_eq!(whole(&[&b"*3\r\n"[..], &word, &word, &word].concat()).0.len(), 3);
}

#[test]
fn a_bulk_string_ends_where_its_length_says() {
    assert_eq!(broken(b"*1\r\n$4\r\nPINGxx"), FramingError::BulkEnd);
    assert_eq!(broken(b"*1\r\n$3\r\nPING\r\n"), FramingError::BulkEnd);
}

#[test]
fn a_line_is_bounded() {
    let long = vec![b'x'; RESP_INLINE_MAX];
    assert_eq!(next(&long[1..]), Ok(RespFrame::Partial));
    assert_eq!(broken(&long), FramingError::LineTooLong);
}

#[test]
fn other_protocols_are_told_apart() {
    assert_eq!(broken(b"\x16\x03\x01\x02\x00\x01"), FramingError::Tls);
    assert_eq!(broken(b"POST /x HTTP/1.1\r\n"), FramingError::Http);
    assert_eq!(broken(b"Host: localhost\r\n"), FramingError::Http);
}

mod beside_a_library {
    //! The library that clients are made of reads what we read, and the same.

    use proptest::prelude::*;
    use redis_protocol::resp2::decode::decode_range;
    use redis_protocol::resp2::types::RangeFrame;

    use super::*;

    fn theirs(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
        let (RangeFrame::Array(frames), used) = decode_range(bytes).ok()?? else { return None };
        let word = |frame: &RangeFrame| {
            let RangeFrame::BulkString((from, to)) = frame else { return None };
            Some(&bytes[*from..*to])
        };
        Some((frames.iter().map(word).collect::<Option<_>>()?, used))
    }

    proptest! {
        #[test]
        fn whole_commands_are_the_same(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..12),
            behind in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in &words {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(&behind);
            let (ours, used) = whole(&bytes);
            prop_assert_eq!(&ours, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            prop_assert_eq!(theirs(&bytes), Some((ours, used)));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(RespFrame::Command(used)) = next(&bytes) {
                prop_assert!(used > 0 && used <= bytes.len());
            }
        }

        #[test]
        fn no_bytes_like_commands_are_too_strange(text in "[*$:\r\n0-9a-]{0,60}") {
            if let Ok(RespFrame::Command(used)) = next(text.as_bytes()) {
                prop_assert!(used > 0 && used <= text.len());
            }
        }
    }
}
