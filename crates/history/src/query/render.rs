//! Answers as lines of text: CSV and NDJSON.
//!
//! Every answer is a table of [`Rows`]; both forms are made from that. JSON as one
//! document is what serde makes of the answer itself.
//!
//! Invariant: no cell of a CSV is a formula to a spreadsheet. Names are chosen by
//! clients, so one that begins like a formula gets a quote in front.

use serde_json::Value;

use super::{SeriesAnswer, Summary, Top};
use crate::when::rfc3339;

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Text, perhaps a client's.
    Text(String),
    /// A number.
    Number(u64),
}

/// An answer as a table.
///
/// ```
/// use tollgate_history::query::{Rows, Top, TopRow, TopSum, csv};
/// let row = TopRow { name: "=1+1".into(), total: 2, denied: 1 };
/// let top = Top { from: 0, to: 60, rows: vec![row], other: TopSum { total: 0, denied: 0 } };
/// assert_eq!(csv(&top), "name,total,denied\r\n'=1+1,2,1\r\n(other),0,0\r\n");
/// ```
pub trait Rows {
    /// The names of the columns.
    fn columns(&self) -> &'static [&'static str];
    /// The cells, row by row.
    fn rows(&self) -> Vec<Vec<Cell>>;
}

impl Rows for SeriesAnswer {
    fn columns(&self) -> &'static [&'static str] {
        &["time", "name", "verdict", "count"]
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let curves = self.series.iter();
        let points = curves.flat_map(|curve| {
            curve.points.iter().map(move |(start, count)| {
                vec![
                    Cell::Text(rfc3339(*start)),
                    Cell::Text(curve.name.clone()),
                    Cell::Text(curve.verdict.clone().into_owned()),
                    Cell::Number(*count),
                ]
            })
        });
        points.collect()
    }
}

impl Rows for Top {
    fn columns(&self) -> &'static [&'static str] {
        &["name", "total", "denied"]
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let row = |name: &str, total, denied| {
            vec![Cell::Text(name.to_owned()), Cell::Number(total), Cell::Number(denied)]
        };
        let named = self.rows.iter().map(|shown| row(&shown.name, shown.total, shown.denied));
        named.chain([row("(other)", self.other.total, self.other.denied)]).collect()
    }
}

impl Rows for Summary {
    fn columns(&self) -> &'static [&'static str] {
        &[
            "from",
            "to",
            "total",
            "allowed",
            "soft",
            "delayed",
            "denied",
            "shadow_denied",
            "degraded",
            "peak_minute",
        ]
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let mut row = vec![Cell::Text(rfc3339(self.from)), Cell::Text(rfc3339(self.to))];
        let outcomes =
            [self.allowed, self.soft, self.delayed, self.denied, self.shadow_denied, self.degraded];
        let numbers = [self.total].into_iter().chain(outcomes).chain([self.peak_minute]);
        row.extend(numbers.map(Cell::Number));
        vec![row]
    }
}

/// The answer as CSV, with a line of names, as RFC 4180 says.
pub fn csv(answer: &impl Rows) -> String {
    let mut text = answer.columns().join(",") + "\r\n";
    for row in answer.rows() {
        let cells: Vec<String> = row.iter().map(csv_cell).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

fn csv_cell(cell: &Cell) -> String {
    let text = match cell {
        Cell::Number(number) => return number.to_string(),
        Cell::Text(text) => text,
    };
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@']) || text.starts_with(['\t', '\r']);
    let safe = if is_formula { format!("'{text}") } else { text.clone() };
    if safe.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

/// The answer as one JSON object a line.
///
/// ```
/// use tollgate_history::query::{Top, TopSum, ndjson};
/// let top = Top { from: 0, to: 60, rows: vec![], other: TopSum { total: 3, denied: 1 } };
/// assert_eq!(ndjson(&top), "{\"name\":\"(other)\",\"total\":3,\"denied\":1}\n");
/// ```
pub fn ndjson(answer: &impl Rows) -> String {
    let mut text = String::new();
    for row in answer.rows() {
        let pairs: Vec<String> = answer
            .columns()
            .iter()
            .zip(row)
            .map(|(column, cell)| {
                let value = match cell {
                    Cell::Text(text) => Value::String(text),
                    Cell::Number(number) => Value::from(number),
                };
                format!("{}:{value}", Value::String((*column).to_owned()))
            })
            .collect();
        text.push_str(&format!("{{{}}}\n", pairs.join(",")));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_none_breaks_its_row() {
        let cases = [
            ("/cart", "/cart"),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" =1", "' =1"),
            ("\t=1", "'\t=1"),
            ("a,b", "\"a,b\""),
            ("=\"a\"", "\"'=\"\"a\"\"\""),
            ("a\r\nb", "\"a\r\nb\""),
        ];
        for (text, cell) in cases {
            assert_eq!(csv_cell(&Cell::Text(text.into())), cell);
        }
    }

    #[test]
    fn every_line_is_json() {
        let row = super::super::TopRow { name: "\"\n\u{1b}".into(), total: 1, denied: 0 };
        let other = super::super::TopSum { total: 0, denied: 0 };
        let text = ndjson(&Top { from: 0, to: 1, rows: vec![row], other });
        let lines: Vec<Map<String, Value>> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["name"], "\"\n\u{1b}");
        assert_eq!(lines.len(), 2);
    }
}
