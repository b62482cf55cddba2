//! Holds the maths of this crate to every suite of the testkit.
//!
//! The suites and the oracles are the testkit's; here they meet the engine.
//! Each test prints how many steps it compared.
#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

mod elastic;
mod penalty;

use tollgate_core::LimitError;
use tollgate_testkit::exhaustive::{self, Scope};
use tollgate_testkit::{CoreEngine, Oracle, boundaries, random, vectors};

/// Prints the number of steps that a suite compared, or tells what went wrong.
fn passed<E: std::fmt::Display>(suite: &str, outcome: Result<u64, E>) {
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

#[test]
fn random_sequences_are_decided_as_by_the_oracle() {
    passed("random", random::beside_the_oracle(&CoreEngine::new, 2_000));
    passed("random, evicting", random::beside_the_oracle_monotone(&CoreEngine::evicting, 1_000));
}

#[test]
fn every_property_holds_for_random_sequences() {
    passed("properties", random::for_every_property(&CoreEngine::new, 2_000));
}

#[test]
fn every_property_holds_for_the_oracle_too() {
    passed("properties, oracle", random::for_every_property(&Oracle::new, 100));
}
