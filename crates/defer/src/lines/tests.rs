//! The order in which requests get their turn.

use tollgate_core::Micros;

use super::*;
use tollgate_core::OwnedRequest;

fn request(key: &str, path: &str) -> DeferredRequest {
    DeferredRequest {
        id: DeferredId::random(),
        accepted: Time::EPOCH,
        expires: Time::from_secs(1_000),
        key: key.into(),
        rule: "r".into(),
        check: OwnedRequest::default(),
        method: "GET".into(),
        host: None,
        path: path.into(),
        headers: Vec::new(),
        body: Vec::new(),
    }
}

fn lines(requests: &[(&str, &str)]) -> DeferredLines {
    let mut lines = DeferredLines::default();
    for (key, path) in requests {
        lines.add(request(key, path), SendProgress::default());
    }
    lines
}

fn path(turn: Option<&DeferredTurn>) -> &str {
    turn.map_or("-", |turn| &turn.request.path)
}

const NOW: Time = Time::from_secs(10);
const LATER: Time = Time::from_secs(20);

#[test]
fn requests_of_a_key_start_in_their_order_and_other_keys_do_not_wait() {
    let mut lines = lines(&[("a", "/a1"), ("a", "/a2"), ("b", "/b1")]);
    let (a1, b1) = (lines.turn(NOW).unwrap(), lines.turn(NOW).unwrap());
    assert_eq!((a1.request.path.as_str(), b1.request.path.as_str()), ("/a1", "/b1"));
    assert!(lines.turn(NOW).is_none(), "/a1 is being asked for");
    lines.pause(&a1, LATER);
    assert!(lines.turn(NOW).is_none(), "/a2 does not overtake");
    assert_eq!(lines.next_turn(), Some(LATER));
    let a1 = lines.turn(LATER).unwrap();
    assert_eq!(a1.request.path, "/a1");
    lines.start(&a1);
    assert_eq!(path(lines.turn(LATER).as_ref()), "/a2", "it does not wait for the answer to /a1");
}

#[test]
fn an_attempt_that_failed_goes_back_to_its_place() {
    let mut lines = lines(&[("a", "/a1"), ("a", "/a2")]);
    let turn = lines.turn(NOW).unwrap();
    lines.start(&turn);
    lines.retry(turn, SendProgress { attempts: 1, not_before: LATER });
    assert!(lines.turn(NOW).is_none(), "the line waits for its pause");
    let again = lines.turn(LATER).unwrap();
    assert_eq!((again.request.path.as_str(), again.progress.attempts), ("/a1", 1));
    lines.start(&again);
    lines.end(&again);
    assert_eq!(path(lines.turn(LATER).as_ref()), "/a2");
}

#[test]
fn only_so_many_of_a_key_are_on_their_way() {
    let mut lines = lines(&[("a", "/a"); IN_FLIGHT_MAX + 1]);
    let turns: Vec<_> = std::iter::from_fn(|| lines.turn(NOW).inspect(|turn| lines.start(turn))).collect();
    assert_eq!(turns.len(), IN_FLIGHT_MAX);
    lines.end(&turns[3]);
    assert!(lines.turn(NOW).is_some());
}

#[test]
fn what_expires_gets_its_turn_though_its_line_waits() {
    let mut lines = lines(&[("a", "/a")]);
    let turn = lines.turn(NOW).unwrap();
    lines.pause(&turn, Time::from_secs(5_000));
    assert_eq!(lines.next_turn(), Some(Time::from_secs(1_000)));
    let turn = lines.turn(Time::from_secs(1_000)).unwrap();
    lines.remove(&turn);
    assert_eq!((lines.next_turn(), lines.lines.len(), lines.known.len()), (None, 0, 0), "nothing is left");
}

#[test]
fn a_request_is_known_once_until_it_is_done_with() {
    let mut lines = DeferredLines::default();
    let own = request("a", "/a");
    lines.add(own.clone(), SendProgress::default());
    let turn = lines.turn(NOW).unwrap();
    lines.start(&turn);
    lines.add(own.clone(), SendProgress::default());
    lines.forget_waiting();
    lines.add(own.clone(), SendProgress::default());
    assert!(lines.turn(NOW + Micros::SECOND).is_none(), "it is on its way");
    lines.end(&turn);
    lines.add(own, SendProgress::default());
    assert!(lines.turn(NOW).is_some());
}

#[test]
fn what_another_process_sends_is_forgotten() {
    let mut lines = lines(&[("a", "/a1"), ("a", "/a2"), ("b", "/b1")]);
    let turn = lines.turn(NOW).unwrap();
    lines.forget_waiting();
    assert!(lines.turn(NOW).is_none());
    lines.pause(&turn, NOW);
    assert_eq!(path(lines.turn(NOW).as_ref()), "/a1", "who was being asked for is still there");
}
