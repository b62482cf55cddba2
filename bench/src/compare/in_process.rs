//! Libraries, memory and pauses: runs the programs of `bench/peers` and `bench/in-process`, and makes tables
//! of the samples that they print.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::server_process::{peers_program, program};
use crate::figures::{plotted, ratio};
use crate::report::Section;
use crate::report::plot::{Labels, bars};
use crate::report::samples::{SampleSet, Samples, tenths, times};
use crate::report::table::MarkdownTable;

/// Whom all libraries are compared with.
const BEST_PEER: &str = "governor";

/// Where a process happens to have its memory makes one of the fastest checks some nanoseconds longer, or another.
const PROCESSES: usize = 3;

/// What a program prints, as samples.
pub(super) fn samples(program: &PathBuf, argument: &str) -> Result<SampleSet> {
    SampleSet::parse(&printed(program, argument)?)
}

fn printed(program: &PathBuf, argument: &str) -> Result<String> {
    let output =
        Command::new(program).arg(argument).output().with_context(|| format!("{}", program.display()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {argument} ended badly: {complaint}", program.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One check, in nanoseconds.
pub(super) fn speed(section: &mut Section) -> Result<()> {
    let program = peers_program()?;
    let printed = (0..PROCESSES).map(|_| printed(&program, "speed")).collect::<Result<String>>()?;
    let samples = SampleSet::parse(&printed)?;
    let cases: Vec<&str> = samples.cases().map(|(case, _)| case).collect();
    let mut table = MarkdownTable::new([&["ns"][..], &cases].concat());
    for (name, _) in samples.case(cases.first().context("no case was measured")?) {
        let cells = cases.iter().map(|case| cell(samples.case(case), name));
        table.row(std::iter::once(name.clone()).chain(cells));
    }
    section.say(&table.to_string());
    for (file, case) in [("in-process-one", "1 key, allowed"), ("in-process-many", "1 million keys")] {
        let title = format!("A check in process, {case}");
        let values: Vec<_> =
            samples.case(case).iter().map(|(name, of)| (name.clone(), plotted(of.median(), 10))).collect();
        let labels = Labels { title: &title, x: "", y: "ns for a check" };
        section.show(file, &title, bars(labels, &values));
    }
    Ok(())
}

/// Median, spread and ratio to the best peer.
fn cell(case: &[(String, Samples)], name: &str) -> String {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        case.iter().find(|(other, _)| wanted(other)).map(|(_, samples)| samples)
    };
    let (Some(own), Some(peer)) = (of(&|other| other == name), of(&|other| other.starts_with(BEST_PEER)))
    else {
        return "–".to_owned();
    };
    let (least, most) = own.spread();
    let ratio = times(peer.median_ratio(own));
    format!("{} ({}–{}), {ratio}", tenths(own.median()), tenths(least), tenths(most))
}

/// Bytes for each key.
pub(super) fn memory(section: &mut Section) -> Result<()> {
    let samples = samples(&peers_program()?, "memory")?;
    let mut table = MarkdownTable::new(["what", "keys", "bytes a key"]);
    for (name, counts) in samples.cases() {
        for (count, bytes) in counts {
            table.row([name.to_owned(), count.clone(), tenths(bytes.median())]);
        }
    }
    section.say(&table.to_string());
    Ok(())
}

/// Single checks while keys expire.
pub(super) fn pause(section: &mut Section) -> Result<()> {
    let samples = samples(&program("tollgate-in-process")?, "pause")?;
    let mut table =
        MarkdownTable::new(["a check while", "median", "p99.9", "longest", "p99.9 beside the median"]);
    for (name, figures) in samples.cases() {
        let of = |wanted: &str| {
            figures.iter().find(|(figure, _)| figure == wanted).map_or(0, |(_, samples)| samples.median())
        };
        let (median, most) = (of("median"), of("p99.9"));
        let ratio = times(ratio(most, median));
        table.row([name.to_owned(), median.to_string(), most.to_string(), of("longest").to_string(), ratio]);
    }
    section.say(&table.to_string());
    Ok(())
}
