//! Header fields in every representation that another encoder knows.

use httlib_hpack::Encoder;
use proptest::prelude::*;
use tollgate_http2::{Event, RequestPath};

use crate::server::EchoServer;

/// Fields as they are sent: name, value and representation.
type Fields = Vec<(Vec<u8>, Vec<u8>, u8)>;

fn fields() -> impl Strategy<Value = Fields> {
    // Few names and few values, so that tables are used; any byte that a value may have.
    let name = prop_oneof!["[a-c]{1,2}", "x-[a-z0-9_.~!#$%&'*+|^`-]{1,40}", Just("content-type".to_owned())];
    let value = prop_oneof![
        proptest::collection::vec(
            any::<u8>().prop_filter("ends a line", |byte| ![0, 10, 13].contains(byte)),
            0..60
        ),
        "[0-9a-zA-Z /:,;=-]{0,300}".prop_map(String::into_bytes),
        Just(b"same".to_vec()),
    ];
    let flags = prop_oneof![
        Just(Encoder::BEST_FORMAT),
        Just(Encoder::WITH_INDEXING),
        Just(Encoder::NEVER_INDEXED),
        Just(Encoder::WITH_INDEXING | Encoder::HUFFMAN_NAME | Encoder::HUFFMAN_VALUE),
        Just(Encoder::HUFFMAN_NAME),
        Just(Encoder::HUFFMAN_VALUE),
        Just(0),
    ];
    let field = (name, value, flags).prop_map(|(name, value, flags)| (name.into_bytes(), value, flags));
    proptest::collection::vec(field, 0..12)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn what_another_encoder_writes_is_read(calls in proptest::collection::vec((fields(), 0..4_u32), 1..12)) {
        let (mut server, mut encoder) = (EchoServer::new(), Encoder::default());
        server.receive(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat());
        for (place, (fields, size)) in calls.iter().enumerate() {
            let mut block = Vec::new();
            if *size > 0 {
                encoder.update_max_dynamic_size(size * 1_365, &mut block).unwrap();
            }
            let pseudo = [(":method", "GET"), (":scheme", "https"), (":path", "/elsewhere"), (":authority", "a|b")];
            for (name, value) in pseudo {
                let flags = Encoder::WITH_INDEXING | Encoder::BEST_FORMAT;
                let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), flags);
                encoder.encode(field, &mut block).unwrap();
            }
            for field in fields {
                encoder.encode(field.clone(), &mut block).unwrap();
            }
            let id = u32::try_from(2 * place + 1).unwrap();
            server.receive(&frame(1, 5, id, &block));
            let head = server.heads.get(&id);
            prop_assert!(head.is_some(), "call {place} was not understood: {block:?}");
            let head = head.unwrap();
            prop_assert_eq!(&head.path, &RequestPath::Other(b"/elsewhere"[..].into()));
            let seen: Vec<_> = head.fields.iter().collect();
            let sent: Vec<_> = fields.iter().map(|(name, value, _)| (name.as_slice(), value.as_slice())).collect();
            prop_assert_eq!(seen, sent);
        }
    }

    #[test]
    fn any_bytes_are_header_fields_or_an_error(block in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut server = EchoServer::new();
        server.receive(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat());
        let bytes = frame(1, 5, 1, &block);
        let mut input = bytes.as_slice();
        // A head, an error of the stream or one of the connection.
        let event = server.http2.next_event(&mut input);
        let is_request = matches!(event, Some(Event::Request { .. }));
        let output = server.http2.output().len();
        prop_assert!(is_request || output > 0);
    }
}
