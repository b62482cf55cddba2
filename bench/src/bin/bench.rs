//! Measures sections of `docs/performance.md`: `cargo xtask bench`, which builds and installs what this needs and
//! starts `bench SECTIONS [SECONDS [TURNS [BEFORE]]]`, where SECTIONS have commas between and BEFORE is another
//! build of `tollgate`.
#![expect(clippy::print_stdout, reason = "it prints tables")]

use anyhow::{Context as _, Result};
use tollgate_bench::compare::{self, Turns};
use tollgate_bench::report::page;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let sections = arguments.next().context("which sections?")?;
    let mut turns = Turns::default();
    if let Some(seconds) = arguments.next() {
        turns.seconds = seconds.parse().with_context(|| format!("'{seconds}' is no number of seconds"))?;
    }
    if let Some(count) = arguments.next() {
        turns.count = count.parse().with_context(|| format!("'{count}' is no number of turns"))?;
    }
    turns.before = arguments.next().map(Into::into);
    for name in sections.split(',') {
        println!("== {name}");
        let section = compare::run(name, &turns)?;
        println!("{}", section.text);
        // Rows of another build are for whoever compares them, not for the page.
        if turns.before.is_none() {
            page::keep(name, &section)?;
        }
    }
    Ok(())
}
