//! Holds the suites to their own promise: each can fail, and says where.
//!
//! Deliberately not here: engines that are right; `crates/core/tests` has them.

use std::path::Path;

use tollgate_core::{Decision, Limit, Micros, Operation, Shape, Time, Verdict};
use tollgate_testkit::exhaustive::{self, Scope};
use tollgate_testkit::{CoreEngine, Engine, Scenario, Step, boundaries, properties, vectors};

/// An engine that tells everybody to come back one microsecond late.
struct Late(CoreEngine);

impl Engine for Late {
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision {
        let decision = self.0.decide(now, operation, cost);
        let verdict = match decision.verdict {
            Verdict::Deny { retry_after: Some(after) } => {
                Verdict::Deny { retry_after: Some(after + Micros::new(1)) }
            }
            Verdict::Deny { retry_after: None } | Verdict::Allow | Verdict::Delay { .. } => decision.verdict,
        };
        Decision { verdict, ..decision }
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

fn late(limit: Limit) -> Late {
    Late(CoreEngine::new(limit))
}

#[test]
fn the_exhaustive_suite_finds_an_engine_that_is_late() {
    let failure = exhaustive::run(&late, &Scope::deep().unwrap()).unwrap_err().to_string();
    assert!(
        failure.starts_with("not kept: the engine decides as the oracle\nlimit: fixed_window"),
        "{failure}"
    );
}

#[test]
fn the_boundaries_find_an_engine_that_is_late() {
    assert!(boundaries::run(&late, &boundaries::limits().unwrap(), 7).is_err());
}

#[test]
fn the_vectors_find_an_engine_that_is_late() {
    let groups = vectors::load(&vectors::folder()).unwrap();
    let failure = vectors::run(&late, &groups).unwrap_err().to_string();
    assert!(failure.starts_with("not kept: fixed_window: at most the limit per window"), "{failure}");
}

#[test]
fn the_properties_find_an_engine_that_is_late_without_an_oracle() {
    let limit = Limit::new(1, Micros::SECOND, Shape::SlidingLog).unwrap();
    let steps = [0, 1].map(|at| Step::new(at, Operation::Check, 1)).to_vec();
    let failure = properties::run(&late, &Scenario { limit, steps }).unwrap_err().to_string();
    assert!(failure.starts_with("not kept: retry_after is exact"), "{failure}");
}

#[test]
fn a_vector_that_tests_nothing_or_says_something_unknown_is_refused() {
    let file = |groups: &str| format!("algorithm: sliding_log\ngroups: {groups}");
    let group = |limit: &str, rows: &str| file(&format!("[{{ name: g, limit: {limit}, rows: {rows} }}]"));
    let limit = "{ count: 1, window: 1s }";
    let cases = [
        (file("[]"), "x.yaml: no groups"),
        (group(limit, "[]"), "x.yaml, group `g`: no rows"),
        (
            group("{ count: 1, window: 1s, burst: 2 }", "[{ at: 0s, verdict: allow }]"),
            "group `g`: sliding_log has no `burst`",
        ),
        (group("{ count: 1, window: 0s }", "[{ at: 0s, verdict: allow }]"), "group `g`: a window of 0s"),
        (group(limit, "[{ at: 0s, verdict: perhaps }]"), "group `g`: row 1: `perhaps` is no verdict"),
        (
            group(limit, "[{ at: 0s, check: 1, peek: 1, verdict: allow }]"),
            "group `g`: row 1: a row has one operation",
        ),
        (group(limit, "[{ at: 0s, verdict: allow, color: red }]"), "color"),
        ("algorithm: guess\ngroups: []".to_owned(), "x.yaml: `guess` is no algorithm"),
    ];
    for (text, expected) in cases {
        let error = vectors::parse(Path::new("x.yaml"), &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
