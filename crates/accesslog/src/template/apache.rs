//! `LogFormat` of Apache: `%h %l %u %t \"%r\" %>s`, with or without the backslashes of its
//! configuration file.

use super::TemplateBuilder;
use crate::error::FormatError;
use crate::line::Field;

pub(super) fn compile(text: &str, builder: &mut TemplateBuilder) -> Result<(), FormatError> {
    let text = text.replace("\\\"", "\"").replace("\\t", "\t");
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('%') {
        builder.text(before);
        // `%!200,304{Referer}i` is written for some statuses only.
        let after =
            after.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '!' | ',' | '<' | '>'));
        let (argument, tail) = match after.strip_prefix('{') {
            Some(braced) => {
                let unclosed = || FormatError::Unclosed { what: format!("%{after}"), close: '}' };
                let (argument, tail) = braced.split_once('}').ok_or_else(unclosed)?;
                (Some(argument), tail)
            }
            None => (None, after),
        };
        let Some(letter) = tail.chars().next() else {
            return Err(FormatError::Unclosed { what: "%".to_owned(), close: '%' });
        };
        let source = match argument {
            Some(argument) => format!("%{{{argument}}}{letter}"),
            None => format!("%{letter}"),
        };
        match (letter, argument) {
            ('%', None) => builder.text("%"),
            ('t', None) => {
                builder.text("[");
                builder.field(Field::Time, &source)?;
                builder.text("]");
            }
            _ => builder.field(field(letter, argument), &source)?,
        }
        rest = tail.get(letter.len_utf8()..).unwrap_or_default();
    }
    builder.text(rest);
    Ok(())
}

fn field(letter: char, argument: Option<&str>) -> Field {
    let (second, milli, micro) = (1_000_000_000, 1_000_000, 1_000);
    match (letter, argument) {
        ('a' | 'h', None | Some("c")) => Field::Address,
        ('t', Some(_)) => Field::Time,
        ('r', None) => Field::Request,
        ('m', None) => Field::Method,
        ('U', None) => Field::Target,
        ('q', None) => Field::Query,
        ('v' | 'V', None) => Field::Host,
        ('s', _) => Field::Status,
        ('D', None) | ('T', Some("us")) => Field::Duration { nanos: micro },
        ('T', Some("ms")) => Field::Duration { nanos: milli },
        ('T', None | Some("s")) => Field::Duration { nanos: second },
        ('i', Some(header)) => Field::Header(header.to_ascii_lowercase().into()),
        _ => Field::Skip,
    }
}
