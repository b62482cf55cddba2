//! Callers that send much of what costs them nothing.

use super::*;

#[test]
fn more_calls_than_allowed_are_refused_and_can_be_tried_again() {
    let mut ends = Ends::open();
    for stream in [1, 3, 5, 7, 9] {
        ends.send(&headers(0, stream));
    }
    assert_eq!((ends.events.len(), ends.resets(), ends.failure()), (4, vec![(9, REFUSED)], None));
    ends.respond(1, 0);
    ends.send(&headers(0, 11));
    assert_eq!(ends.events.len(), 5);
}

#[test]
fn calls_that_are_opened_and_reset_in_one_go_are_an_attack() {
    let pairs = |count: u32, first: u32| -> Vec<u8> {
        (0..count).flat_map(|n| [headers(0, first + 2 * n), reset(first + 2 * n)].concat()).collect()
    };
    let mut ends = Ends::open();
    // An impatient caller, again and again.
    for round in 0..100 {
        ends.send(&pairs(3, 1 + 6 * round));
    }
    assert!(ends.failure().is_none() && ends.server.is_idle());
    ends.send(&pairs(4, 1_001));
    assert_eq!(ends.failure(), Some(CALM));
}

#[test]
fn calls_that_wait_for_windows_and_are_reset_leave_nothing() {
    let mut ends = Ends::open();
    ends.send(&settings(&[(4, 0)]));
    for stream in 0..10_000 {
        let id = 1 + 2 * stream;
        ends.send(&headers(END_STREAM, id));
        ends.respond(id, 10);
        ends.send(&reset(id));
    }
    assert!(ends.server.is_idle() && ends.server.queued.is_empty());
    assert!(ends.server.ended_early.len() <= 4);
}

#[test]
fn callers_that_make_us_reset_count_as_well() {
    let mut ends = Ends::open();
    let mut stream = 1;
    while ends.failure().is_none() {
        ends.send(&[headers(0, stream), window_update(stream, 0)].concat());
        stream += 2;
    }
    assert_eq!((ends.failure(), ends.resets().len()), (Some(CALM), FAULTS_MAX + 1));
    assert!(ends.server.ended_early.len() <= 4);
}

#[test]
fn a_block_that_goes_on_for_ever_ends_the_connection() {
    for piece in [0, 1, 500, PAYLOAD_MAX] {
        let mut ends = Ends::open();
        ends.send(&frame(FrameKind::Headers, 0, 1, &[]));
        let next = frame(FrameKind::Continuation, 0, 1, &vec![0x82; piece]);
        let mut frames = 0;
        while ends.failure().is_none() {
            ends.send(&next);
            frames += 1;
            assert!(frames <= 16, "{piece} bytes each");
        }
        assert_eq!(ends.failure(), Some(CALM));
    }
}

#[test]
fn a_bomb_of_header_fields_is_refused_and_kept_nowhere() {
    let mut ends = Ends::open();
    // An entry of 4 KB, and then a byte for each mention of it.
    let entry = [&block(&[])[..], &[0x40, 1, b'a', 0x7f, 0x81, 0x1e], &[b'x'; 3_968]].concat();
    ends.send(&frame(FrameKind::Headers, END_HEADERS, 1, &entry));
    let bomb = [&block(&[])[..], &[0xbe; 10_000]].concat();
    ends.send(&frame(FrameKind::Headers, END_HEADERS, 3, &bomb));
    assert!(ends.events.is_empty() && ends.failure().is_none());
    let refused = ends.said.iter().filter(|frame| frame.3 == b"\x08\x03431").count();
    assert_eq!(refused, 2);
}

#[test]
fn frames_that_cost_nothing_are_answered_with_no_more_bytes_than_they_have() {
    let mut ends = Ends::open();
    ends.send(&headers(0, 1));
    let floods = [
        settings(&[]),
        settings(&[(4, 5), (4, 1 << 20)]),
        frame(FrameKind::Ping, 0, 0, &[1; 8]),
        data(0, 1, 0),
        frame(FrameKind::Priority, 0, 3, &[0; 5]),
        window_update(0, 1),
        window_update(1, 1),
        frame(FrameKind::Unknown, 0, 0, &[]),
    ];
    for flood in floods {
        let bytes = flood.repeat(1_000);
        let mut input = bytes.as_slice();
        while ends.server.next_event(&mut input).is_some() {}
        assert!(ends.server.output().len() <= bytes.len(), "{flood:?}");
        ends.listen();
        assert!(ends.failure().is_none(), "{flood:?}");
    }
}
