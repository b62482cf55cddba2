//! Whole connections, read in pieces of every size.

use std::future::poll_fn;

use super::*;

const CLUSTER: &[u8] = b"outbound|8081||ratelimit.default.svc.cluster.local";
const HOST: &[u8] = b"outbound-8081--ratelimit.default.svc.cluster.local";

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// `:method`, `:scheme`, an authority to be indexed, and a header after it.
fn block(authority: &[u8]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x41];
    hpack::put_text(&mut block, authority);
    block.extend_from_slice(b"\x40\x02te\x08trailers");
    block
}

/// A connection: settings, a call, its message, and another call by the dynamic table.
fn connection(authority: &[u8], flags: u8, before: &[u8], after: &[u8]) -> Vec<u8> {
    let headers = [before, &block(authority), after].concat();
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, &[0, 3, 0, 0, 0, 100]),
        frame(HEADERS, 4 | flags, &headers),
        frame(0, 1, &[7; 300]),
        frame(HEADERS, 4, &[0x83, 0x86, 0xbf, 0xbe]),
    ]
    .concat()
}

/// What is read of `bytes` that arrive and are taken in pieces of these sizes.
async fn read(bytes: &[u8], arriving: usize, taken: usize) -> Vec<u8> {
    let mut io = Pieces { rest: bytes.to_vec(), size: arriving };
    let mut filter = LenientAuthority::default();
    let (mut all, mut piece) = (Vec::new(), vec![0; taken]);
    loop {
        let mut buf = ReadBuf::new(&mut piece);
        poll_fn(|cx| filter.poll_read(&mut io, cx, &mut buf)).await.unwrap();
        match buf.filled() {
            [] => return all,
            read => all.extend_from_slice(read),
        }
    }
}

/// A reader that gives at most so many bytes at once.
struct Pieces {
    rest: Vec<u8>,
    size: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.size.min(self.rest.len()).min(buf.remaining());
        buf.put_slice(&self.rest[..read]);
        self.rest.drain(..read);
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn an_authority_that_is_none_is_changed_wherever_the_bytes_are_cut() {
    let (sent, expected) = (connection(CLUSTER, 0, b"", b""), connection(HOST, 0, b"", b""));
    for arriving in 1..sent.len() {
        assert_eq!(read(&sent, arriving, 8_192).await, expected, "arriving by {arriving}");
    }
    for taken in [1, 2, 8, 9, 10, 100] {
        assert_eq!(read(&sent, 50, taken).await, expected, "taken by {taken}");
    }
}

#[tokio::test]
async fn an_authority_that_is_one_and_bytes_that_are_no_frames_go_through() {
    for authority in [b"localhost:8081".as_slice(), b"[::1]:8081", b"ratelimit_cluster", b""] {
        let sent = connection(authority, 0, b"", b"");
        for arriving in [1, 7, 64, 10_000] {
            assert_eq!(read(&sent, arriving, 8_192).await, sent);
        }
    }
    let garbage: Vec<u8> = (0..5_000_u32).map(|n| u8::try_from(n * 31 % 251).unwrap()).collect();
    assert_eq!(read(&garbage, 100, 8_192).await, garbage);
    let large = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(HEADERS, 4, &[0x41; 20_000])].concat();
    assert_eq!(read(&large, 1_000, 8_192).await, large, "h2 refuses it by its size");
}

#[tokio::test]
async fn padding_and_priority_are_passed_over() {
    let flags = PADDED | PRIORITY;
    let (before, after) = (&[3, 0, 0, 0, 0, 16], &[0, 0, 0]);
    let sent = connection(CLUSTER, flags, before, after);
    assert_eq!(read(&sent, 10_000, 8_192).await, connection(HOST, flags, before, after));
}

#[tokio::test]
async fn a_connection_that_ends_within_a_frame_is_read_to_its_end() {
    let sent = connection(CLUSTER, 0, b"", b"");
    let cut = &sent[..60];
    assert_eq!(read(cut, 10_000, 8_192).await, cut);
}

mod beside_a_library {
    //! An HPACK codec that is not ours writes what goes in and reads what comes out.

    use futures_util::FutureExt as _;
    use httlib_hpack::{Decoder, Encoder};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Bits of the encoder's flags: Huffman or not, indexed or not, by reference or literally.
    const FLAGS: u8 = 0x20;

    /// A name, a value and the encoder's flags.
    type EncodedHeader = (String, String, u8);

    fn encode(encoder: &mut Encoder<'_>, headers: &[EncodedHeader]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value, flags) in headers {
            let header = (name.clone().into_bytes(), value.clone().into_bytes(), *flags);
            encoder.encode(header, &mut block).expect("it can be encoded");
        }
        block
    }

    fn decode(decoder: &mut Decoder<'_>, block: &[u8]) -> Vec<(String, String)> {
        let (mut block, mut headers) = (block.to_vec(), Vec::new());
        decoder.decode(&mut block, &mut headers).expect("it can be decoded");
        let text = |bytes| String::from_utf8(bytes).expect("it is text");
        headers.into_iter().map(|(name, value, _)| (text(name), text(value))).collect()
    }

    /// What `h2` is to see of an authority.
    fn lawful(authority: &str) -> String {
        if authority.is_empty() || Authority::try_from(authority).is_ok() {
            return authority.to_owned();
        }
        authority.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
    }

    fn header() -> impl Strategy<Value = EncodedHeader> {
        let name = prop_oneof!["[a-z][a-z-]{0,12}", Just(":path".to_owned()), Just(":method".to_owned())];
        (name, "[ -~]{0,200}", 0..FLAGS)
    }

    proptest! {
        /// The backslash has a code of 19 bits, which the filter does not read;
        /// `h2` refuses such a call.
        #[test]
        fn nothing_changes_but_an_authority_that_is_none(
            authorities in vec(("[ -\\[\\]-~]{0,80}", 0..FLAGS), 1..5),
            before in vec(header(), 0..6),
            after in vec(header(), 0..6),
            arriving in 1..400_usize,
        ) {
            let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
            let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            let mut expected = Vec::new();
            // Blocks of one connection share the dynamic table.
            for (authority, flags) in authorities {
                let call = [&before[..], &[(":authority".to_owned(), authority, flags)], &after].concat();
                sent.extend(frame(HEADERS, 4, &encode(&mut encoder, &call)));
                let seen = |(name, value, _): EncodedHeader| match name.as_str() {
                    ":authority" => (name, lawful(&value)),
                    _ => (name, value),
                };
                expected.push(call.into_iter().map(seen).collect::<Vec<_>>());
            }
            let read = read(&sent, arriving, 8_192).now_or_never().expect("nothing waits");
            let mut rest = &read[PREFACE_BYTES..];
            for expected in expected {
                let frame = RawFrame::at(rest).expect("a frame comes whole");
                prop_assert_eq!(decode(&mut decoder, frame.payload), expected);
                rest = &rest[HEAD_BYTES + frame.payload.len()..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
