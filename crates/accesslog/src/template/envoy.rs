//! Format strings of Envoy: `[%START_TIME%] "%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL%"`.

use super::TemplateBuilder;
use crate::error::FormatError;
use crate::line::Field;

pub(super) fn compile(text: &str, builder: &mut TemplateBuilder) -> Result<(), FormatError> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        builder.text(before);
        let unclosed = || FormatError::Unclosed { what: format!("%{after}"), close: '%' };
        // A time format in parentheses has percent signs of its own.
        let close = match (after.find('('), after.find('%')) {
            (Some(open), Some(close)) if open < close => {
                let inner = after.get(open..).and_then(|inner| inner.find(')')).ok_or_else(unclosed)?;
                after.get(open + inner..).and_then(|tail| tail.find('%')).map(|at| open + inner + at)
            }
            (_, close) => close,
        };
        let (operator, tail) = close.and_then(|at| after.split_at_checked(at)).ok_or_else(unclosed)?;
        if operator.split('(').next().is_some_and(|name| name.contains(' ')) {
            return Err(unclosed());
        }
        match operator {
            "" => builder.text("%"),
            _ => builder.field(field(operator), &format!("%{operator}%"))?,
        }
        rest = tail.strip_prefix('%').unwrap_or(tail);
    }
    builder.text(rest);
    Ok(())
}

fn field(operator: &str) -> Field {
    let (name, argument) = match operator.split_once('(') {
        Some((name, argument)) => (name, argument.split(')').next().unwrap_or_default()),
        None => (operator.split(':').next().unwrap_or_default(), ""),
    };
    match name {
        "START_TIME" => Field::Time,
        "RESPONSE_CODE" => Field::Status,
        "DURATION" => Field::Duration { nanos: 1_000_000 },
        "DOWNSTREAM_REMOTE_ADDRESS" | "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" => Field::Address,
        "REQ" | "REQUEST_HEADER" => {
            // `A?B`: the first that is there; both mean the same.
            let header = argument.rsplit('?').next().unwrap_or_default().to_ascii_lowercase();
            match header.as_str() {
                ":method" => Field::Method,
                ":path" => Field::Target,
                ":authority" => Field::Host,
                _ => Field::Header(header.into()),
            }
        }
        _ => Field::Skip,
    }
}
