//! The table of a comparison: medians over all turns, each row beside the first.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tollgate_load::LoadReport;

use crate::figures::{millis, ratio, two_places};

/// What one load of one server came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadFigures {
    pub(super) per_second: u64,
    /// CPU time of the server for each response.
    pub(super) cpu_ns: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

impl LoadFigures {
    pub(super) fn of(report: &LoadReport) -> Result<Self> {
        Ok(Self {
            per_second: report.per_second(),
            cpu_ns: report.server_cpu_ns().context("/proc does not tell the CPU time of the server")?,
            p50: report.latencies.p50,
            p99: report.latencies.p99,
        })
    }
}

/// Several servers under the same load, for several turns.
pub(super) struct Contest {
    title: String,
    rows: Vec<(String, Vec<LoadFigures>)>,
}

impl Contest {
    pub(super) fn new(title: &str, names: impl Iterator<Item = String>) -> Self {
        Self { title: title.to_owned(), rows: names.map(|name| (name, Vec::new())).collect() }
    }

    pub(super) fn add(&mut self, row: usize, figures: LoadFigures) {
        if let Some((_, turns)) = self.rows.get_mut(row) {
            turns.push(figures);
        }
    }
}

/// Each figure's own median.
fn medians(turns: &[LoadFigures]) -> Option<LoadFigures> {
    Some(LoadFigures {
        per_second: median(turns.iter().map(|figures| figures.per_second))?,
        cpu_ns: median(turns.iter().map(|figures| figures.cpu_ns))?,
        p50: median(turns.iter().map(|figures| figures.p50))?,
        p99: median(turns.iter().map(|figures| figures.p99))?,
    })
}

fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<44} {:>10} {:>6} {:>9} {:>6} {:>9} {:>9}",
            self.title, "/s", "ratio", "CPU µs", "ratio", "p50 ms", "p99 ms"
        )?;
        let first = self.rows.first().and_then(|(_, turns)| medians(turns));
        for (name, turns) in &self.rows {
            let (Some(figures), Some(first)) = (medians(turns), first) else { continue };
            let LoadFigures { per_second, cpu_ns, p50, p99 } = figures;
            let [speed, cpu] = [(per_second, first.per_second), (cpu_ns, first.cpu_ns)]
                .map(|(own, first)| two_places(ratio(own, first)));
            let [p50, p99] = [p50, p99].map(millis);
            let cpu_us = two_places(cpu_ns / 10);
            writeln!(f, "{name:<44} {per_second:>10} {speed:>6} {cpu_us:>9} {cpu:>6} {p50:>9} {p99:>9}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_medians_and_compares_with_the_first_row() {
        let figures = |per_second| LoadFigures {
            per_second,
            cpu_ns: 7_500,
            p50: Duration::from_micros(500),
            p99: Duration::from_micros(1_250),
        };
        let mut contest = Contest::new("pipeline 1", ["peer", "own"].map(str::to_owned).into_iter());
        for (row, rates) in [[90, 300, 100], [150, 10, 151]].into_iter().enumerate() {
            rates.into_iter().for_each(|rate| contest.add(row, figures(rate)));
        }
        let table = contest.to_string();
        let words = |line: usize| table.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(1), ["peer", "100", "1.00", "7.50", "1.00", "0.50", "1.25"]);
        assert_eq!(words(2), ["own", "150", "1.50", "7.50", "1.00", "0.50", "1.25"]);
    }
}
