//! The table of steps and the runner that `cargo xtask ci` and `cargo xtask <step>` share.
//!
//! First in the flow: `main` hands the word that was typed to this file, which calls the steps.
//! Invariant: CI runs the table in order and nothing else, so whatever passes here passes there.
//! Cheap steps come first. What a step does is not here but in the step's own file.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use Run::{Plain, WithArguments};

use crate::{bench, cargo_steps, conformance, edges, examples, setup, tidy};

/// One check that CI makes.
struct CiStep {
    name: &'static str,
    what: &'static str,
    run: Run,
}

/// How a step is started.
#[derive(Clone, Copy)]
enum Run {
    Plain(fn() -> Result<()>),
    /// With the words behind its name.
    WithArguments(fn(&[&str]) -> Result<()>),
}

const STEPS: &[CiStep] = &[
    CiStep { name: "setup", what: "the packages that the tests need are there", run: Plain(setup::run) },
    CiStep { name: "fmt", what: "the formatting is rustfmt's", run: Plain(cargo_steps::fmt) },
    CiStep { name: "tidy", what: "the house rules that a program can check", run: Plain(tidy::run) },
    CiStep {
        name: "edges",
        what: "no crate sees one that it must not, and no modules use each other",
        run: Plain(edges::run),
    },
    CiStep { name: "clippy", what: "no warnings, in tests too", run: Plain(cargo_steps::clippy) },
    CiStep {
        name: "doc",
        what: "the documentation builds and no link is dead",
        run: Plain(cargo_steps::doc),
    },
    CiStep {
        name: "test",
        what: "all tests, documentation examples included",
        run: Plain(cargo_steps::test),
    },
    CiStep {
        name: "instructions",
        what: "the core paths take no more instructions than before, by callgrind",
        run: WithArguments(bench::instructions::run),
    },
    CiStep {
        name: "examples",
        what: "every rule file that people may copy works",
        run: Plain(examples::run),
    },
    CiStep {
        name: "dashboard",
        what: "the dashboard in a real browser, over a real server",
        run: Plain(cargo_steps::dashboard),
    },
    CiStep { name: "soak", what: "memory stays flat under made-up keys, for 20 s", run: Plain(bench::soak) },
];

/// What takes too long for CI, or needs a quiet machine.
const ON_DEMAND: &[CiStep] = &[
    CiStep {
        name: "soak-long",
        what: "the same for 3 minutes, with the release build",
        run: Plain(bench::long_soak),
    },
    CiStep {
        name: "bench",
        what: "Tollgate beside its peers, into docs/performance.md; --only NAME for one section",
        run: WithArguments(bench::run),
    },
    CiStep {
        name: "bench-gateway",
        what: "one section of it: proxies with limits, in front of one upstream",
        run: WithArguments(bench::gateway),
    },
    CiStep {
        name: "bench-elastic",
        what: "an elastic limit before an upstream of fixed capacity, and a crowd",
        run: WithArguments(bench::elastic),
    },
    CiStep {
        name: "conformance",
        what: "h2spec on the gRPC listener and the gateway, where Go is there",
        run: Plain(conformance::run),
    },
];

/// Runs what was asked for. Exit codes are decided here and nowhere else: 1 for a failed step, 2
/// for a word that is no step.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let mut words = words.iter().map(String::as_str);
    let (name, arguments) = (words.next(), words.collect::<Vec<_>>());
    let steps = match name {
        Some("ci") => STEPS,
        Some("help" | "-h" | "--help") => {
            println!("{}", usage());
            return ExitCode::SUCCESS;
        }
        Some(name) => match STEPS.iter().chain(ON_DEMAND).find(|step| step.name == name) {
            Some(step) => std::slice::from_ref(step),
            None => return refuse(&format!("there is no step `{name}`")),
        },
        None => return refuse("which step?"),
    };
    if let Some(word) = arguments.first().filter(|_| !matches!(steps, [CiStep { run: WithArguments(_), .. }]))
    {
        return refuse(&format!("it takes no arguments, and '{word}' is one"));
    }
    match run(steps, &arguments, &mut io::stdout(), stopwatch()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{error:#}");
            ExitCode::from(1)
        }
    }
}

