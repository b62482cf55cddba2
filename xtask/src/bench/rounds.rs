//! What several rounds over several servers come to: medians, in a table.

use std::fmt::Write as _;

/// What one load of one server came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    /// CPU time of the server for each answer.
    pub(super) cpu_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// One row of a table: who was asked what, and what came of it in each round.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) rounds: Vec<Figures>,
}

impl Row {
    fn median(&self) -> Option<Figures> {
        let of = |figure: fn(&Figures) -> f64| median(self.rounds.iter().map(figure).collect());
        Some(Figures {
            per_second: of(|figures| figures.per_second)?,
            cpu_us: of(|figures| figures.cpu_us)?,
            p50_us: of(|figures| figures.p50_us)?,
            p99_us: of(|figures| figures.p99_us)?,
        })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The medians of all rows, each beside the first, which is the one to compare with.
#[expect(clippy::float_arithmetic, reason = "for people to read")]
pub(super) fn table(title: &str, rows: &[Row]) -> String {
    let mut table =
        format!("{title:<40} {:>12} {:>7} {:>10} {:>9} {:>9}\n", "/s", "ratio", "CPU µs", "p50 ms", "p99 ms");
    let first = rows.first().and_then(Row::median);
    for row in rows {
        let Some(Figures { per_second, cpu_us, p50_us, p99_us }) = row.median() else { continue };
        let ratio = first.map_or(1.0, |first| per_second / first.per_second);
        let (p50_ms, p99_ms) = (p50_us / 1_000.0, p99_us / 1_000.0);
        writeln!(
            table,
            "{:<40} {per_second:>12.0} {ratio:>7.2} {cpu_us:>10.2} {p50_ms:>9.2} {p99_ms:>9.2}",
            row.name
        )
        .expect("writing to a string cannot fail");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_medians_and_compares_with_the_first_row() {
        let figures = |per_second| Figures { per_second, cpu_us: 7.5, p50_us: 500.0, p99_us: 1_250.0 };
        let row = |name: &str, rates: [f64; 3]| Row { name: name.into(), rounds: rates.map(figures).into() };
        let table =
            table("pipeline 1", &[row("peer", [90.0, 300.0, 100.0]), row("own", [150.0, 10.0, 151.0])]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["peer", "100", "1.00", "7.50", "0.50", "1.25"]
        );
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["own", "150", "1.50", "7.50", "0.50", "1.25"]
        );
    }
}
