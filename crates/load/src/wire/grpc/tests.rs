//! What is sent, and what is made of what comes back.

use super::*;
use crate::plan::Protocol;
use crate::plan::tests::plan;

/// A connection that has heard the server's settings.
fn grpc(settings: &[u8]) -> Grpc {
    let mut grpc = Grpc::new(&plan(Protocol::Grpc));
    let mut frame = Vec::new();
    frame::put(&mut frame, frame::SETTINGS, 0, 0, settings);
    let mut out = Vec::new();
    assert!(!grpc.has_room(0), "the server's settings come first");
    assert_eq!(grpc.hear(&frame, &mut out), Ok(Heard::Aside { length: frame.len() }));
    assert_eq!(out, [0, 0, 0, frame::SETTINGS, frame::ACK, 0, 0, 0, 0]);
    grpc
}

/// The frames that a call is made of: kind, flags, stream and length.
fn frames(bytes: &[u8]) -> Vec<(u8, u8, u32, usize)> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    while let Some((frame, length)) = Frame::read(rest).unwrap() {
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

/// All answers in some bytes.
fn all(grpc: &mut Grpc, bytes: &[u8]) -> Vec<(u64, Verdict)> {
    let (mut at, mut answers) = (0, Vec::new());
    loop {
        match grpc.hear(&bytes[at..], &mut Vec::new()).unwrap() {
            Heard::Part => return answers,
            Heard::Aside { length } => at += length,
            Heard::Answer { length, number, verdict } => {
                at += length;
                answers.push((number, verdict));
            }
        }
    }
}

#[test]
fn the_first_call_says_its_fields_and_later_ones_name_them() {
    let mut grpc = grpc(&[]);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    grpc.ask(0, 7, &mut first);
    grpc.ask(1, 8, &mut second);
    let [(1, frame::END_HEADERS, 1, long), (0, frame::END_STREAM, 1, message)] = frames(&first)[..] else {
        panic!("{:?}", frames(&first))
    };
    assert_eq!(frames(&second), [(1, frame::END_HEADERS, 3, 6), (0, frame::END_STREAM, 3, message)]);
    assert!(long > 80, "{long}");
    let sent = RateLimitRequest::decode(&second[second.len() - message + MESSAGE_HEAD..]).unwrap();
    assert_eq!((sent.domain.as_str(), sent.descriptors[0].entries[0].value.as_str()), ("shop", "u08"));
}

#[test]
fn to_a_server_that_remembers_nothing_every_call_says_its_fields() {
    let mut grpc = grpc(&[0, 1, 0, 0, 0, 0]);
    for number in 0..2 {
        let mut out = Vec::new();
        grpc.ask(number, 7, &mut out);
        assert!(frames(&out)[0].3 > 80);
    }
}

#[test]
fn answers_come_in_any_order() {
    let mut grpc = grpc(&[]);
    let bytes = [answer(5, &[8, 2]), answer(1, &[8, 1]), answer(3, &[])].concat();
    let heard = all(&mut grpc, &bytes);
    assert_eq!(heard[..2], [(2, Verdict::Deny), (0, Verdict::Allow)]);
    assert!(matches!(&heard[2], (1, Verdict::Error(_))), "{heard:?}");
    let waits = Said { overall_code: 1, headers: vec![SaidHeader { key: "X-Ratelimit-Wait-Ms".to_owned() }] };
    assert_eq!(all(&mut grpc, &answer(7, &waits.encode_to_vec())), [(3, Verdict::Delay)]);
}

#[test]
fn the_bounds_of_the_server_are_kept() {
    let mut grpc = grpc(&[0, 3, 0, 0, 0, 2]);
    assert!(grpc.has_room(1) && !grpc.has_room(2), "two streams at a time");
    let mut out = Vec::new();
    let mut asked = 0;
    while grpc.has_room(0) {
        grpc.ask(asked, 0, &mut out);
        asked += 1;
    }
    assert_eq!(i64::try_from(asked).unwrap(), WINDOW_AT_FIRST / grpc.cost_of_asking());
    let mut more = Vec::new();
    frame::put(&mut more, frame::WINDOW_UPDATE, 0, 0, &100_u32.to_be_bytes());
    all(&mut grpc, &more);
    assert!(grpc.has_room(0));
}

#[test]
fn a_call_that_ends_without_a_message_is_an_error_and_a_goodbye_is_heard() {
    let mut grpc = grpc(&[]);
    let mut bytes = Vec::new();
    frame::put(&mut bytes, frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, 1, &[]);
    assert!(matches!(all(&mut grpc, &bytes)[..], [(0, Verdict::Error(_))]));
    let mut bytes = Vec::new();
    frame::put(&mut bytes, frame::GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0max_age");
    let Err(Broken::Goodbye(words)) = grpc.hear(&bytes, &mut Vec::new()) else { panic!("it goes on") };
    assert!(words.ends_with("max_age"), "{words}");
}

#[test]
fn what_is_not_http_2_is_foreign() {
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"-ERR unknown command\r\n\r\n"] {
        let heard = Grpc::new(&plan(Protocol::Grpc)).hear(bytes, &mut Vec::new());
        assert!(matches!(heard, Err(Broken::Foreign(_))), "{heard:?}");
    }
}
