//! The table of a comparison: medians over all turns, and each row beside the first, turn by turn.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tollgate_load::LoadReport;

use crate::figures::{millis, plotted, two_places};
use crate::report::Section;
use crate::report::plot::{Labels, bars};
use crate::report::samples::Samples;
use crate::report::table::MarkdownTable;

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
            cpu_ns: report.server_cpu_ns().context("the system does not tell the CPU time of the server")?,
            p50: report.latencies.p50,
            p99: report.latencies.p99,
        })
    }
}

/// One server and its turns.
#[derive(Default)]
struct ContestRow {
    name: String,
    per_second: Samples,
    cpu_ns: Samples,
    p50_us: Samples,
    p99_us: Samples,
}

/// Several servers under the same load, for several turns.
pub(super) struct Contest {
    title: String,
    rows: Vec<ContestRow>,
}

impl Contest {
    pub(super) fn new(title: &str, names: impl Iterator<Item = String>) -> Self {
        let rows = names.map(|name| ContestRow { name, ..ContestRow::default() });
        Self { title: title.to_owned(), rows: rows.collect() }
    }

    pub(super) fn add(&mut self, row: usize, figures: LoadFigures) {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        if let Some(row) = self.rows.get_mut(row) {
            row.per_second.add(figures.per_second);
            row.cpu_ns.add(figures.cpu_ns);
            row.p50_us.add(micros(figures.p50));
            row.p99_us.add(micros(figures.p99));
        }
    }

    /// What each second row takes more than the one before it.
    pub(super) fn say_pairs(&self, title: &str, section: &mut Section) {
        let mut table = MarkdownTable::new([title, "CPU µs", "half of the turns", "beside the row without"]);
        for pair in self.rows.chunks_exact(2) {
            let [without, with] = pair else { continue };
            let [low, median, high] = with.cpu_ns.quartiles_above(&without.cpu_ns);
            table.row([
                with.name.clone(),
                signed_micros(median),
                format!("{} to {}", signed_micros(low), signed_micros(high)),
                two_places(with.cpu_ns.median_ratio(&without.cpu_ns)),
            ]);
        }
        section.say(&table.to_string());
    }

    /// The table, and bars of the CPU time under a file name of their own.
    pub(super) fn into_section(self, plot: &str, section: &mut Section) {
        section.say(&self.table());
        let title = format!("{}: CPU time of a request", self.title);
        let values = self.rows.iter().map(|row| (row.name.clone(), plotted(row.cpu_ns.median(), 1_000)));
        let labels = Labels { title: &title, x: "", y: "µs of the server's CPU time for a request" };
        section.show(plot, &title, bars(labels, &values.collect::<Vec<_>>()));
    }

    fn table(&self) -> String {
        let head = [
            &*self.title,
            "/s",
            "±",
            "beside the first",
            "CPU µs",
            "±",
            "beside the first",
            "p50 ms",
            "p99 ms",
        ];
        let mut table = MarkdownTable::new(head);
        let Some(first) = self.rows.first() else { return String::new() };
        for row in &self.rows {
            let beside = |own: &Samples, first: &Samples| two_places(own.median_ratio(first));
            table.row([
                row.name.clone(),
                row.per_second.median().to_string(),
                format!("{} %", row.per_second.spread_percent()),
                beside(&row.per_second, &first.per_second),
                two_places(row.cpu_ns.median() / 10),
                format!("{} %", row.cpu_ns.spread_percent()),
                beside(&row.cpu_ns, &first.cpu_ns),
                millis(Duration::from_micros(row.p50_us.median())),
                millis(Duration::from_micros(row.p99_us.median())),
            ]);
        }
        table.to_string()
    }
}

/// Nanoseconds as microseconds with two places.
fn signed_micros(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "−" } else { "" }, two_places(ns.unsigned_abs() / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_compared_turn_by_turn() {
        let figures =
            |cpu_ns| LoadFigures { per_second: 1, cpu_ns, p50: Duration::ZERO, p99: Duration::ZERO };
        let mut contest = Contest::new("", ["off", "on"].map(str::to_owned).into_iter());
        for (row, turns) in [[10_000, 20_000, 10_100], [11_000, 21_000, 10_050]].into_iter().enumerate() {
            turns.into_iter().for_each(|cpu_ns| contest.add(row, figures(cpu_ns)));
        }
        let mut section = Section::default();
        contest.say_pairs("adds", &mut section);
        let row = section.text.lines().nth(2).unwrap();
        let words: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(words, ["", "on", "1.00", "−0.05 to 1.00", "1.05", ""]);
    }

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
        let mut section = Section::default();
        contest.into_section("one", &mut section);
        let words = |line: usize| {
            let line = section.text.lines().nth(line).unwrap();
            line.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>()
        };
        assert_eq!(words(2), ["peer", "100", "105", "%", "1.00", "7.50", "0", "%", "1.00", "0.50", "1.25"]);
        assert_eq!(words(3), ["own", "150", "47", "%", "1.51", "7.50", "0", "%", "1.00", "0.50", "1.25"]);
        assert!(section.text.ends_with("(performance/one.svg)\n\n"), "{}", section.text);
    }
}
