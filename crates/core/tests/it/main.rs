//! Holds the maths of this crate to every suite of the testkit.
//!
//! The suites and the oracles are the testkit's; here they meet the engine.
//! Each test prints how many steps it compared.

use tollgate_core::LimitError;
use tollgate_testkit::exhaustive::{self, Scope};
use tollgate_testkit::{CoreEngine, Failure, Oracle, boundaries, vectors};

/// Prints the number of steps that a suite compared, or tells what went wrong.
fn passed(suite: &str, outcome: Result<u64, Failure>) {
    match outcome {
        Ok(steps) => println!("{suite}: {steps} steps compared"),
        Err(failure) => panic!("{suite}: {failure}"),
    }
}

fn walk(name: &str, scope: Result<Scope, LimitError>) {
    passed(name, exhaustive::run(&CoreEngine::new, &scope.unwrap()));
}

#[test]
fn every_sequence_of_three_steps_is_decided_as_by_the_oracle() {
    walk("three steps", Scope::wide());
    walk("three steps at the epoch", Scope::at_the_epoch());
}

#[test]
fn every_sequence_of_five_steps_is_decided_as_by_the_oracle() {
    walk("five steps", Scope::deep());
}

#[test]
fn a_store_that_drops_states_at_their_deadline_decides_as_the_oracle() {
    passed("five steps, evicting", exhaustive::run(&CoreEngine::evicting, &Scope::deep().unwrap().every(3)));
}

#[test]
fn the_largest_and_the_smallest_are_decided_as_by_the_oracle() {
    passed("boundaries", boundaries::run(&CoreEngine::new, &boundaries::limits().unwrap(), 7));
}

#[test]
fn the_vectors_are_decided_as_written() {
    let groups = vectors::load(&vectors::folder()).unwrap_or_else(|error| panic!("{error}"));
    passed("vectors", vectors::run(&CoreEngine::new, &groups));
    passed("vectors, evicting", vectors::run(&CoreEngine::evicting, &groups));
    passed("vectors, oracle", vectors::run(&Oracle::new, &groups));
}
