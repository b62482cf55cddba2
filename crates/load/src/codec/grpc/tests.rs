//! What is sent, and what becomes of the server's frames.

use super::*;
use crate::plan::tests::{check, plan};
use crate::protocol::LoadProtocol;

/// A connection that has received the server's settings.
fn grpc(settings: &[u8]) -> GrpcCodec {
    let mut grpc = GrpcCodec::new(&plan(LoadProtocol::Grpc), &check());
    let mut frame = Vec::new();
    frame::put(&mut frame, frame::SETTINGS, 0, 0, settings);
    let mut out = Vec::new();
    assert!(!grpc.has_room(0), "the server's settings come first");
    assert_eq!(grpc.decode(&frame, &mut out), Ok(Decoded::Control { length: frame.len() }));
    assert_eq!(out, [0, 0, 0, frame::SETTINGS, frame::ACK, 0, 0, 0, 0]);
    grpc
}

/// The frames that a call is made of: kind, flags, stream and length.
fn frames(bytes: &[u8]) -> Vec<(u8, u8, u32, usize)> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    while let Some((frame, length)) = Http2Frame::read(rest).unwrap() {
        frames.push((frame.kind, frame.flags, frame.stream, frame.payload.len()));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    frames
}

fn answer(stream: u32, reply: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, frame::HEADERS, frame::END_HEADERS, stream, &[0x88]);
    let message = [&[0, 0, 0, 0, u8::try_from(reply.len()).unwrap()][..], reply].concat();
    frame::put(&mut out, frame::DATA, 0, stream, &message);
    frame::put(&mut out, frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, stream, &[]);
    out
}

/// All responses in some bytes.
fn all(grpc: &mut GrpcCodec, bytes: &[u8]) -> Vec<(u64, ResponseVerdict)> {
    let (mut at, mut answers) = (0, Vec::new());
    loop {
        match grpc.decode(&bytes[at..], &mut Vec::new()).unwrap() {
            Decoded::Incomplete => return answers,
            Decoded::Control { length } => at += length,
            Decoded::Response { length, number, verdict } => {
                at += length;
                answers.push((number, verdict));
            }
        }
    }
}

#[test]
fn the_first_call_spells_its_fields_and_later_ones_refer_to_them() {
    let mut grpc = grpc(&[]);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    grpc.encode(0, 7, &mut first);
    grpc.encode(1, 8, &mut second);
    let [(1, frame::END_HEADERS, 1, long), (0, frame::END_STREAM, 1, message)] = frames(&first)[..] else {
        panic!("{:?}", frames(&first))
    };
    assert_eq!(frames(&second), [(1, frame::END_HEADERS, 3, 6), (0, frame::END_STREAM, 3, message)]);
    assert!(long > 80, "{long}");
    let sent = RateLimitRequest::decode(&second[second.len() - message + MESSAGE_HEAD..]).unwrap();
    assert_eq!((sent.domain.as_str(), sent.descriptors[0].entries[0].value.as_str()), ("shop", "u08"));
}

#[test]
fn to_a_server_without_a_table_every_call_spells_its_fields() {
    let mut grpc = grpc(&[0, 1, 0, 0, 0, 0]);
    for number in 0..2 {
        let mut out = Vec::new();
        grpc.encode(number, 7, &mut out);
        assert!(frames(&out)[0].3 > 80);
    }
}

#[test]
fn responses_come_in_any_order() {
    let mut grpc = grpc(&[]);
    let bytes = [answer(5, &[8, 2]), answer(1, &[8, 1]), answer(3, &[])].concat();
    let responses = all(&mut grpc, &bytes);
    assert_eq!(responses[..2], [(2, ResponseVerdict::Deny), (0, ResponseVerdict::Unlimited)]);
    assert!(matches!(&responses[2], (1, ResponseVerdict::Error(_))), "{responses:?}");
    let statuses = vec![ResponseStatus { current_limit: Some(CurrentLimit {}) }];
    let headers = vec![ResponseHeader { key: "X-Ratelimit-Wait-Ms".to_owned() }];
    for (headers, verdict) in [(Vec::new(), ResponseVerdict::Allow), (headers, ResponseVerdict::Delay)] {
        let fields = ResponseFields { overall_code: 1, statuses: statuses.clone(), headers };
        assert_eq!(all(&mut grpc, &answer(7, &fields.encode_to_vec())), [(3, verdict)]);
    }
}

#[test]
fn the_bounds_of_the_server_are_kept() {
    let mut grpc = grpc(&[0, 3, 0, 0, 0, 2]);
    assert!(grpc.has_room(1) && !grpc.has_room(2), "two streams at a time");
    let mut out = Vec::new();
    let mut sent = 0;
    while grpc.has_room(0) {
        grpc.encode(sent, 0, &mut out);
        sent += 1;
    }
    assert_eq!(i64::try_from(sent).unwrap(), INITIAL_WINDOW / grpc.request_len());
    let mut more = Vec::new();
    frame::put(&mut more, frame::WINDOW_UPDATE, 0, 0, &100_u32.to_be_bytes());
    all(&mut grpc, &more);
    assert!(grpc.has_room(0));
}

#[test]
fn a_call_without_a_message_is_an_error_and_goaway_closes_the_connection() {
    let mut grpc = grpc(&[]);
    let mut bytes = Vec::new();
    frame::put(&mut bytes, frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, 1, &[]);
    assert!(matches!(all(&mut grpc, &bytes)[..], [(0, ResponseVerdict::Error(_))]));
    let mut bytes = Vec::new();
    frame::put(&mut bytes, frame::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0max_age");
    let Err(ConnectionFailure::Closed(words)) = grpc.decode(&bytes, &mut Vec::new()) else {
        panic!("it stays open")
    };
    assert!(words.ends_with("max_age"), "{words}");
}

#[test]
fn what_is_not_http_2_is_the_wrong_protocol() {
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"-ERR unknown command\r\n\r\n"] {
        let decoded = GrpcCodec::new(&plan(LoadProtocol::Grpc), &check()).decode(bytes, &mut Vec::new());
        assert!(matches!(decoded, Err(ConnectionFailure::WrongProtocol(_))), "{decoded:?}");
    }
}
