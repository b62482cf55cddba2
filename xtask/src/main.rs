//! `cargo xtask`: everything CI runs, the same at home.
//!
//! `ci` has the steps, `process` and `workspace` what they share; every other file is a step, or several.
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
    let words: Vec<String> = std::env::args().skip(1).collect();
    ci::main(&words.iter().map(String::as_str).collect::<Vec<_>>())
}
