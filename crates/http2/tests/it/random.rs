//! Frames at random: whatever comes, nothing panics, nothing grows, and every frame is accounted for.

use proptest::prelude::*;

use crate::server::EchoServer;

/// A frame that is likely to be lawful, so that many go on.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = prop_oneof![Just(0_u32), (0..20_u32).prop_map(|n| 2 * n + 1), any::<u32>()];
    let number = prop_oneof![Just(0_u32), 0..70_000_u32, any::<u32>()].prop_map(|n| n.to_be_bytes().to_vec());
    let setting = (0..8_u16, prop_oneof![0..70_000_u32, any::<u32>()])
        .prop_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    let head = prop_oneof![
        // POST, http, a known path; then once more by the table.
        Just(b"\x83\x86\x44\x06/known\x0f\x10\x10application/grpc".to_vec()),
        Just(b"\x83\x86\x84".to_vec()),
        Just(b"\x83\x86\xbe".to_vec()),
        Just(b"\x00\x01t\x01v".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let bytes = proptest::collection::vec(any::<u8>(), 0..300);
    let body = prop_oneof![
        4 => (Just(0_u8), bytes),
        8 => (Just(1_u8), head.clone()),
        1 => (Just(2_u8), Just(vec![0; 5])),
        2 => (Just(3_u8), number.clone()),
        2 => (Just(4_u8), setting),
        1 => (Just(6_u8), Just(vec![9; 8])),
        1 => (Just(7_u8), Just(vec![0; 8])),
        3 => (Just(8_u8), number),
        1 => (Just(9_u8), head),
        1 => (any::<u8>(), Just(vec![])),
    ];
    let flags = prop_oneof![6 => Just(0x5_u8), 4 => Just(0x4_u8), 2 => Just(0_u8), 1 => any::<u8>()];
    (body, flags, stream).prop_map(|((kind, payload), flags, stream)| {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[..], &[kind, flags], &stream.to_be_bytes(), &payload].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_panics_and_nothing_grows(frames in proptest::collection::vec(frame(), 1..60), cut in 1..400_usize) {
        let mut server = EchoServer::new();
        server.receive(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat());
        for piece in frames.concat().chunks(cut) {
            server.http2.output().clear();
            server.receive(piece);
            // Answers are what was sent, and some bytes besides for each frame.
            let output = server.http2.output().len();
            prop_assert!(output < 40_000, "{output} bytes");
            if server.http2.has_failed() {
                let goodbye = server.http2.output().clone();
                server.receive(&[0; 100]);
                prop_assert_eq!(&goodbye, server.http2.output(), "nothing comes after a goodbye");
                return Ok(());
            }
        }
        // It goes on: a new call is answered, or refused because it comes within a block.
        if !server.is_within_frame() {
            server.http2.output().clear();
            server.receive(b"\0\0\x03\x01\x05\x7f\xff\xff\xff\x83\x86\x84");
            prop_assert!(!server.http2.output().is_empty());
        }
    }
}
