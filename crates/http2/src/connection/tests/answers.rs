//! Answers within windows, and what becomes of calls that are answered early.

use super::*;

/// Streams that may be answered with `window` bytes each.
fn asked(window: u32, streams: &[u32]) -> Ends {
    let mut ends = Ends::open();
    ends.send(&settings(&[(4, window)]));
    for stream in streams {
        ends.send(&headers(END_STREAM, *stream));
    }
    ends.said.clear();
    ends
}

#[test]
fn an_answer_that_fits_is_three_frames() {
    let mut ends = asked(5, &[1]);
    assert!(ends.respond(1, 5));
    let expected = [
        (FrameKind::Headers, END_HEADERS, 1, b"\x88".to_vec()),
        (FrameKind::Data, 0, 1, vec![1; 5]),
        (FrameKind::Headers, END_HEADERS | END_STREAM, 1, b"\x00\x01t\x01v".to_vec()),
    ];
    assert_eq!(ends.said, expected);
    assert!(ends.server.is_idle());
}

#[test]
fn an_answer_that_does_not_fit_goes_on_as_the_window_opens() {
    for step in [1, 3, 7, 100] {
        let mut ends = asked(0, &[1]);
        assert!(!ends.respond(1, 20));
        assert!(ends.server.is_waiting(1));
        let mut bytes = 0;
        while ends.server.is_waiting(1) {
            ends.send(&window_update(1, step));
            assert!(!ends.server.send_waiting());
            ends.listen();
            bytes = (bytes + usize::try_from(step).unwrap()).min(20);
            assert_eq!(ends.body_bytes(1), bytes);
        }
        assert_eq!((bytes, ends.said.last().unwrap().1), (20, END_HEADERS | END_STREAM));
        assert!(ends.server.is_idle());
    }
}

#[test]
fn settings_open_and_close_the_windows_of_all_streams() {
    let mut ends = asked(10, &[1, 3]);
    assert!(!ends.respond(1, 20));
    // It is below zero now, and a smaller step does not open it.
    ends.send(&settings(&[(4, 2)]));
    ends.send(&window_update(1, 8));
    ends.server.send_waiting();
    ends.listen();
    assert_eq!(ends.body_bytes(1), 10);
    ends.send(&settings(&[(4, 5)]));
    ends.server.send_waiting();
    ends.listen();
    assert_eq!(ends.body_bytes(1), 13);
    ends.send(&settings(&[(4, 1_000)]));
    ends.server.send_waiting();
    ends.listen();
    assert_eq!(ends.body_bytes(1), 20);
    assert!(ends.respond(3, 1_000));
}

#[test]
fn the_window_of_the_connection_is_shared_in_the_order_of_waiting() {
    let mut ends = asked(1 << 20, &[1, 3, 5]);
    assert!(!ends.respond(1, 70_000), "65,535 fit");
    assert!(!ends.respond(3, 10));
    assert!(!ends.respond(5, 10));
    assert_eq!((ends.body_bytes(1), ends.body_bytes(3)), (65_535, 0));
    ends.send(&window_update(0, 4_470));
    ends.server.send_waiting();
    ends.listen();
    assert_eq!([1, 3, 5].map(|stream| ends.body_bytes(stream)), [70_000, 5, 0]);
    ends.send(&window_update(0, 15));
    ends.server.send_waiting();
    ends.listen();
    assert_eq!([3, 5].map(|stream| ends.body_bytes(stream)), [10, 10]);
    assert!(ends.server.is_idle() && ends.server.queued.is_empty());
    let longest = ends.said.iter().map(|frame| frame.3.len()).max();
    assert_eq!(longest, Some(PAYLOAD_MAX));
}

