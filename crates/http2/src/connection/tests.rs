//! Frames by hand: each rule of RFC 9113 that a caller can break, and the bounds beyond it.

use super::*;
use crate::frame::{
    ACK, END_HEADERS, END_STREAM, FrameHead, FrameKind, HEAD_BYTES, PADDED, PAYLOAD_MAX, PRIORITY, put_head,
};
use crate::hpack::encoder::put_field;

mod answers;
mod broken;
mod floods;

const CONFIG: Http2Config = Http2Config {
    streams_max: 4,
    stream_window: 100,
    connection_window: 70_000,
    headers_max: 1_000,
    resets_max: 3,
    known_paths: &["/known"],
    keeps_fields: false,
};

/// The two ends of a connection.
struct Ends {
    server: Http2Connection<u32>,
    /// What the server has said in frames: kind, flags, stream and payload.
    said: Vec<(FrameKind, u8, u32, Vec<u8>)>,
    /// Calls and bytes, as `stream path`, `stream +bytes` and `stream end`.
    events: Vec<String>,
}

fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

fn block(more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let call = [(":method", "POST"), (":scheme", "http"), (":path", "/known")];
    for (name, value) in call.iter().chain(more) {
        put_field(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

fn headers(flags: u8, stream: u32) -> Vec<u8> {
    frame(FrameKind::Headers, END_HEADERS | flags, stream, &block(&[]))
}

fn data(flags: u8, stream: u32, bytes: usize) -> Vec<u8> {
    frame(FrameKind::Data, flags, stream, &vec![7; bytes])
}

fn reset(stream: u32) -> Vec<u8> {
    frame(FrameKind::Reset, 0, stream, &8_u32.to_be_bytes())
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(FrameKind::WindowUpdate, 0, stream, &bytes.to_be_bytes())
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |(setting, value): &(u16, u32)| [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(FrameKind::Settings, 0, 0, &settings.iter().flat_map(bytes).collect::<Vec<u8>>())
}

impl Ends {
    /// A connection that has begun, with what was said in the beginning forgotten.
    fn open() -> Self {
        let mut ends = Self::silent();
        ends.send(&[PREFACE, &settings(&[]), &frame(FrameKind::Settings, ACK, 0, &[])].concat());
        ends.said.clear();
        ends
    }

    fn silent() -> Self {
        Self { server: Http2Connection::new(CONFIG), said: Vec::new(), events: Vec::new() }
    }

    /// Sends bytes in one go; what is left of them.
    fn send(&mut self, bytes: &[u8]) -> usize {
        let mut input = bytes;
        self.server.begin_read();
        while let Some(event) = self.server.next_event(&mut input) {
            let (stream, text, is_end) = match event {
                Event::Request { stream, head, is_end } => (stream, format!("{:?}", head.path), is_end),
                Event::Data { stream, data, is_end } => {
                    self.server.consumed(stream, data.len());
                    (stream, format!("+{}", data.len()), is_end)
                }
            };
            self.events.push(format!("{stream} {text}"));
            if is_end {
                self.events.push(format!("{stream} end"));
            }
        }
        self.listen();
        input.len()
    }

    /// Takes in what the server has said.
    fn listen(&mut self) {
        let output = std::mem::take(self.server.output());
        let mut rest = output.as_slice();
        while let Some(head) = FrameHead::at(rest) {
            let payload = rest[HEAD_BYTES..HEAD_BYTES + head.length].to_vec();
            rest = &rest[HEAD_BYTES + head.length..];
            self.said.push((head.kind, head.flags, head.stream, payload));
        }
        assert!(rest.is_empty(), "half a frame was said");
    }

    /// The error of the connection, if it has one.
    fn failure(&self) -> Option<u8> {
        let (kind, _, _, payload) = self.said.last()?;
        (*kind == FrameKind::GoAway && self.server.has_failed()).then(|| payload[7])
    }

    /// The streams that were reset, with their errors.
    fn resets(&self) -> Vec<(u32, u8)> {
        let resets = self.said.iter().filter(|(kind, ..)| *kind == FrameKind::Reset);
        resets.map(|(_, _, stream, payload)| (*stream, payload[3])).collect()
    }

    /// Bytes of bodies that were said on a stream.
    fn body_bytes(&self, stream: u32) -> usize {
        let data = self.said.iter().filter(|frame| frame.0 == FrameKind::Data && frame.2 == stream);
        data.map(|frame| frame.3.len()).sum()
    }

    fn respond(&mut self, stream: u32, bytes: usize) -> bool {
        let write = |out: &mut Vec<u8>| out.resize(out.len() + bytes, 1);
        let is_sent =
            self.server.respond(stream, b"\x88", MessageWriter { length: bytes, write }, b"\x00\x01t\x01v");
        self.listen();
        is_sent
    }
}

/// The numbers of errors.
const PROTOCOL: u8 = 1;
const FLOW_CONTROL: u8 = 3;
const STREAM_CLOSED: u8 = 5;
const FRAME_SIZE: u8 = 6;
const REFUSED: u8 = 7;
const COMPRESSION: u8 = 9;
const CALM: u8 = 11;

#[test]
fn a_connection_begins_with_settings_and_a_window() {
    let mut ends = Ends::silent();
    ends.listen();
    let expected = [0, 3, 0, 0, 0, 4, 0, 4, 0, 0, 0, 100, 0, 6, 0, 0, 3, 0xe8];
    assert_eq!(ends.said[0], (FrameKind::Settings, 0, 0, expected.to_vec()));
    assert_eq!(ends.said[1], (FrameKind::WindowUpdate, 0, 0, (70_000_u32 - 65_535).to_be_bytes().to_vec()));
    ends.send(&[PREFACE, &settings(&[])].concat());
    assert_eq!(ends.said[2], (FrameKind::Settings, ACK, 0, vec![]));
}

#[test]
fn calls_are_the_same_however_the_bytes_are_cut() {
    let padded = [&[3][..], &[7; 5], &[0; 3]].concat();
    let priority = [&[0, 0, 0, 0, 9][..], &block(&[("x", "y")])].concat();
    let (first, second) = priority.split_at(7);
    let bytes = [
        PREFACE,
        &settings(&[(4, 9)]),
        &headers(0, 1),
        &data(0, 1, 20),
        &frame(FrameKind::Unknown, 0xff, 3, b"whatever"),
        &frame(FrameKind::Headers, PRIORITY, 3, first),
        &frame(FrameKind::Continuation, 0, 3, &[]),
        &frame(FrameKind::Continuation, END_HEADERS, 3, second),
        &frame(FrameKind::Data, PADDED | END_STREAM, 3, &padded),
        &frame(FrameKind::Headers, END_HEADERS | END_STREAM, 1, b"\x00\x01t\x01v"),
        &headers(END_STREAM, 9),
    ]
    .concat();
    let known = |stream| format!("{stream} Known(0)");
    let expected = [&known(1), "1 +20", &known(3), "3 +5", "3 end", "1 +0", "1 end", &known(9), "9 end"];
    for size in 1..=bytes.len() {
        let (mut ends, mut held) = (Ends::silent(), Vec::new());
        for piece in bytes.chunks(size) {
            held.extend_from_slice(piece);
            let left = ends.send(&held);
            held.drain(..held.len() - left);
        }
        assert_eq!(ends.events, expected, "in pieces of {size}");
        assert!(ends.failure().is_none() && ends.resets().is_empty() && held.is_empty());
    }
}

#[test]
fn a_ping_is_answered_and_ours_needs_no_answer_of_its_own() {
    let mut ends = Ends::open();
    ends.send(&frame(FrameKind::Ping, 0, 0, b"12345678"));
    assert_eq!(ends.said, [(FrameKind::Ping, ACK, 0, b"12345678".to_vec())]);
    let frames = ends.server.frames();
    ends.server.ping();
    ends.send(&frame(FrameKind::Ping, ACK, 0, &ALIVE_PING));
    assert_eq!((ends.said.len(), ends.server.frames()), (2, frames + 1));
}

#[test]
fn who_is_asked_to_go_finishes_what_it_has_begun() {
    let mut ends = Ends::open();
    ends.send(&headers(END_STREAM, 1));
    ends.server.close();
    ends.server.close();
    ends.listen();
    assert_eq!(ends.said.len(), 2, "a goodbye and a ping: {:?}", ends.said);
    assert_eq!(ends.said[0].3, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    // It began another before it knew.
    ends.send(&[headers(END_STREAM, 3), frame(FrameKind::Ping, ACK, 0, &CLOSE_PING)].concat());
    assert_eq!(ends.said.last().unwrap().3, [0, 0, 0, 3, 0, 0, 0, 0]);
    // And another one too late, which is nobody's fault.
    ends.send(&[headers(0, 5), data(END_STREAM, 5, 5)].concat());
    assert_eq!(ends.events, ["1 Known(0)", "1 end", "3 Known(0)", "3 end"]);
    assert!(ends.resets().is_empty() && !ends.server.is_over());
    ends.respond(1, 5);
    assert!(!ends.server.is_over());
    ends.respond(3, 5);
    assert!(ends.server.is_over() && !ends.server.has_failed());
}

#[test]
fn who_has_not_begun_is_let_go_at_once() {
    for bytes in [&b""[..], b"PRI", PREFACE] {
        let mut ends = Ends::silent();
        ends.send(bytes);
        ends.server.close();
        assert!(ends.server.is_over());
    }
}
