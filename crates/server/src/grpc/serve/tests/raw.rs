//! Callers whose every byte is known.

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::bounds::{BODY_WAIT_MAX, GRPC_MESSAGE_MAX, LINGER_MAX, PING_EVERY, PING_WAIT_MAX};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The kinds of frames that are looked for.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const GO_AWAY: u8 = 7;

fn served() -> TestConnection {
    let serve = ServeGrpc::new(Grpc::new(testing::service("domain: d\n")), None, None, None);
    connect(serve, &ConnectionLimit::new(10, 10), 1 << 20)
}

fn frame(kind: u8, flags: u8, stream: impl Into<u32>, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.into().to_be_bytes(), payload].concat()
}

/// The head of a call: POST, http, an authority, a path and a content type, none of it kept.
fn head(authority: &[u8]) -> Vec<u8> {
    head_of(authority, super::super::super::SHOULD_RATE_LIMIT, b"application/grpc")
}

fn head_of(authority: &[u8], path: &str, content_type: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| [&[u8::try_from(text.len()).unwrap()], text].concat();
    let path = text(path.as_bytes());
    [b"\x83\x86\x01", &text(authority)[..], b"\x04", &path, b"\x0f\x10", &text(content_type)].concat()
}

fn health_check() -> Vec<u8> {
    head_of(b"a", "/grpc.health.v1.Health/Check", b"application/grpc")
}

/// A message with the domain `d` and an empty descriptor.
const MESSAGE: &[u8] = &[0, 0, 0, 0, 5, 0x0A, 1, b'd', 0x12, 0];

/// The kinds and streams of the frames that come, until `count` of them have ended their stream.
async fn until_ended(io: &mut DuplexStream, count: usize) -> Vec<(u8, u8, Vec<u8>)> {
    let (mut frames, mut ended) = (Vec::new(), 0);
    while ended < count {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.unwrap();
        let [_, a, b, kind, flags, _, _, _, stream] = head;
        let mut payload = vec![0; usize::from(a) * 256 + usize::from(b)];
        io.read_exact(&mut payload).await.unwrap();
        ended += usize::from(kind <= HEADERS && flags & 1 == 1);
        frames.push((kind, stream, payload));
    }
    frames
}

