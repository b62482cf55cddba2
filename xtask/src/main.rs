//! `cargo xtask`: everything CI runs, the same at home.
//!
//! Reads in this order: `ci` (the steps), a file per step or group of steps (`setup`, `cargo_steps`,
//! `edges`, `tidy`, `examples`, `soak`, `bench`), then what they share (`process`, `workspace`).
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a terminal is the only reader of this tool")]

mod bench;
mod cargo_steps;
mod ci;
mod edges;
mod examples;
mod process;
mod setup;
mod soak;
mod tidy;
mod workspace;

fn main() -> std::process::ExitCode {
    ci::main(std::env::args().nth(1).as_deref())
}
