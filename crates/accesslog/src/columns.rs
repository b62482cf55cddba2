//! W3C extended logs: columns that a `#Fields:` line names; CloudFront's and those of IIS among them.
//!
//! Invariant: what the last `#Fields:` line says holds until the next. Before the first one, as in a
//! piece of a log, CloudFront's columns are assumed.

use crate::line::{Field, LineBuilder, LogLine};
use crate::timestamp::TimeCache;

/// The columns of CloudFront's standard log, as far as they matter.
const CLOUDFRONT: &str = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status \
    cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header \
    cs-protocol cs-bytes time-taken";

/// The columns in force.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    is_tabbed: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Self { fields: fields(CLOUDFRONT), is_tabbed: true }
    }
}

impl Columns {
    /// Takes the columns that a directive names.
    pub(crate) fn direct(&mut self, directive: &str) {
        if let Some(names) = directive.strip_prefix("#Fields:") {
            self.fields = fields(names);
            self.is_tabbed = false;
        }
    }

    /// What a line says; `None` if a column is missing or is not what its name says.
    pub(crate) fn parse<'a>(&self, line: &'a [u8], cache: &mut TimeCache) -> Option<LogLine<'a>> {
        let separator = if self.is_tabbed || line.contains(&b'\t') { b'\t' } else { b' ' };
        let mut builder = LineBuilder::plain_text();
        let mut values = line.split(|byte| *byte == separator);
        for field in &self.fields {
            builder.set(field, values.next()?, cache)?;
        }
        builder.build()
    }
}

fn fields(names: &str) -> Vec<Field> {
    let names: Vec<&str> = names.split_ascii_whitespace().collect();
    // CloudFront counts seconds, IIS milliseconds.
    let nanos = if names.contains(&"x-edge-location") { 1_000_000_000 } else { 1_000_000 };
    let field = |name: &&str| match *name {
        "date" => Field::Date,
        "time" => Field::Clock,
        "c-ip" => Field::Address,
        "cs-method" => Field::Method,
        "cs-uri" | "cs-uri-stem" => Field::Target,
        "cs-uri-query" => Field::Query,
        // CloudFront's `cs(Host)` is the distribution's own name, `x-host-header` the viewer's.
        "cs-host" | "x-host-header" => Field::Host,
        "sc-status" => Field::Status,
        "time-taken" => Field::Duration { nanos },
        _ => match name.strip_prefix("cs(").and_then(|rest| rest.strip_suffix(')')) {
            Some(header) => Field::Header(header.to_ascii_lowercase().into()),
            None => Field::Skip,
        },
    };
    names.iter().map(field).collect()
}