#[tokio::test(start_paused = true)]
async fn an_authority_may_be_anything_wherever_the_bytes_are_cut() {
    let authorities: [&[u8]; 4] =
        [b"outbound|8081||ratelimit.default.svc.cluster.local", b"/run/rls.sock", b"", b"a b%\xff"];
    let calls = authorities.iter().zip([1_u8, 3, 5, 7]).flat_map(|(authority, stream)| {
        [frame(1, 4, stream, &head(authority)), frame(0, 1, stream, MESSAGE)].concat()
    });
    let bytes = [PREFACE.to_vec(), calls.collect()].concat();
    for size in [1, 2, 9, 10, 50, bytes.len()] {
        let TestConnection { mut io, stop: _stop, served: _served } = served();
        for piece in bytes.chunks(size) {
            io.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let frames = until_ended(&mut io, 4).await;
        let answered: Vec<u8> = frames.iter().filter(|frame| frame.0 == DATA).map(|frame| frame.1).collect();
        assert_eq!(answered, [1, 3, 5, 7], "in pieces of {size}");
        let trailers = frames.iter().filter(|frame| frame.2.ends_with(b"grpc-status\x010")).count();
        assert_eq!(trailers, 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_may_come_in_pieces_and_with_padding_but_not_for_ever() {
    let TestConnection { mut io, stop: _stop, served: _served } = served();
    let (first, second) = MESSAGE.split_at(4);
    let padded = [&[2], first, &[0, 0]].concat();
    io.write_all(&[PREFACE, &frame(1, 4, 1_u8, &head(b"a")), &frame(0, 8, 1_u8, &padded)].concat())
        .await
        .unwrap();
    // One that never goes on, and one that does after some seconds.
    io.write_all(&[frame(1, 4, 3_u8, &head(b"a")), frame(0, 0, 3_u8, first)].concat()).await.unwrap();
    tokio::time::sleep(BODY_WAIT_MAX / 2).await;
    io.write_all(&[frame(0, 0, 1_u8, &[]), frame(0, 1, 1_u8, second)].concat()).await.unwrap();
    let frames = until_ended(&mut io, 1).await;
    assert_eq!(frames.last().unwrap().1, 1);
    let before = Instant::now();
    let frames = until_ended(&mut io, 1).await;
    let (kind, stream, fields) = frames.last().unwrap();
    let text = String::from_utf8_lossy(fields);
    assert!((*kind, *stream) == (HEADERS, 3) && text.contains("grpc-status\x014"), "{text}");
    assert!((4..=7).contains(&before.elapsed().as_secs()), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_message_as_long_as_allowed_comes_through_its_windows_and_a_longer_one_is_refused() {
    let TestConnection { io, stop: _stop, served: _served } = served();
    let (send, driver) =
        client::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(driver);
    // The domain, and a descriptor of one field that nobody knows.
    for (bytes, status) in [(GRPC_MESSAGE_MAX, None), (GRPC_MESSAGE_MAX + 1, Some("8"))] {
        let padding = bytes - 3 - 2 - 1 - 3;
        let length =
            |n: usize| [n & 0x7f | 0x80, (n >> 7) & 0x7f | 0x80, n >> 14].map(|n| u8::try_from(n).unwrap());
        let message = [&[0x0A, 1, b'd', 0x12, 0, 0x7A][..], &length(padding), &vec![0; padding]].concat();
        assert_eq!(message.len(), bytes);
        let head = u32::try_from(bytes).unwrap().to_be_bytes();
        let body = Bytes::from([&[0][..], &head, &message].concat());
        let (response, is_refused) = call(&send, super::super::super::SHOULD_RATE_LIMIT, &body).await;
        assert_eq!(is_refused, status.is_some(), "{bytes} bytes");
        if !is_refused {
            let trailers = response.into_body().collect().await.unwrap().trailers().cloned();
            assert_eq!(trailers.unwrap()["grpc-status"], "0");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_breaks_the_protocol_is_told_and_can_read_why() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[PREFACE, &[0; 9]].concat()] {
        let TestConnection { mut io, stop: _stop, served } = served();
        let before = Instant::now();
        io.write_all(bytes).await.unwrap();
        let mut said = Vec::new();
        io.read_to_end(&mut said).await.unwrap();
        let goodbye = &said[said.len() - 17..];
        assert_eq!((goodbye[3], goodbye[16]), (GO_AWAY, 1), "PROTOCOL_ERROR");
        // It may go on talking for a moment, and then nobody listens any more.
        io.write_all(bytes).await.unwrap();
        served.await.unwrap();
        assert_eq!(before.elapsed().as_secs(), LINGER_MAX.as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_is_pinged_and_who_does_not_answer_is_gone() {
    let TestConnection { mut io, stop: _stop, served } = served();
    let start = Instant::now();
    io.write_all(PREFACE).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Half of a frame is no sign of life.
    io.write_all(&frame(1, 4, 1_u8, &[0; 10])[..12]).await.unwrap();
    let mut said = Vec::new();
    io.read_to_end(&mut said).await.unwrap();
    assert_eq!(said[said.len() - 17 + 3], 6, "the last that was said is a ping");
    served.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), (PING_EVERY + PING_WAIT_MAX).as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_says_goodbye_and_waits_for_calls_that_have_begun() {
    let TestConnection { mut io, stop, served } = served();
    let (first, second) = MESSAGE.split_at(4);
    io.write_all(&[PREFACE, &frame(1, 4, 1_u8, &head(b"a")), &frame(0, 0, 1_u8, first)].concat())
        .await
        .unwrap();
    tokio::task::yield_now().await;
    stop.send_replace(true);
    // The goodbye comes with a ping; whoever answers it knows that no call begins any more.
    let mut said = vec![0; 27 + 13 + 9 + 17 + 17];
    io.read_exact(&mut said).await.unwrap();
    let ping = said.split_off(said.len() - 8);
    io.write_all(&[frame(6, 1, 0_u8, &ping), frame(0, 1, 1_u8, second)].concat()).await.unwrap();
    let mut rest = Vec::new();
    io.read_to_end(&mut rest).await.unwrap();
    assert_eq!((rest[3], &rest[9..17]), (GO_AWAY, &[0, 0, 0, 1, 0, 0, 0, 0][..]));
    assert!(rest.ends_with(b"grpc-status\x010"));
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_tonic_answers_goes_on_as_soon_as_the_window_opens() {
    let TestConnection { mut io, stop: _stop, served: _served } = served();
    // A window of three bytes, of which the answer has more.
    let settings = frame(4, 0, 0_u8, &[0, 4, 0, 0, 0, 3]);
    let call = [frame(1, 4, 1_u8, &health_check()), frame(0, 1, 1_u8, &[0; 5])].concat();
    io.write_all(&[&PREFACE[..24], &settings, &call].concat()).await.unwrap();
    let mut said = Vec::new();
    while !said.windows(9).any(|head| head == [0, 0, 3, DATA, 0, 0, 0, 0, 1]) {
        io.read_buf(&mut said).await.unwrap();
    }
    let before = Instant::now();
    io.write_all(&frame(8, 0, 1_u8, &[0, 0, 1, 0])).await.unwrap();
    let mut last = Vec::new();
    while !last.windows(12).any(|text| text == b"grpc-status\x01") {
        io.read_buf(&mut last).await.unwrap();
    }
    assert!(before.elapsed() < Duration::from_secs(1), "after {:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_window_of_a_connection_opens_again_however_its_calls_end() {
    let TestConnection { mut io, stop: _stop, served: _served } = served();
    io.write_all(PREFACE).await.unwrap();
    let (calls, bytes) = (1_500_u32, vec![0; 900]);
    for call in 0..calls {
        let stream = 2 * call + 1;
        let head = frame(1, 4, stream, &health_check());
        let rest = [frame(0, 0, stream, &bytes), frame(3, 0, stream, &[0, 0, 0, 8])].concat();
        io.write_all(&[head, rest].concat()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let last = 2 * calls + 1;
    io.write_all(&[frame(1, 4, last, &head(b"a")), frame(0, 1, last, MESSAGE)].concat()).await.unwrap();
    let frames = until_ended(&mut io, 1).await;
    assert!(!frames.iter().any(|(kind, ..)| *kind == GO_AWAY), "a connection with a full window ends");
    assert!(frames.last().unwrap().2.ends_with(b"grpc-status\x010"));
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_calls_that_end_at_once_are_all_answered_in_their_order() {
    let TestConnection { mut io, stop: _stop, served: _served } = served();
    let descriptors = [&[0x0A, 1, b'd'][..], &[0x12, 0].repeat(40)].concat();
    let length = u32::try_from(descriptors.len()).unwrap().to_be_bytes();
    let message = [&[0][..], &length, &descriptors].concat();
    let streams = || (0..900_u32).map(|call| 2 * call + 1);
    let begun = streams()
        .flat_map(|stream| [frame(1, 4, stream, &head(b"a")), frame(0, 0, stream, &message)].concat());
    let window = frame(8, 0, 0_u8, &[0, 0x10, 0, 0]);
    io.write_all(&[PREFACE.to_vec(), window, begun.collect()].concat()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let ends: Vec<u8> = streams().flat_map(|stream| frame(0, 1, stream, &[])).collect();
    io.write_all(&ends).await.unwrap();
    let frames = until_ended(&mut io, 900).await;
    let answered: Vec<u8> = frames.iter().filter(|frame| frame.0 == DATA).map(|frame| frame.1).collect();
    let expected: Vec<u8> = streams().map(|stream| stream.to_be_bytes()[3]).collect();
    assert_eq!(answered, expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_grpc_is_not_taken_for_it() {
    let path = super::super::super::SHOULD_RATE_LIMIT;
    for (content_type, is_grpc) in [
        (&b"application/grpc"[..], true),
        (b"application/grpc+proto", true),
        (b"application/grpc;charset=utf-8", true),
        (b"application/grpc-web+proto", false),
        (b"application/json", false),
    ] {
        let TestConnection { mut io, stop: _stop, served: _served } = served();
        let call = [frame(1, 4, 1_u8, &head_of(b"a", path, content_type)), frame(0, 1, 1_u8, MESSAGE)];
        io.write_all(&[PREFACE, &call.concat()].concat()).await.unwrap();
        let frames = until_ended(&mut io, 1).await;
        let is_answered = frames.iter().any(|frame| frame.0 == DATA);
        assert_eq!(is_answered, is_grpc, "{}", String::from_utf8_lossy(content_type));
    }
}