fn refuse(problem: &str) -> ExitCode {
    eprintln!("{problem}\n\n{}", usage());
    ExitCode::from(2)
}

fn usage() -> String {
    let list = |steps: &[CiStep]| {
        let lines = steps.iter().map(|step| format!("\n  {:<14}{}", step.name, step.what));
        lines.collect::<String>()
    };
    let (always, on_demand) = (list(STEPS), list(ON_DEMAND));
    format!(
        "cargo xtask <step>\n\n  ci            every step below, in this order{always}\n\nonly on demand, \
         bench with [SECONDS [TURNS [BEFORE]]] for each server:{on_demand}"
    )
}

/// Runs the steps in order up to the first that fails. `elapsed` tells the time since the start.
fn run(
    steps: &[CiStep],
    arguments: &[&str],
    out: &mut impl Write,
    elapsed: impl Fn() -> Duration,
) -> Result<()> {
    for step in steps {
        writeln!(out, "\n== {}: {}", step.name, step.what)?;
        let start = elapsed();
        let outcome = match step.run {
            Plain(run) => run(),
            WithArguments(run) => run(arguments),
        };
        let took = seconds(elapsed().saturating_sub(start));
        outcome.map_err(|error| failure(step, &took, &error))?;
        writeln!(out, "-- {} passed in {took}", step.name)?;
    }
    if steps.len() > 1 {
        writeln!(out, "\n== all {} steps passed in {}", steps.len(), seconds(elapsed()))?;
    }
    Ok(())
}

fn failure(step: &CiStep, took: &str, error: &anyhow::Error) -> anyhow::Error {
    let name = step.name;
    anyhow!("{error:#}\n\n== {name} failed after {took}\n   only this step again: cargo xtask {name}")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "how long a step takes is real time, and decides nothing")]
fn stopwatch() -> impl Fn() -> Duration {
    let start = Instant::now();
    move || start.elapsed()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use anyhow::bail;

    use super::*;

    const GOOD: CiStep = CiStep { name: "good", what: "passes", run: Plain(|| Ok(())) };
    const BAD: CiStep = CiStep { name: "bad", what: "fails", run: Plain(|| bail!("two and two are five")) };

    /// Runs the steps on a clock that moves on by 1.5 s each time it is read.
    fn transcript(steps: &[CiStep]) -> (String, Option<String>) {
        let now = Cell::new(Duration::ZERO);
        let elapsed = || now.replace(now.get() + Duration::from_millis(1_500));
        let mut out = Vec::new();
        let error = run(steps, &[], &mut out, elapsed).err().map(|error| error.to_string());
        (String::from_utf8(out).unwrap(), error)
    }

    #[test]
    fn each_step_has_a_heading_and_a_duration_and_the_end_has_the_total() {
        let (out, error) = transcript(&[GOOD, GOOD]);
        let step = "\n== good: passes\n-- good passed in 1.5 s\n";
        assert_eq!(out, format!("{step}{step}\n== all 2 steps passed in 6.0 s\n"));
        assert_eq!(error, None);
    }

    #[test]
    fn the_first_failure_ends_the_run_and_says_how_to_repeat_the_step() {
        let (out, error) = transcript(&[GOOD, BAD, GOOD]);
        assert_eq!(out, "\n== good: passes\n-- good passed in 1.5 s\n\n== bad: fails\n");
        let expected =
            "two and two are five\n\n== bad failed after 1.5 s\n   only this step again: cargo xtask bad";
        assert_eq!(error.as_deref(), Some(expected));
    }

    #[test]
    fn every_step_has_its_own_name_and_is_in_the_help() {
        let steps = || STEPS.iter().chain(ON_DEMAND);
        let names: BTreeSet<_> = steps().map(|step| step.name).chain(["ci", "help"]).collect();
        assert_eq!(names.len(), steps().count() + 2);
        for step in steps() {
            assert!(usage().contains(&format!("\n  {} ", step.name)), "{}", step.name);
        }
    }
}
