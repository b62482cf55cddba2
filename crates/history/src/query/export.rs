//! Results as CSV and NDJSON.
//!
//! Every result is [`Tabular`], and both formats are made from its rows. JSON as one
//! document is what serde makes of the result itself.
//!
//! Invariant: no cell of a CSV is a formula to a spreadsheet. Clients choose names,
//! so one that starts like a formula gets a quote in front.

use serde_json::Value;

use super::{SeriesResult, Summary, TopResult};
use crate::time_text::rfc3339;

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableCell {
    /// Text, perhaps a client's.
    Text(String),
    /// Nothing: this row has no such thing.
    Empty,
    /// A number.
    Number(u64),
}

impl TableCell {
    fn optional(text: Option<&str>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(text.to_owned()))
    }
}

/// A result as a table.
///
/// ```
/// use tollgate_history::query::{Tabular, TopResult, TopRow, TopOther, csv};
/// let row = TopRow { name: "=1+1".into(), domain: Some("shop".into()), rule: None, total: 2, denied: 1 };
/// let top = TopResult { from: 0, to: 60, rows: vec![row], other: TopOther { total: 0, denied: 0 }, row_count: 1 };
/// assert_eq!(csv(&top), "domain,rule,name,total,denied\r\nshop,,'=1+1,2,1\r\n,,(other),0,0\r\n");
/// ```
pub trait Tabular {
    /// The names of the columns.
    fn columns(&self) -> &'static [&'static str];
    /// The cells, row by row.
    fn rows(&self) -> Vec<Vec<TableCell>>;
}

impl Tabular for SeriesResult {
    fn columns(&self) -> &'static [&'static str] {
        &["time", "domain", "rule", "name", "outcome", "count"]
    }

    fn rows(&self) -> Vec<Vec<TableCell>> {
        let curves = self.series.iter();
        let points = curves.flat_map(|curve| {
            curve.points.iter().map(move |(start, count)| {
                vec![
                    TableCell::Text(rfc3339(*start)),
                    TableCell::optional(curve.domain.as_deref()),
                    TableCell::optional(curve.rule.as_deref()),
                    TableCell::Text(curve.name.clone()),
                    TableCell::Text(curve.outcome.clone().into_owned()),
                    TableCell::Number(*count),
                ]
            })
        });
        points.collect()
    }
}

impl Tabular for TopResult {
    fn columns(&self) -> &'static [&'static str] {
        &["domain", "rule", "name", "total", "denied"]
    }

    fn rows(&self) -> Vec<Vec<TableCell>> {
        let row = |[domain, rule, name]: [Option<&str>; 3], total, denied| {
            let mut cells = [domain, rule, name].map(TableCell::optional).to_vec();
            cells.extend([TableCell::Number(total), TableCell::Number(denied)]);
            cells
        };
        let named = self.rows.iter().map(|shown| {
            let names = [shown.domain.as_deref(), shown.rule.as_deref(), Some(shown.name.as_str())];
            row(names, shown.total, shown.denied)
        });
        named.chain([row([None, None, Some("(other)")], self.other.total, self.other.denied)]).collect()
    }
}

impl Tabular for Summary {
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

    fn rows(&self) -> Vec<Vec<TableCell>> {
        let mut row = vec![TableCell::Text(rfc3339(self.from)), TableCell::Text(rfc3339(self.to))];
        let outcomes =
            [self.allowed, self.soft, self.delayed, self.denied, self.shadow_denied, self.degraded];
        let numbers = [self.total].into_iter().chain(outcomes).chain([self.peak_minute]);
        row.extend(numbers.map(TableCell::Number));
        vec![row]
    }
}

/// The result as CSV with a header line, after RFC 4180.
pub fn csv(result: &impl Tabular) -> String {
    let mut text = result.columns().join(",") + "\r\n";
    for row in result.rows() {
        let cells: Vec<String> = row.iter().map(csv_cell).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

fn csv_cell(cell: &TableCell) -> String {
    let text = match cell {
        TableCell::Number(number) => return number.to_string(),
        TableCell::Empty => return String::new(),
        TableCell::Text(text) => text,
    };
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@']) || text.starts_with(['\t', '\r']);
    let safe = if is_formula { format!("'{text}") } else { text.clone() };
    if safe.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

/// The result as one JSON object a line.
///
/// ```
/// use tollgate_history::query::{TopResult, TopOther, ndjson};
/// let top = TopResult { from: 0, to: 60, rows: vec![], other: TopOther { total: 3, denied: 1 }, row_count: 0 };
/// assert_eq!(ndjson(&top), "{\"name\":\"(other)\",\"total\":3,\"denied\":1}\n");
/// ```
pub fn ndjson(result: &impl Tabular) -> String {
    let mut text = String::new();
    for row in result.rows() {
        let pairs: Vec<String> = result
            .columns()
            .iter()
            .zip(row)
            .filter_map(|(column, cell)| {
                let value = match cell {
                    TableCell::Text(text) => Value::String(text),
                    TableCell::Number(number) => Value::from(number),
                    TableCell::Empty => return None,
                };
                Some(format!("{}:{value}", Value::String((*column).to_owned())))
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
            assert_eq!(csv_cell(&TableCell::Text(text.into())), cell);
        }
    }

    #[test]
    fn every_line_is_json() {
        let row =
            super::super::TopRow { name: "\"\n\u{1b}".into(), domain: None, rule: None, total: 1, denied: 0 };
        let other = super::super::TopOther { total: 0, denied: 0 };
        let text = ndjson(&TopResult { from: 0, to: 1, rows: vec![row], other, row_count: 1 });
        let lines: Vec<Map<String, Value>> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["name"], "\"\n\u{1b}");
        assert_eq!(lines.len(), 2);
    }
}
