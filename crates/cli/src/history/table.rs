//! Top lists and summaries as people read them.

use std::io::{self, Write};

use tollgate_history::SeriesKind;
use tollgate_history::query::{Summary, TimeRange, TopResult};
use tollgate_history::time_text::rfc3339;

use crate::console::{BOLD, DIM, clean};

/// The longest name that is shown in full.
const NAME_MAX: usize = 60;

pub(crate) fn top(kind: SeriesKind, top: &TopResult, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{BOLD}top {kind}s{BOLD:#}, {}", span_words(top.from, top.to))?;
    let all = top.rows.iter().map(|row| row.total).sum::<u64>() + top.other.total;
    let mut rows: Vec<[String; 4]> = vec![["total", "denied", "share", kind.name()].map(str::to_owned)];
    let row = |name: String, total, denied| [grouped(total), grouped(denied), share(total, all), name];
    rows.extend(top.rows.iter().map(|shown| row(shorten(&shown.name), shown.total, shown.denied)));
    rows.push(row("(other)".to_owned(), top.other.total, top.other.denied));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (total, denied, part) = (width(0), width(1), width(2));
    for [a, b, c, name] in &rows {
        writeln!(out, "{a:>total$}  {b:>denied$}  {c:>part$}  {name}")?;
    }
    Ok(())
}

pub(super) fn summary(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{BOLD}all requests{BOLD:#}, {}", span_words(summary.from, summary.to))?;
    let all = [
        ("total", summary.total),
        ("allowed", summary.allowed),
        ("soft", summary.soft),
        ("delayed", summary.delayed),
        ("denied", summary.denied),
        ("shadow denied", summary.shadow_denied),
        ("degraded", summary.degraded),
        ("busiest minute", summary.peak_minute),
    ];
    let width = all.iter().map(|(_, count)| grouped(*count).len()).max().unwrap_or(0);
    for (word, count) in all {
        writeln!(out, "{word:<15}{:>width$}", grouped(count))?;
    }
    Ok(())
}

/// Says that there is nothing to show, and where there would be something.
pub(super) fn nothing(newest: Option<u64>, range: TimeRange, out: &mut dyn Write) -> io::Result<()> {
    let Some(newest) = newest else { return writeln!(out, "nothing was ever counted here") };
    writeln!(out, "nothing was counted of this in that time")?;
    // The newest minute may end after the range.
    if (range.from_s..=range.to_s + 60).contains(&newest) {
        return writeln!(out, "{DIM}other counts are of then: try another --by: route, rule or key{DIM:#}");
    }
    let newest = rfc3339(newest);
    writeln!(out, "{DIM}the newest count is of {newest}: try --last 24h --to {newest}{DIM:#}")
}

/// `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In tenths of a percent, rounded down.
fn share(part: u64, all: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(all.max(1));
    format!("{}.{}%", tenths / 10, tenths % 10)
}

fn shorten(name: &str) -> String {
    let name = clean(name);
    if name.chars().count() <= NAME_MAX {
        return name.into_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

/// `2026-01-01 00:00`, in UTC.
pub(crate) fn moment(second: u64) -> String {
    let text = rfc3339(second);
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

pub(super) fn span_words(from: u64, to: u64) -> String {
    format!("{} to {} UTC", moment(from), moment(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_shares_rounded_down() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([share(1, 3), share(0, 0), share(5, 5)], ["33.3%", "0.0%", "100.0%"]);
    }

    #[test]
    fn long_names_are_cut_and_none_commands_the_terminal() {
        assert_eq!(shorten("/a\u{1b}[31m"), "/a\u{fffd}[31m");
        assert_eq!(shorten(&"ü".repeat(100)).chars().count(), NAME_MAX);
    }
}
