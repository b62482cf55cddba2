//! The step `instructions`: counts the instructions of the core paths by callgrind, and compares them with
//! `bench/in-process/counts.txt`, a ratchet.
//!
//! Time on a busy machine tells nothing, and a count is the same everywhere: the program is
//! `bench/in-process`, built as a release, and callgrind counts one function of it. glibc is told to use
//! its plain copies of memory, so that the processor does not matter. Another compiler makes other code, so
//! a table of another compiler is told and not enforced.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::Invocation;
use crate::workspace;

const TABLE: &str = "bench/in-process/counts.txt";
/// A path may take so many hundredths more before it fails: what a changed neighbour does to inlining.
const MARGIN_PERCENT: u64 = 3;
/// How often a case runs inside of what is counted: `TIMES` of the program.
const TIMES: u64 = 1_000;
/// The function that is counted.
const COUNTED: &str = "tollgate_in_process::instructions::counted";

/// What a table says, or what was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    /// The compiler and the machine's instruction set.
    built_by: String,
    cases: Vec<(String, u64)>,
}

/// Counts and compares; with `--accept` it writes the table instead.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_accepting = match arguments {
        [] => false,
        ["--accept"] => true,
        other => bail!("it takes --accept or nothing, and not {}", other.join(" ")),
    };
    let counted = count()?;
    let file = workspace::root().join(TABLE);
    if is_accepting {
        fs::write(&file, counted.text()).with_context(|| format!("cannot write {TABLE}"))?;
        println!("{} cases are in {TABLE}", counted.cases.len());
        return Ok(());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {TABLE}"))?;
    let report = compare(&Counts::parse(&text).with_context(|| format!("{TABLE} is no table"))?, &counted);
    print!("{}", report.text);
    ensure!(
        report.grown == 0,
        "{} of the paths above take more than {MARGIN_PERCENT} % more instructions; if that is worth it: \
         cargo xtask instructions --accept",
        report.grown
    );
    Ok(())
}

fn count() -> Result<Counts> {
    Invocation::new("cargo", &["build", "--release", "--locked", "-p", "tollgate-in-process"]).run()?;
    let target = workspace::target()?;
    let folder = target.join("instructions");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let (out, program) = (folder.join("out"), target.join("release/tollgate-in-process"));
    let arguments = [
        "--tool=callgrind".to_owned(),
        format!("--zero-before={COUNTED}"),
        format!("--dump-after={COUNTED}"),
        format!("--callgrind-out-file={}", out.display()),
        program.display().to_string(),
        "instructions".to_owned(),
    ];
    let names = Invocation {
        settings: &[("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX2,-ERMS,-FSRM")],
        program: "valgrind",
        arguments: &arguments.each_ref().map(String::as_str),
    }
    .capture()
    .context("callgrind is in Debian's package valgrind; `cargo xtask setup` installs it")?;
    let version = Invocation::new("rustc", &["--version"]).capture()?;
    let cases = names.lines().enumerate();
    let cases = cases.map(|(at, name)| Ok((name.to_owned(), dumped(&out, at + 1)? / TIMES)));
    let built_by = format!("{} {}", version.trim(), std::env::consts::ARCH);
    Ok(Counts { built_by, cases: cases.collect::<Result<_>>()? })
}

/// What callgrind wrote when the counted function ended for the nth time.
fn dumped(out: &Path, nth: usize) -> Result<u64> {
    let path = PathBuf::from(format!("{}.{nth}", out.display()));
    let text = fs::read_to_string(&path).with_context(|| format!("callgrind wrote no {}", path.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.with_context(|| format!("{} has no total", path.display()))
}

impl Counts {
    fn text(&self) -> String {
        let head = "# Instructions of each path, by `cargo xtask instructions`; `--accept` writes them anew.";
        let lines = self.cases.iter().map(|(name, count)| format!("{count:>7} {name}\n"));
        format!("{head}\n{}\n{}", self.built_by, lines.collect::<String>())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let built_by = lines.next()?.to_owned();
        let case = |line: &str| {
            let (count, name) = line.trim().split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Some(Self { built_by, cases: lines.map(case).collect::<Option<_>>()? })
    }
}

/// A comparison, and how many cases have grown by more than the margin.
struct CountReport {
    text: String,
    grown: usize,
}

fn compare(table: &Counts, counted: &Counts) -> CountReport {
    let is_same_compiler = table.built_by == counted.built_by;
    let mut report = CountReport { text: String::new(), grown: 0 };
    let mut say = |line: &str| writeln!(report.text, "{line}").expect("a text takes every line");
    say(&format!("{:>7} {:>7}  path", "before", "now"));
    for (name, now) in &counted.cases {
        let before = table.cases.iter().find(|(other, _)| other == name).map(|(_, count)| *count);
        let Some(before) = before else {
            say(&format!("{:>7} {now:>7}  {name}: new, accept it", "-"));
            report.grown += 1;
            continue;
        };
        let (more, less) = (before * (100 + MARGIN_PERCENT), before * (100 - MARGIN_PERCENT));
        let word = match now * 100 {
            now if now > more => ": more",
            now if now < less => ": fewer, accept it",
            _ => "",
        };
        report.grown += usize::from(word == ": more");
        say(&format!("{before:>7} {now:>7}  {name}{word}"));
    }
    if !is_same_compiler {
        say(&format!(
            "the table is of {}, and this is {}: nothing is enforced",
            table.built_by, counted.built_by
        ));
        report.grown = 0;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(built_by: &str, cases: &[(&str, u64)]) -> Counts {
        let cases = cases.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counts { built_by: built_by.to_owned(), cases }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let counts = counts("rustc 1 x86_64", &[("decide a log", 1_000), ("limiter allowed", 7)]);
        assert_eq!(Counts::parse(&counts.text()), Some(counts));
    }

    #[test]
    fn only_what_grew_by_more_than_the_margin_or_is_new_fails() {
        let table = counts("rustc 1", &[("same", 1_000), ("a bit", 1_000), ("much", 1_000), ("less", 1_000)]);
        let counted = [("same", 1_000), ("a bit", 1_030), ("much", 1_031), ("less", 900), ("unknown", 5)];
        let report = compare(&table, &counts("rustc 1", &counted));
        assert_eq!(report.grown, 2, "{}", report.text);
        for line in ["1000    1031  much: more", "1000     900  less: fewer", "-       5  unknown: new"] {
            assert!(report.text.contains(line), "{}", report.text);
        }
    }

    #[test]
    fn another_compiler_is_told_and_not_enforced() {
        let report = compare(&counts("rustc 1", &[("much", 10)]), &counts("rustc 2", &[("much", 20)]));
        assert_eq!(report.grown, 0);
        assert!(report.text.contains("of rustc 1, and this is rustc 2"), "{}", report.text);
    }
}