#[test]
fn much_that_waits_is_not_all_in_the_output_at_once() {
    let mut ends = asked(1 << 30, &[1, 3, 5, 7]);
    ends.respond(1, 65_535);
    for stream in [3, 5, 7] {
        assert!(!ends.respond(stream, 50_000));
    }
    ends.send(&window_update(0, 1 << 20));
    assert!(ends.server.send_waiting(), "there is more");
    let bytes = ends.server.output().len();
    assert!((100_000..120_000).contains(&bytes), "{bytes}");
    ends.listen();
    assert!(!ends.server.send_waiting());
    ends.listen();
    assert!(ends.server.is_idle());
}

#[test]
fn who_is_answered_early_is_told_to_stop_and_may_still_be_sending() {
    let mut ends = Ends::open();
    ends.send(&headers(0, 1));
    assert!(ends.respond(1, 5));
    assert_eq!(ends.resets(), [(1, 0)], "no error");
    ends.send(&[data(0, 1, 50), data(END_STREAM, 1, 50)].concat());
    ends.send(&frame(FrameKind::Headers, END_HEADERS | END_STREAM, 1, b"\x00\x01t\x01v"));
    assert_eq!((ends.resets().len(), ends.failure()), (1, None));
    assert_eq!(ends.events, ["1 Known(0)"]);
}

#[test]
fn a_streamed_answer_waits_for_its_window_and_ends_in_both_ways() {
    let mut ends = asked(4, &[1, 3, 5]);
    ends.server.send_head(1, b"\x88", false);
    ends.server.send_data(1, b"abcdef");
    assert!(ends.server.is_waiting(1));
    ends.server.send_end(1, None);
    ends.send(&window_update(1, 10));
    ends.server.send_waiting();
    ends.listen();
    let data: Vec<_> = ends.said.iter().filter(|frame| frame.0 == FrameKind::Data).collect();
    assert_eq!(
        (data[0].1, data[0].3.as_slice(), data[1].1, data[1].3.as_slice()),
        (0, &b"abcd"[..], END_STREAM, &b"ef"[..])
    );
    ends.server.send_head(3, b"\x88", false);
    ends.server.send_end(3, None);
    ends.server.send_head(5, b"\x88", false);
    ends.server.send_data(5, b"ab");
    assert!(!ends.server.is_waiting(5));
    ends.server.send_end(5, Some(b"\x88".to_vec()));
    ends.listen();
    let last: Vec<_> = ends.said.iter().rev().take(5).map(|frame| (frame.0, frame.1, frame.2)).collect();
    let (head, data, end) = (FrameKind::Headers, FrameKind::Data, END_STREAM);
    let expected = [(head, 5, 5), (data, 0, 5), (head, 4, 5), (data, end, 3), (head, 4, 3)];
    assert_eq!(last, expected);
    assert!(ends.server.is_idle());
    // Whoever is gone is not spoken to.
    ends.said.clear();
    ends.server.send_head(1, b"\x88", true);
    ends.server.send_data(1, b"x");
    ends.server.send_end(1, None);
    assert!(ends.respond(1, 5) && ends.said.is_empty());
}

#[test]
fn windows_of_bodies_open_by_halves_and_not_for_bodies_that_have_ended() {
    let mut ends = Ends::open();
    ends.send(&[headers(0, 1), data(0, 1, 49)].concat());
    assert!(ends.said.is_empty());
    ends.send(&data(0, 1, 1));
    assert_eq!(ends.said, [(FrameKind::WindowUpdate, 0, 1, vec![0, 0, 0, 50])]);
    ends.send(&data(END_STREAM, 1, 90));
    assert_eq!(ends.said.len(), 1);
    // The connection's follows after half of its own.
    for stream in 0..400 {
        let id = 3 + 2 * stream;
        ends.send(&[headers(0, id), data(END_STREAM, id, 100)].concat());
        ends.respond(id, 0);
    }
    let updates: Vec<_> = ends.said.iter().filter(|frame| frame.0 == FrameKind::WindowUpdate).collect();
    assert_eq!((updates.len(), updates[1].2), (2, 0));
}
