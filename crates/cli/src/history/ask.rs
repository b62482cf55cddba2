//! Asks a source, and prints the answer in the format that was asked for.

use std::io;

use serde::Serialize;
use tollgate_history::query::{Rows, SeriesQuestion, Span, TopQuestion, csv, ndjson};
use tollgate_history::{By, Error, when};

use super::source::{Source, Unanswered};
use super::{Format, Place, SeriesArgs, SummaryArgs, TopArgs, draw, table};
use crate::console::Console;

/// The answer was printed, or could not be; or there is none.
pub(super) type Asked = Result<io::Result<()>, Unanswered>;

pub(super) fn series_of_route(route: Option<String>, span: Span) -> SeriesQuestion {
    SeriesQuestion { name: route, ..SeriesQuestion::new(By::Route, span) }
}

/// What the flags of `series` ask.
pub(super) fn question(args: &SeriesArgs, now_s: u64) -> Result<SeriesQuestion, Error> {
    let span = args.when.span(now_s)?;
    let step_s = args.step.as_deref().map(|text| text.parse().or_else(|_| when::span(text))).transpose()?;
    let compare = args.compare.as_deref().map(str::parse).transpose()?;
    Ok(SeriesQuestion {
        name: args.name.clone(),
        step_s,
        compare,
        ..SeriesQuestion::new(args.by.into(), span)
    })
}

pub(super) fn series(place: &Place, mut question: SeriesQuestion, console: &mut Console<'_>) -> Asked {
    let source = Source::open(place)?;
    if place.format == Format::Table {
        question.points = draw::COLUMNS;
    }
    let answer = source.series(&question)?;
    Ok(match place.format {
        Format::Table if answer.total == 0 => table::nothing(source.newest()?, question.span, console.out),
        Format::Table => draw::curve(question.by, &answer, console.out),
        other @ (Format::Csv | Format::Json | Format::Ndjson) => machine(other, &answer, console),
    })
}

pub(super) fn top(args: &TopArgs, now_s: u64, console: &mut Console<'_>) -> Asked {
    let span = args.when.span(now_s)?;
    let source = Source::open(&args.place)?;
    let question = TopQuestion { by: args.by.into(), span, limit: args.limit };
    let top = source.top(&question, args.order.into())?;
    Ok(match args.place.format {
        Format::Table if top.rows.is_empty() && top.other.total == 0 => {
            table::nothing(source.newest()?, span, console.out)
        }
        Format::Table => table::top(args.by.into(), &top, console.out),
        other @ (Format::Csv | Format::Json | Format::Ndjson) => machine(other, &top, console),
    })
}

pub(super) fn summary(args: &SummaryArgs, now_s: u64, console: &mut Console<'_>) -> Asked {
    let span = args.when.span(now_s)?;
    let source = Source::open(&args.place)?;
    let summary = source.summary(span)?;
    Ok(match args.place.format {
        Format::Table if summary.total == 0 => table::nothing(source.newest()?, span, console.out),
        Format::Table => table::summary(&summary, console.out),
        other @ (Format::Csv | Format::Json | Format::Ndjson) => machine(other, &summary, console),
    })
}

fn machine(format: Format, answer: &(impl Rows + Serialize), console: &mut Console<'_>) -> io::Result<()> {
    match format {
        Format::Csv => console.out.write_all(csv(answer).as_bytes()),
        Format::Ndjson => console.out.write_all(ndjson(answer).as_bytes()),
        Format::Json | Format::Table => console.json(answer),
    }
}
