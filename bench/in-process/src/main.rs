//! Runs `instructions` (for callgrind), `scaling` or `pause`, and prints what was measured.
#![expect(clippy::print_stdout, reason = "whoever started it reads the samples")]

use tollgate_in_process::{instructions, pause, scaling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut print = |case: &str, name: &str, value: u64| println!("{case}\t{name}\t{value}");
    match std::env::args().nth(1).as_deref() {
        Some("instructions") => instructions::run()?,
        Some("scaling") => scaling::run(&mut print)?,
        Some("pause") => pause::run(&mut print)?,
        _ => return Err("write instructions, scaling or pause".into()),
    }
    Ok(())
}
