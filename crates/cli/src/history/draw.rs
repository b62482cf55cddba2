//! A curve in the terminal, of block characters.
//!
//! One column a bucket, eight steps of height in each line. Denials are at the foot of
//! each column in red; a dot is a bucket in which no server was counting.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};

use tollgate_history::SeriesKind;
use tollgate_history::query::{Curve, SeriesResult};

use super::table::{grouped, moment, span_words};
use crate::console::{BAD, BOLD, DIM, clean};

/// Columns of what is no terminal.
const WIDTH: u16 = 80;
/// Columns that the axis and its numbers take at most.
const AXIS: u16 = 14;
/// Fewer columns are no curve, and more no help.
const COLUMNS: std::ops::RangeInclusive<u16> = 20..=400;

/// Buckets that fit beside the axis.
pub(crate) fn columns() -> u64 {
    let is_terminal = io::stdout().is_terminal();
    let size = is_terminal.then(ratatui::crossterm::terminal::size).and_then(Result::ok);
    let width = size.map_or(WIDTH, |(width, _)| width);
    u64::from(width.saturating_sub(AXIS).clamp(*COLUMNS.start(), *COLUMNS.end()))
}

/// Names above the curve.
const TITLES_MAX: usize = 3;

/// A key that more rules count is drawn as one.
const PICTURES_MAX: usize = 8;

/// Lines of the curve.
const LINES: u64 = 8;

/// From nothing to a full cell.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One column: everything, and what of it was denied.
type CurveColumns = BTreeMap<u64, (u64, u64)>;

/// A picture for each name, or one of all where there are many. A key has one for each of its
/// rules, since a request counts under all of them and a sum would count it twice.
pub(super) fn curve(kind: SeriesKind, result: &SeriesResult, out: &mut dyn Write) -> io::Result<()> {
    let mut titles: Vec<String> = Vec::new();
    for own in result.series.iter().map(title) {
        if !titles.contains(&own) {
            titles.push(own);
        }
    }
    if kind == SeriesKind::Key && (2..=PICTURES_MAX).contains(&titles.len()) {
        for own in &titles {
            let curves: Vec<&Curve> = result.series.iter().filter(|curve| title(curve) == *own).collect();
            picture(&format!("{kind} {}", clean(own)), &curves, result, out)?;
        }
    } else {
        let what = format!("{kind} {}", clean(&shortened(titles)));
        picture(&what, &result.series.iter().collect::<Vec<_>>(), result, out)?;
    }
    if let Some(before) = &result.compare {
        writeln!(out, "{}: {}", span_words(before.from, before.to), grouped(before.total))?;
    }
    Ok(())
}

/// Some curves on top of each other, with a title and what they add up to.
fn picture(what: &str, curves: &[&Curve], result: &SeriesResult, out: &mut dyn Write) -> io::Result<()> {
    let mut columns = CurveColumns::new();
    for curve in curves {
        for (start, count) in &curve.points {
            let column = columns.entry(*start).or_default();
            column.0 += count;
            column.1 += if curve.outcome == "denied" { *count } else { 0 };
        }
    }
    writeln!(out, "{BOLD}{what}{BOLD:#}, {}", span_words(result.from, result.to))?;
    let first = result.from - result.from % result.step_s;
    let starts: Vec<u64> =
        (first..result.to).step_by(usize::try_from(result.step_s).unwrap_or(usize::MAX)).collect();
    let bars: Vec<Option<(u64, u64)>> = starts.iter().map(|start| columns.get(start).copied()).collect();
    self::bars(&bars, (result.from, result.to), out)?;
    foot(curves, result, out)
}

/// Columns beside an axis, and the first and the last second below it.
pub(crate) fn bars(bars: &[Option<(u64, u64)>], span: (u64, u64), out: &mut dyn Write) -> io::Result<()> {
    // Few buckets are drawn wider, so that the curve has the width that there is.
    let widen = usize::try_from(columns()).unwrap_or(1).checked_div(bars.len()).unwrap_or(1).max(1);
    let most = bars.iter().flatten().map(|(all, _)| *all).max().unwrap_or(1).max(1);
    let width = grouped(most).len();
    for line in (0..LINES).rev() {
        let label = if line == LINES - 1 { grouped(most) } else { String::new() };
        write!(out, "{label:>width$} {DIM}│{DIM:#}")?;
        let mut is_red = false;
        for bar in bars {
            let (cell, red) = cell(bar.as_ref(), line, most);
            paint(out, red, &mut is_red)?;
            for _ in 0..widen {
                write!(out, "{cell}")?;
            }
        }
        paint(out, false, &mut is_red)?;
        writeln!(out)?;
    }
    writeln!(out, "{:>width$} {DIM}└{}{DIM:#}", 0, "─".repeat(bars.len() * widen))?;
    axis(span, bars.len() * widen, width, out)
}

