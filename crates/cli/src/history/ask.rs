//! Queries a source, and prints the result in the format that was asked for.

use std::io;

use serde::Serialize;
use tollgate_history::query::{RuleFilter, SeriesQuery, Tabular, TimeRange, TopQuery, csv, ndjson};
use tollgate_history::{Error, SeriesKind, time_text};

use super::source::{self, HistorySource, SourceError};
use super::{ForgetArgs, HistoryArgs, HistoryFormat, SeriesArgs, SummaryArgs, TopArgs, draw, table};
use crate::console::{BAD, Console, clean};

/// The result was printed, or could not be; or there is none.
pub(super) type Printed = Result<io::Result<()>, SourceError>;

pub(super) fn series_of_route(route: Option<String>, range: TimeRange) -> SeriesQuery {
    SeriesQuery { name: route, ..SeriesQuery::new(SeriesKind::Route, range) }
}

/// The query of the flags of `series`.
pub(super) fn series_query(args: &SeriesArgs, now_s: u64) -> Result<SeriesQuery, Error> {
    let range = args.time.range(now_s)?;
    let step_s =
        args.step.as_deref().map(|text| text.parse().or_else(|_| time_text::duration(text))).transpose()?;
    let compare = args.compare.as_deref().map(str::parse).transpose()?;
    let filter = (&args.rules).into();
    let name = args.name.clone();
    Ok(SeriesQuery { name, filter, step_s, compare, ..SeriesQuery::new(args.by.into(), range) })
}

pub(super) fn series(args: &HistoryArgs, mut query: SeriesQuery, console: &mut Console<'_>) -> Printed {
    let source = open(args, console)?;
    if args.format == HistoryFormat::Table {
        query.points = draw::columns();
    }
    let result = source.series(&query)?;
    Ok(match args.format {
        HistoryFormat::Table if result.total == 0 => {
            let name = query.name.as_deref().map(|name| (query.kind, name));
            nothing(&source, query.range, name.or(rule_of(&query.filter)), console)?
        }
        HistoryFormat::Table => draw::curve(query.kind, &result, console.out),
        other @ (HistoryFormat::Csv | HistoryFormat::Json | HistoryFormat::Ndjson) => {
            machine(other, &result, console)
        }
    })
}

pub(super) fn top(args: &TopArgs, now_s: u64, console: &mut Console<'_>) -> Printed {
    let range = args.time.range(now_s)?;
    let source = open(&args.history, console)?;
    let order = args.order.into();
    let filter = (&args.rules).into();
    let query = TopQuery { kind: args.by.into(), filter, range, order, limit: args.limit };
    let top = source.top(&query)?;
    Ok(match args.history.format {
        HistoryFormat::Table if top.rows.is_empty() && top.other.total == 0 => {
            nothing(&source, range, rule_of(&query.filter), console)?
        }
        HistoryFormat::Table => table::top(args.by.into(), &top, console.out),
        other @ (HistoryFormat::Csv | HistoryFormat::Json | HistoryFormat::Ndjson) => {
            machine(other, &top, console)
        }
    })
}

pub(super) fn summary(args: &SummaryArgs, now_s: u64, console: &mut Console<'_>) -> Printed {
    let range = args.time.range(now_s)?;
    let source = open(&args.history, console)?;
    let summary = source.summary(range)?;
    Ok(match args.history.format {
        HistoryFormat::Table if summary.total == 0 => nothing(&source, range, None, console)?,
        HistoryFormat::Table => table::summary(&summary, console.out),
        other @ (HistoryFormat::Csv | HistoryFormat::Json | HistoryFormat::Ndjson) => {
            machine(other, &summary, console)
        }
    })
}

pub(super) fn forget(args: &ForgetArgs, console: &mut Console<'_>) -> Printed {
    let filter = RuleFilter::from(&args.rules);
    let count = source::forget(args, &filter)?;
    let key = clean(&args.key);
    Ok(match count {
        0 => writeln!(console.out, "there is no key {key} in this history"),
        count => writeln!(
            console.out,
            "forgot {key}, which had counts under {}",
            crate::console::count(count, "rule")
        ),
    })
}

/// The rule that was asked for by its name.
fn rule_of(filter: &RuleFilter) -> Option<(SeriesKind, &str)> {
    filter.rule.as_deref().map(|rule| (SeriesKind::Rule, rule))
}

/// Says why there is nothing to show, of the series of that name if one was asked for.
fn nothing(
    source: &HistorySource,
    range: TimeRange,
    name: Option<(SeriesKind, &str)>,
    console: &mut Console<'_>,
) -> Printed {
    let Some(newest) = source.newest()? else { return Ok(table::nothing_yet(console.out)) };
    // A server notes minutes in which nothing came, too.
    if source.summary(TimeRange { from_s: 0, to_s: newest + 60 })?.total == 0 {
        return Ok(table::nothing_yet(console.out));
    }
    let meant = match name {
        Some((kind, name)) => source.nearest(kind, name)?,
        None => None,
    };
    Ok(table::nothing(newest, range, meant.as_deref(), console.out))
}

/// Opens the source, and says if a part of it is damaged.
fn open(args: &HistoryArgs, console: &mut Console<'_>) -> Result<HistorySource, SourceError> {
    let source = HistorySource::open(args)?;
    if source.damaged()? > 0 {
        let what = "parts of this history are damaged; their counts are lost, or counted without a name";
        // The answer matters more than a warning that cannot be printed.
        drop(writeln!(console.err, "{BAD}warning{BAD:#}: {what}"));
    }
    Ok(source)
}

fn machine(
    format: HistoryFormat,
    result: &(impl Tabular + Serialize),
    console: &mut Console<'_>,
) -> io::Result<()> {
    match format {
        HistoryFormat::Csv => console.out.write_all(csv(result).as_bytes()),
        HistoryFormat::Ndjson => console.out.write_all(ndjson(result).as_bytes()),
        HistoryFormat::Json | HistoryFormat::Table => console.json(result),
    }
}
