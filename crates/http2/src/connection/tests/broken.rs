//! Frames that break the protocol, and what each is answered with.

use super::*;

/// What becomes of a connection on which stream 1 has ended, stream 3 is open, stream 5 is half closed and
/// stream 9 was the last.
fn after(bytes: &[u8]) -> Ends {
    let mut ends = Ends::open();
    ends.send(
        &[headers(END_STREAM, 1), headers(0, 3), headers(END_STREAM, 5), headers(END_STREAM, 9)].concat(),
    );
    ends.respond(1, 0);
    ends.respond(9, 0);
    ends.said.clear();
    ends.events.clear();
    ends.send(bytes);
    ends
}

/// Each ends the connection with its error.
fn check(rows: impl IntoIterator<Item = (&'static str, Vec<u8>, u8)>) {
    for (what, bytes, code) in rows {
        let mut ends = after(&bytes);
        assert_eq!(ends.failure(), Some(code), "{what}: {:?}", ends.said);
        assert!(ends.server.is_over() && ends.server.is_idle(), "{what}");
        ends.events.clear();
        ends.send(&headers(END_STREAM, 21));
        assert!(ends.events.is_empty(), "nothing is heard after {what}");
    }
}

#[test]
fn what_breaks_the_rules_of_streams_ends_the_connection() {
    let on_zero = |kind: FrameKind, payload: &[u8]| frame(kind, END_HEADERS, 0, payload);
    check([
        ("DATA on stream 0", data(0, 0, 1), PROTOCOL),
        ("DATA on an even stream", data(0, 2, 1), PROTOCOL),
        ("DATA on an idle stream", data(0, 11, 1), PROTOCOL),
        ("DATA with more padding than there is", frame(FrameKind::Data, PADDED, 3, &[5, 0]), PROTOCOL),
        ("DATA without its padding", frame(FrameKind::Data, PADDED, 3, &[]), FRAME_SIZE),
        ("HEADERS on stream 0", on_zero(FrameKind::Headers, &block(&[])), PROTOCOL),
        ("HEADERS on an even stream", headers(0, 12), PROTOCOL),
        ("HEADERS on a stream that was passed over", headers(0, 7), PROTOCOL),
        ("HEADERS on a stream that has ended", headers(0, 1), STREAM_CLOSED),
        ("HEADERS that cannot be read", frame(FrameKind::Headers, END_HEADERS, 11, &[0x80]), COMPRESSION),
        (
            "trailers that cannot be read",
            frame(FrameKind::Headers, END_HEADERS | END_STREAM, 3, &[0xff]),
            COMPRESSION,
        ),
        (
            "HEADERS without their priority",
            frame(FrameKind::Headers, END_HEADERS | PRIORITY, 11, &[0; 4]),
            FRAME_SIZE,
        ),
        ("a CONTINUATION of nothing", frame(FrameKind::Continuation, END_HEADERS, 3, &[]), PROTOCOL),
        (
            "another frame within a block",
            [frame(FrameKind::Headers, 0, 11, &[]), data(0, 3, 0)].concat(),
            PROTOCOL,
        ),
        (
            "a CONTINUATION of another stream",
            [frame(FrameKind::Headers, 0, 11, &[]), frame(FrameKind::Continuation, 4, 13, &[])].concat(),
            PROTOCOL,
        ),
        ("PRIORITY on stream 0", frame(FrameKind::Priority, 0, 0, &[0; 5]), PROTOCOL),
        ("PRIORITY of a wrong length", frame(FrameKind::Priority, 0, 3, &[0; 4]), FRAME_SIZE),
        ("a stream that depends on itself", frame(FrameKind::Priority, 0, 3, &[0, 0, 0, 3, 0]), PROTOCOL),
        ("RST_STREAM on stream 0", reset(0), PROTOCOL),
        ("RST_STREAM on an idle stream", reset(11), PROTOCOL),
        ("RST_STREAM of a wrong length", frame(FrameKind::Reset, 0, 3, &[0; 5]), FRAME_SIZE),
    ]);
}

#[test]
fn what_breaks_the_rules_of_connections_ends_the_connection() {
    check([
        ("SETTINGS on a stream", frame(FrameKind::Settings, 0, 3, &[]), PROTOCOL),
        ("SETTINGS of a wrong length", frame(FrameKind::Settings, 0, 0, &[0; 5]), FRAME_SIZE),
        ("an acknowledgement with settings", frame(FrameKind::Settings, ACK, 0, &[0; 6]), FRAME_SIZE),
        ("PUSH_PROMISE", frame(FrameKind::PushPromise, END_HEADERS, 3, &[0; 5]), PROTOCOL),
        ("PING on a stream", frame(FrameKind::Ping, 0, 3, &[0; 8]), PROTOCOL),
        ("PING of a wrong length", frame(FrameKind::Ping, 0, 0, &[0; 7]), FRAME_SIZE),
        ("GOAWAY on a stream", frame(FrameKind::GoAway, 0, 3, &[0; 8]), PROTOCOL),
        ("GOAWAY of a wrong length", frame(FrameKind::GoAway, 0, 0, &[0; 7]), FRAME_SIZE),
        ("a window that grows by nothing", window_update(0, 0), PROTOCOL),
        ("a window that overflows", window_update(0, (1 << 31) - 1), FLOW_CONTROL),
        ("WINDOW_UPDATE of a wrong length", frame(FrameKind::WindowUpdate, 0, 3, &[0; 3]), FRAME_SIZE),
        ("WINDOW_UPDATE on an idle stream", window_update(11, 1), PROTOCOL),
        (
            "settings by which a window overflows",
            [window_update(3, 1 << 30), settings(&[(4, (1 << 31) - 1)])].concat(),
            FLOW_CONTROL,
        ),
        ("a frame that is too long", frame(FrameKind::Data, 0, 3, &vec![0; PAYLOAD_MAX + 1]), FRAME_SIZE),
        (
            "the head of one",
            frame(FrameKind::Unknown, 0, 3, &vec![0; PAYLOAD_MAX + 1])[..9].to_vec(),
            FRAME_SIZE,
        ),
    ]);
}

#[test]
fn what_breaks_one_call_ends_it_alone() {
    let odd = |more: &[(&str, &str)]| frame(FrameKind::Headers, END_HEADERS | END_STREAM, 11, &block(more));
    let trailers = |flags, block: &[u8]| frame(FrameKind::Headers, END_HEADERS | flags, 3, block);
    let rows = [
        ("DATA after the end", data(0, 5, 1), (5, STREAM_CLOSED)),
        ("DATA after both ends", data(0, 1, 1), (1, STREAM_CLOSED)),
        ("HEADERS after the end", headers(END_STREAM, 5), (5, STREAM_CLOSED)),
        ("DATA beyond the window", data(0, 3, 101), (3, FLOW_CONTROL)),
        ("a second head", trailers(0, &block(&[])), (3, PROTOCOL)),
        ("trailers with a path", trailers(END_STREAM, &block(&[])), (3, PROTOCOL)),
        ("a window that grows by nothing", window_update(3, 0), (3, PROTOCOL)),
        ("a window that overflows", window_update(3, (1 << 31) - 1), (3, FLOW_CONTROL)),
        ("a field in upper case", odd(&[("X", "y")]), (11, PROTOCOL)),
        ("a field of a connection", odd(&[("connection", "close")]), (11, PROTOCOL)),
        ("a second path", odd(&[(":path", "/")]), (11, PROTOCOL)),
        ("a body that is missing", odd(&[("content-length", "5")]), (11, PROTOCOL)),
    ];
    for (what, bytes, expected) in rows {
        let mut ends = after(&bytes);
        assert_eq!((ends.resets(), ends.failure()), (vec![expected], None), "{what}");
        assert!(ends.server.call_mut(expected.0).is_none(), "{what}");
        // Others go on.
        ends.send(&headers(END_STREAM, 21));
        assert_eq!(ends.events.last().unwrap(), "21 end", "{what}");
    }
}

#[test]
fn what_may_arrive_late_is_passed_over() {
    let rows = [
        window_update(1, 5),
        window_update(1, 0),
        reset(1),
        frame(FrameKind::Priority, 0, 1, &[0; 5]),
        frame(FrameKind::Priority, 0, 99, &[0; 5]),
        frame(FrameKind::GoAway, 0, 0, &[0; 20]),
        frame(FrameKind::Unknown, 0xff, 0, &[1; 30]),
        frame(FrameKind::Settings, ACK, 0, &[]),
        frame(FrameKind::Ping, ACK, 0, &[9; 8]),
    ];
    for bytes in rows {
        let ends = after(&bytes);
        assert!(ends.said.is_empty() && ends.events.is_empty(), "{bytes:?}: {:?}", ends.said);
    }
}

#[test]
fn bodies_are_as_long_as_they_say() {
    let head =
        |length: &str| frame(FrameKind::Headers, END_HEADERS, 11, &block(&[("content-length", length)]));
    let end = frame(FrameKind::Headers, END_HEADERS | END_STREAM, 11, &[]);
    let rows = [
        ("7", data(END_STREAM, 11, 7), vec![]),
        ("7", [data(0, 11, 3), data(END_STREAM, 11, 4)].concat(), vec![]),
        ("7", [data(0, 11, 7), end.clone()].concat(), vec![]),
        ("7", data(0, 11, 8), vec![(11, PROTOCOL)]),
        ("7", data(END_STREAM, 11, 6), vec![(11, PROTOCOL)]),
        ("7", [data(0, 11, 6), end].concat(), vec![(11, PROTOCOL)]),
    ];
    for (length, body, expected) in rows {
        assert_eq!(after(&[head(length), body].concat()).resets(), expected);
    }
}

#[test]
fn what_does_not_begin_as_http2_does_is_refused() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.1", b"\0", b"PRX"] {
        let mut ends = Ends::silent();
        ends.send(bytes);
        assert_eq!(ends.failure(), Some(PROTOCOL));
    }
    for first in
        [headers(0, 1), frame(FrameKind::Settings, ACK, 0, &[]), frame(FrameKind::Ping, 0, 0, &[0; 8])]
    {
        let mut ends = Ends::silent();
        ends.send(&[PREFACE, &first].concat());
        assert_eq!(ends.failure(), Some(PROTOCOL), "settings come first");
    }
}

#[test]
fn header_fields_that_are_too_large_are_told_so_and_the_table_stays_right() {
    let long = "x".repeat(1_000);
    let mut large = block(&[("y", &long)]);
    // A field that goes into the table, after all that is too large.
    large.extend_from_slice(b"\x40\x01a\x01b");
    let mut ends = after(&frame(FrameKind::Headers, END_HEADERS, 11, &large));
    assert_eq!(ends.said[0].3, b"\x08\x03431");
    assert_eq!((ends.said[0].1, ends.resets()), (END_HEADERS | END_STREAM, vec![(11, 0)]));
    ends.send(&frame(FrameKind::Headers, END_HEADERS | END_STREAM, 13, &[&block(&[])[..], &[0xbe]].concat()));
    assert_eq!((ends.events.last().unwrap().as_str(), ends.failure()), ("13 end", None));
}
