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
    let turn = lines.turn(Time::from_secs(900)).unwrap();
    lines.pause(&turn, Time::from_secs(1_100));
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

#[test]
fn a_clock_that_is_set_back_makes_no_pause_longer() {
    let mut lines = lines(&[("full", "/1"), ("fails", "/2"), ("fails", "/3")]);
    let (ahead, back) = (Time::from_secs(900), Time::from_secs(100));
    let (one, other) = (lines.turn(ahead).unwrap(), lines.turn(ahead).unwrap());
    let (full, fails) = if one.request.key == "full" { (one, other) } else { (other, one) };
    lines.pause(&full, ahead + Micros::from_secs(5));
    lines.start(&fails);
    lines.retry(fails, SendProgress { attempts: 1, not_before: ahead + Micros::from_secs(60) });
    assert!(lines.turn(back).is_none(), "both wait");
    assert_eq!(lines.next_turn(), Some(back + Micros::from_secs(5)));
    let full = lines.turn(back + Micros::from_secs(5)).unwrap();
    assert_eq!(full.request.path, "/1");
    lines.remove(&full);
    assert_eq!(lines.next_turn(), Some(back + Micros::from_secs(60)), "and the order is what it was");
    assert_eq!(path(lines.turn(back + Micros::from_secs(60)).as_ref()), "/2");
}

#[test]
fn a_pause_of_before_the_clock_was_set_back_is_a_short_one() {
    let mut lines = lines(&[("a", "/a")]);
    let ahead = Time::from_secs(900);
    let turn = lines.turn(ahead).unwrap();
    // The attempt has looked at the clock, then it is set back, and then the attempt says so.
    assert!(lines.turn(NOW).is_none());
    lines.pause(&turn, ahead + Micros::from_secs(5));
    assert_eq!(lines.next_turn(), Some(NOW + BACKOFF_MAX));
}

#[test]
fn a_clock_that_is_set_forward_ends_every_pause_and_what_is_too_old() {
    let mut lines = lines(&[("a", "/a1"), ("a", "/a2")]);
    let turn = lines.turn(NOW).unwrap();
    lines.pause(&turn, LATER);
    let forward = Time::from_secs(5_000);
    let turn = lines.turn(forward).unwrap();
    assert_eq!(turn.request.path, "/a1", "in their order");
    assert!(turn.request.expires <= forward, "the worker drops it as expired");
}
