//! The penalty of a limit beside its oracle.

use tollgate_core::{
    Change, Charge, Entry, Key, Limit, Micros, Mode, Operation, Penalty, PenaltyStep, Shape, State, Time,
};
use tollgate_testkit::penalty::{beside_the_oracle, never_longer_than_its_length};

/// What a store does at the deadline of a state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtDeadline {
    Keep,
    Drop,
}

/// Keeps the state as a store does, as text between two steps.
fn engine(penalty: Penalty, at_deadline: AtDeadline) -> impl FnMut(Time, PenaltyStep) -> Micros {
    let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow).unwrap().with_penalty(Some(penalty));
    let mut kept: Option<Vec<u8>> = None;
    move |now, step| {
        let entries = [Entry { key: "k", value: "v" }];
        let key = Key { domain: "d", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
        let (mode, operation) = (Mode::Enforce, Operation::Check);
        let charge = Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 };
        let charge = charge.penalty(operation).unwrap();
        let state = kept.as_deref().map(|text| charge.read_state(text).expect("what was written"));
        let state = state.filter(|state| at_deadline == AtDeadline::Keep || state.deadline() > now);
        let state = state.as_ref().map(State::as_ref);
        let (decision, change) = match step {
            PenaltyStep::Look => charge.decide(state, now),
            PenaltyStep::Strike => charge.strike(state, now),
        };
        if let Change::Put(state) = change {
            let mut text = Vec::new();
            charge.write_state(&state, &mut text);
            assert_eq!(charge.read_state(&text), Some(state), "a state is what was written of it");
            kept = Some(text);
        }
        assert_eq!(decision.verdict.blocked_for(), decision.blocked_for);
        decision.blocked_for
    }
}

#[test]
fn blocks_begin_and_end_as_by_the_oracle() {
    for at_deadline in [AtDeadline::Keep, AtDeadline::Drop] {
        let steps = beside_the_oracle(|penalty| engine(penalty, at_deadline), 5, 2_000);
        println!("penalties: {} steps compared", steps.unwrap_or_else(|failure| panic!("{failure}")));
    }
}

#[test]
fn no_block_outlasts_its_length_whatever_the_clock_does() {
    let outcome = never_longer_than_its_length(|penalty| engine(penalty, AtDeadline::Keep), 2_000);
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_clock_that_was_ahead_blocks_for_the_rest_of_a_block_and_no_longer() {
    let minute = Micros::from_secs(60);
    let penalty = Penalty::new(2, minute, minute.times(10)).unwrap();
    let mut key = engine(penalty, AtDeadline::Keep);
    let (ahead, back) = (Time::from_secs(2_000_000_000), Time::from_secs(1_700_000_000));
    assert_eq!(key(ahead, PenaltyStep::Strike), Micros::ZERO);
    assert_eq!(key(back, PenaltyStep::Strike), minute.times(10), "the strike counts as one of now");
    assert_eq!(key(back.before(Micros::from_secs(86_400)), PenaltyStep::Look), minute.times(10));
    assert_eq!(key(back, PenaltyStep::Look), Micros::ZERO, "it ended by the clock that was set back");
}

#[test]
fn what_no_store_of_ours_has_written_is_not_read() {
    let penalty = Penalty::new(2, Micros::SECOND, Micros::SECOND).unwrap();
    let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow).unwrap().with_penalty(Some(penalty));
    let key = Key { domain: "d", entries: &[], shared: &[], limit: &limit, ordinal: 0 };
    let (mode, operation) = (Mode::Enforce, Operation::Check);
    let charge = Charge { descriptor: 0, rule: None, key: key.penalty(), mode, operation, cost: 1 };
    let garbage = [
        "",
        "B",
        "S 1 0",
        "S 1 0 5",
        "S 1 0 5 0",
        "S 1 0 5 1 4 1",
        "S 1 999 5 1",
        "B 1 2",
        "B 1 2 256",
        "B 1 -2 0",
        "X 1 2 3",
        "1 2",
    ];
    for text in garbage {
        assert_eq!(charge.read_state(text.as_bytes()), None, "{text}");
    }
    assert_ne!(key, key.penalty());
}