/// The first of them: `user_id=42 (shop/login)`.
fn shortened(mut titles: Vec<String>) -> String {
    let more = titles.len().saturating_sub(TITLES_MAX);
    titles.truncate(TITLES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    titles.join(", ") + &more
}

fn title(curve: &Curve) -> String {
    let name = if curve.name == "*" { "everything" } else { &curve.name };
    super::table::with_rule(name, curve.domain.as_deref(), curve.rule.as_deref())
}

fn paint(out: &mut dyn Write, red: bool, is_red: &mut bool) -> io::Result<()> {
    if red != *is_red {
        *is_red = red;
        if red { write!(out, "{BAD}") } else { write!(out, "{BAD:#}") }
    } else {
        Ok(())
    }
}

/// What a column has in a line, counted from below, and whether it was denied.
fn cell(column: Option<&(u64, u64)>, line: u64, most: u64) -> (char, bool) {
    let Some((all, denied)) = column else { return (if line == 0 { '·' } else { ' ' }, false) };
    let height = eighths(*all, most);
    let filled = height.saturating_sub(line * 8).min(8);
    let block = usize::try_from(filled).ok().and_then(|at| BLOCKS.get(at)).copied().unwrap_or(' ');
    (block, filled > 0 && eighths(*denied, most) > line * 8)
}

/// The height of a count in eighths of lines; something is never nothing.
fn eighths(count: u64, most: u64) -> u64 {
    let height = u128::from(count) * u128::from(LINES * 8) / u128::from(most);
    u64::try_from(height).unwrap_or(LINES * 8).max(u64::from(count > 0))
}

/// The times of the first and the last bucket.
fn axis((from, to): (u64, u64), columns: usize, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let (from, to) = (moment(from), moment(to));
    let between = (columns + 2).saturating_sub(from.len() + to.len()).max(1);
    writeln!(out, "{:>width$} {DIM}{from}{}{to}{DIM:#}", "", " ".repeat(between))
}

fn foot(curves: &[&Curve], result: &SeriesResult, out: &mut dyn Write) -> io::Result<()> {
    let total = curves.iter().map(|curve| curve.total).sum();
    write!(out, "total {BOLD}{}{BOLD:#}", grouped(total))?;
    for curve in curves {
        let style = if curve.outcome == "denied" { BAD } else { BOLD };
        write!(out, ", {} {style}{}{style:#}", curve.outcome.replace('_', " "), grouped(curve.total))?;
    }
    write!(out, "; a column is {}", tollgate_core::Micros::from_secs(result.step_s))?;
    writeln!(out, "{}", if result.partial_last { ", the last is not over" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_two_rules_is_two_pictures_and_nothing_adds_them_up() {
        let curve = |rule: &str, outcome: &'static str, total| Curve {
            name: "user_id=42".to_owned(),
            domain: Some("shop".to_owned()),
            rule: Some(rule.to_owned()),
            outcome: outcome.into(),
            total,
            points: vec![(0, total), (60, 0)],
        };
        let series = vec![
            curve("burst", "allowed", 10),
            curve("sustained", "allowed", 40),
            curve("burst", "denied", 30),
        ];
        let result = SeriesResult {
            from: 0,
            to: 120,
            step_s: 60,
            total: 80,
            partial_last: false,
            series,
            compare: None,
        };
        let mut out = Vec::new();
        super::curve(SeriesKind::Key, &result, &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        let told: Vec<&str> =
            text.lines().filter(|line| line.contains("shop/") || line.contains("total")).collect();
        assert_eq!(told.len(), 4, "{text}");
        assert!(told[0].starts_with("key user_id=42 (shop/burst), "), "{text}");
        assert!(told[1].starts_with("total 40, allowed 10, denied 30; "), "{text}");
        assert!(told[2].starts_with("key user_id=42 (shop/sustained), "), "{text}");
        assert!(told[3].starts_with("total 40, allowed 40; "), "{text}");
    }

    #[test]
    fn heights_are_in_proportion_and_something_is_never_nothing() {
        let column = |all, denied| [7, 3, 0].map(|line| cell(Some(&(all, denied)), line, 1_000));
        assert_eq!(column(1_000, 500), [('█', false), ('█', true), ('█', true)]);
        assert_eq!(column(1, 0), [(' ', false), (' ', false), ('▁', false)]);
        assert_eq!(column(0, 0), [(' ', false), (' ', false), (' ', false)]);
        assert_eq!(cell(None, 0, 1_000), ('·', false));
        assert_eq!(cell(Some(&(u64::MAX, 0)), 7, u64::MAX), ('█', false));
    }
}
