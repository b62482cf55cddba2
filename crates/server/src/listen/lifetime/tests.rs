//! The policy, check by check.

use super::*;

const MANY: u64 = 1_000;
const NOTHING: RequestProgress = RequestProgress { answered: 0, is_partial: false, needs_password: false };
const GRPC: LifetimePolicy = LifetimePolicy {
    opening_bytes: 33,
    idle: None,
    age: Some(Duration::from_secs(100)),
    grace: Some(Duration::from_secs(7)),
    answers_late: false,
};
const HTTP: LifetimePolicy = LifetimePolicy {
    opening_bytes: 14,
    idle: Some(Duration::from_secs(60)),
    age: None,
    grace: None,
    answers_late: false,
};
const RESP: LifetimePolicy =
    LifetimePolicy { opening_bytes: 0, idle: None, age: None, grace: None, answers_late: false };
const LOOK: LifetimeStep = LifetimeStep::Wait(LOOK_EVERY);

fn state(policy: LifetimePolicy) -> LifetimeState {
    // Neither older nor younger than the policy says.
    LifetimeState::new(policy, 100)
}

/// A connection that has read so much, and whose responses are all read.
fn read(read: u64) -> ByteTraffic {
    ByteTraffic { read, ..ByteTraffic::default() }
}

/// Why a connection is closed that goes on like this, and after how long.
fn closed(
    mut state: LifetimeState,
    is_crowded: bool,
    mut next: impl FnMut(u64) -> (u64, RequestProgress),
) -> (CloseReason, u64) {
    for check in 1..=MANY {
        let (bytes, progress) = next(check);
        match state.check(read(bytes), progress, is_crowded) {
            LifetimeStep::Wait(_) => {}
            LifetimeStep::Close(reason, _) | LifetimeStep::Cut(reason) => {
                return (reason, state.elapsed.as_secs());
            }
        }
    }
    panic!("nothing closes it");
}

#[test]
fn a_caller_that_says_too_little_is_cut_off_after_ten_seconds_however_crowded_it_is() {
    for (policy, little) in [(GRPC, 32), (HTTP, 13)] {
        for is_crowded in [false, true] {
            assert_eq!(closed(state(policy), is_crowded, |_| (0, NOTHING)), (CloseReason::NotOpened, 10));
            let dripping = |check| (little.min(check), NOTHING);
            assert_eq!(closed(state(policy), is_crowded, dripping), (CloseReason::NotOpened, 10));
        }
    }
}

#[test]
fn a_password_is_waited_for_as_long_and_no_longer() {
    let stranger = RequestProgress { needs_password: true, ..NOTHING };
    assert_eq!(closed(state(RESP), false, |check| (check * 20, stranger)), (CloseReason::NotOpened, 10));
}

#[test]
fn a_silent_caller_may_stay_where_its_listener_allows_it() {
    let mut state = state(RESP);
    for _ in 0..MANY {
        assert_eq!(state.check(read(70), NOTHING, false), LOOK);
    }
    assert_eq!(closed(self::state(HTTP), false, |_| (70, NOTHING)), (CloseReason::Idle, 65));
}

#[test]
fn a_silent_caller_is_closed_where_others_need_the_room() {
    assert_eq!(closed(state(RESP), true, |_| (0, NOTHING)), (CloseReason::Crowded, 5));
    assert_eq!(closed(state(HTTP), true, |_| (70, NOTHING)), (CloseReason::Crowded, 10));
    let mut grpc = state(GRPC);
    assert_eq!(grpc.check(read(50), NOTHING, true), LOOK);
    assert_eq!(grpc.check(read(51), NOTHING, true), LOOK);
    assert_eq!(grpc.check(read(51), NOTHING, false), LOOK);
    assert_eq!(grpc.check(read(51), NOTHING, true), LifetimeStep::Close(CloseReason::Crowded, LOOK_EVERY));
    assert_eq!(grpc.check(read(99), NOTHING, false), LifetimeStep::Cut(CloseReason::Overdue));
}

