//! `log_format` of nginx: `$remote_addr [$time_local] "$request" $status`.

use super::TemplateBuilder;
use crate::error::FormatError;
use crate::line::Field;

pub(super) fn compile(text: &str, builder: &mut TemplateBuilder) -> Result<(), FormatError> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        builder.text(before);
        let (name, tail) = match after.strip_prefix('{') {
            Some(braced) => braced
                .split_once('}')
                .ok_or_else(|| FormatError::Unclosed { what: format!("${after}"), close: '}' })?,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
            }
        };
        builder.field(field(name), &format!("${name}"))?;
        rest = tail;
    }
    builder.text(rest);
    Ok(())
}

fn field(name: &str) -> Field {
    match name {
        "remote_addr" => Field::Address,
        "time_local" | "time_iso8601" | "msec" => Field::Time,
        "request" => Field::Request,
        "request_method" => Field::Method,
        "request_uri" | "uri" | "document_uri" => Field::Target,
        "args" | "query_string" => Field::Query,
        "host" | "http_host" => Field::Host,
        "status" => Field::Status,
        "request_time" => Field::Duration { nanos: 1_000_000_000 },
        _ => match name.strip_prefix("http_") {
            Some(header) => Field::Header(header.replace('_', "-").into()),
            None => Field::Skip,
        },
    }
}
