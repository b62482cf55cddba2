//! Queries a source, and prints the result in the format that was asked for.

use std::io;

use serde::Serialize;
use tollgate_history::query::{SeriesQuery, Tabular, TimeRange, TopQuery, csv, ndjson};
use tollgate_history::{Error, SeriesKind, time_text};

use super::source::{HistorySource, SourceError};
use super::{HistoryArgs, HistoryFormat, SeriesArgs, SummaryArgs, TopArgs, draw, table};
use crate::console::Console;

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
    let source = HistorySource::open(args)?;
    if args.format == HistoryFormat::Table {
        query.points = draw::COLUMNS;
    }
    let result = source.series(&query)?;
    Ok(match args.format {
        HistoryFormat::Table if result.total == 0 => {
            table::nothing(source.newest()?, query.range, console.out)
        }
        HistoryFormat::Table => draw::curve(query.kind, &result, console.out),
        other @ (HistoryFormat::Csv | HistoryFormat::Json | HistoryFormat::Ndjson) => {
            machine(other, &result, console)
        }
    })
}

pub(super) fn top(args: &TopArgs, now_s: u64, console: &mut Console<'_>) -> Printed {
    let range = args.time.range(now_s)?;
    let source = HistorySource::open(&args.history)?;
    let order = args.order.into();
    let filter = (&args.rules).into();
    let query = TopQuery { kind: args.by.into(), filter, range, order, limit: args.limit };
    let top = source.top(&query)?;
    Ok(match args.history.format {
        HistoryFormat::Table if top.rows.is_empty() && top.other.total == 0 => {
            table::nothing(source.newest()?, range, console.out)
        }
        HistoryFormat::Table => table::top(args.by.into(), &top, console.out),
        other @ (HistoryFormat::Csv | HistoryFormat::Json | HistoryFormat::Ndjson) => {
            machine(other, &top, console)
        }
    })
}

pub(super) fn summary(args: &SummaryArgs, now_s: u64, console: &mut Console<'_>) -> Printed {
    let range = args.time.range(now_s)?;
    let source = HistorySource::open(&args.history)?;
    let summary = source.summary(range)?;
    Ok(match args.history.format {
        HistoryFormat::Table if summary.total == 0 => table::nothing(source.newest()?, range, console.out),
        HistoryFormat::Table => table::summary(&summary, console.out),
        other @ (HistoryFormat::Csv | HistoryFormat::Json | HistoryFormat::Ndjson) => {
            machine(other, &summary, console)
        }
    })
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
