//! Holds the maths of this crate to every suite of the testkit.
use tollgate_testkit::{
    CoreEngine,
    exhaustive::{self, Scope},
};

#[test]
fn every_short_sequence_is_decided_as_by_the_oracle() {
    for (name, scope) in [("wide", Scope::wide()), ("deep", Scope::deep()), ("epoch", Scope::at_the_epoch())]
    {
        match exhaustive::run(&CoreEngine::new, &scope.unwrap()) {
            Ok(n) => println!("{name}: {n} steps"),
            Err(failure) => panic!("{failure}"),
        }
    }
}
