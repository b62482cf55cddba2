//! What is measured, beside what is promised.

use std::fmt;

/// One figure.
#[derive(Debug)]
struct BoundsRow {
    what: &'static str,
    bound: String,
    seen: String,
    is_met: bool,
}

/// All figures.
#[derive(Debug, Default)]
pub struct BoundsTable {
    rows: Vec<BoundsRow>,
}

impl BoundsTable {
    /// A figure that is to be at most so much, in hundredths of a unit.
    pub fn at_most(&mut self, what: &'static str, bound: u64, seen: u64, unit: &'static str) {
        let is_met = seen <= bound;
        self.push(
            what,
            format!("≤ {} {unit}", hundredths(bound)),
            format!("{} {unit}", hundredths(seen)),
            is_met,
        );
    }

    /// A figure that is to be at least so much, in hundredths of a unit.
    pub fn at_least(&mut self, what: &'static str, bound: u64, seen: u64, unit: &'static str) {
        let is_met = seen >= bound;
        self.push(
            what,
            format!("≥ {} {unit}", hundredths(bound)),
            format!("{} {unit}", hundredths(seen)),
            is_met,
        );
    }

    /// A figure without a bound, in hundredths of a unit.
    pub fn note(&mut self, what: &'static str, seen: u64, unit: &'static str) {
        self.push(what, "–".into(), format!("{} {unit}", hundredths(seen)), true);
    }

    fn push(&mut self, what: &'static str, bound: String, seen: String, is_met: bool) {
        self.rows.push(BoundsRow { what, bound, seen, is_met });
    }

    /// How many bounds are not met.
    pub fn missed(&self) -> usize {
        self.rows.iter().filter(|row| !row.is_met).count()
    }
}

impl fmt::Display for BoundsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | bound | seen |\n|---|---|---|")?;
        for BoundsRow { what, bound, seen, is_met } in &self.rows {
            let mark = if *is_met { "" } else { " **missed**" };
            writeln!(f, "| {what} | {bound} | {seen}{mark} |")?;
        }
        Ok(())
    }
}

fn hundredths(value: u64) -> String {
    match (value / 100, value % 100) {
        (whole, 0) => whole.to_string(),
        (whole, part) => format!("{whole}.{part:02}"),
    }
}