#[test]
fn one_request_must_arrive_whole_within_ten_seconds() {
    let slow = RequestProgress { answered: 7, is_partial: true, ..NOTHING };
    assert_eq!(closed(state(RESP), false, |check| (70 + check, slow)), (CloseReason::SlowRequest, 15));
    let mut state = state(RESP);
    for answered in 0..MANY {
        let between_two = RequestProgress { answered, ..slow };
        assert_eq!(state.check(read(70 + answered), between_two, false), LOOK);
    }
}

#[test]
fn an_old_connection_is_asked_to_close_at_its_age_and_then_cut_off() {
    let mut state = state(GRPC);
    let (mut elapsed, mut bytes) = (state.wait, 100);
    let mut asked_at = None;
    let reason = loop {
        bytes += 1;
        match state.check(read(bytes), NOTHING, false) {
            LifetimeStep::Wait(wait) => elapsed += wait,
            LifetimeStep::Close(reason, wait) => {
                assert_eq!((asked_at.replace(elapsed), reason), (None, CloseReason::Age));
                elapsed += wait;
            }
            LifetimeStep::Cut(reason) => break reason,
        }
    };
    assert_eq!((asked_at, reason), (Some(Duration::from_secs(100)), CloseReason::Overdue));
    assert_eq!(elapsed, Duration::from_secs(107));
}

#[test]
fn a_caller_that_hardly_reads_is_cut_off_whatever_else_it_does() {
    let waiting = |check: u64, written: u64| ByteTraffic { read: check * 1_000, written, is_waiting: true };
    let cut_after = |state: &mut LifetimeState, written: u64| {
        let mut checks = (1..=MANY).map(|check| state.check(waiting(check, check * written), NOTHING, false));
        checks.position(|step| step == LifetimeStep::Cut(CloseReason::SlowReader))
    };
    assert_eq!(cut_after(&mut state(HTTP), 0), Some(2), "ten seconds after it was first seen");
    assert_eq!(cut_after(&mut state(RESP), READ_LEAST - 1), Some(2));
    assert_eq!(cut_after(&mut state(RESP), READ_LEAST), None, "it is slow, but reads");
    let without_grace = LifetimePolicy { age: Some(Duration::from_secs(1)), grace: None, ..GRPC };
    let mut closing = state(without_grace);
    assert!(matches!(closing.check(read(50), NOTHING, false), LifetimeStep::Close(..)));
    assert_eq!(cut_after(&mut closing, 0), Some(2), "also where it may take its time to close");
    let mut keeps_up = state(HTTP);
    for check in 1..=MANY {
        let all_read = ByteTraffic { is_waiting: false, ..waiting(check, 0) };
        assert_eq!(keeps_up.check(all_read, NOTHING, false), LOOK);
    }
}

#[test]
fn a_response_that_is_being_read_keeps_a_connection_open() {
    let mut state = state(HTTP);
    for check in 1..=MANY {
        let downloading = ByteTraffic { read: 100, written: check * READ_LEAST, is_waiting: true };
        assert_eq!(state.check(downloading, NOTHING, true), LOOK);
    }
}

#[test]
fn an_age_may_be_shorter_than_the_opening() {
    let mut state = state(LifetimePolicy { age: Some(Duration::from_secs(1)), ..GRPC });
    assert_eq!(state.wait, Duration::from_secs(1));
    assert_eq!(state.check(read(0), NOTHING, false), LifetimeStep::Close(CloseReason::Age, LOOK_EVERY));
}

#[test]
fn a_drain_waits_for_callers_that_still_talk_and_not_for_silent_ones() {
    let mut state = state(GRPC);
    assert_eq!(state.drain(read(50)), DRAIN_SILENCE_MAX);
    assert_eq!(state.check(read(60), NOTHING, true), LifetimeStep::Wait(DRAIN_SILENCE_MAX));
    assert_eq!(state.check(read(60), NOTHING, true), LifetimeStep::Cut(CloseReason::Overdue));
}

#[test]
fn ages_differ_by_a_tenth_at_most() {
    let age = Duration::from_secs(1_000);
    let ages: Vec<u64> = (0..201).map(|random| jittered(age, random).as_secs()).collect();
    assert_eq!(ages.iter().min(), Some(&900));
    assert_eq!(ages.iter().max(), Some(&1_100));
    assert_eq!(jittered(Duration::MAX, 7), Duration::MAX);
}
