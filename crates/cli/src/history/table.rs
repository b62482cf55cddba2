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
    // A rule belongs to a domain, and a key to a rule.
    let columns = match kind {
        SeriesKind::Route => 4,
        SeriesKind::Rule => 5,
        SeriesKind::Key => 6,
    };
    let head = ["total", "denied", "share", kind.name(), "domain", "rule"].map(str::to_owned);
    let row = |names: [&str; 3], total, denied| {
        let [name, domain, rule] = names.map(shorten);
        [grouped(total), grouped(denied), share(total, all), name, domain, rule]
    };
    let mut rows = vec![head];
    rows.extend(top.rows.iter().map(|shown| {
        let [domain, rule] = [&shown.domain, &shown.rule].map(|text| text.as_deref().unwrap_or_default());
        row([&shown.name, domain, rule], shown.total, shown.denied)
    }));
    rows.push(row(["(other)", "", ""], top.other.total, top.other.denied));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate().take(columns) {
            let width = width(column);
            // Numbers to the right, names to the left.
            line += &if column < 3 { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        writeln!(out, "{}", line.trim_end())?;
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

/// Says that nothing was counted at all.
pub(super) fn nothing_yet(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "nothing was counted yet")?;
    writeln!(out, "{DIM}history begins with the first request that a server decides{DIM:#}")
}

/// Says that there is nothing to show, and where there would be something: at another
/// time, or under the name that was meant.
pub(super) fn nothing(
    newest: u64,
    range: TimeRange,
    meant: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "nothing was counted of this in that time")?;
    if let Some(meant) = meant {
        return writeln!(out, "{DIM}did you mean {}?{DIM:#}", clean(meant));
    }
    // The newest minute may end after the range.
    if (range.from_s..=range.to_s + 60).contains(&newest) {
        return writeln!(out, "{DIM}other counts are of then: try another --by: route, rule or key{DIM:#}");
    }
    let newest = rfc3339(newest);
    writeln!(out, "{DIM}the newest count is of {newest}: try --last 24h --to {newest}{DIM:#}")
}

/// A name and where it belongs: `user_id=42 (shop/login)`, `login (shop)`, `/cart`.
pub(crate) fn with_rule(name: &str, domain: Option<&str>, rule: Option<&str>) -> String {
    let place: Vec<&str> = [domain, rule].into_iter().flatten().collect();
    if place.is_empty() { name.to_owned() } else { format!("{name} ({})", place.join("/")) }
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
pub(crate) fn share(part: u64, all: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(all.max(1));
    format!("{}.{}%", tenths / 10, tenths % 10)
}

pub(crate) fn shorten(name: &str) -> String {
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
