//! `cargo xtask`: everything CI runs, the same at home.
//!
//! `ci` has the steps; `process`, `rust_source` and `workspace` what they share; the others are steps.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a terminal is the only reader of this tool")]

mod bench;
mod cargo_steps;
mod ci;
mod conformance;
mod edges;
mod examples;
mod process;
mod rust_source;
mod setup;
mod tidy;
mod workspace;

fn main() -> std::process::ExitCode {
    ci::main(&std::env::args().skip(1).collect::<Vec<_>>())
}
