//! Lines that nobody should have written.

use std::sync::Arc;

use proptest::prelude::*;
use tollgate_accesslog::{FORMAT_NAMES, LineParser, LogFormat, Parsed};

fn parsers() -> Vec<LineParser> {
    FORMAT_NAMES.iter().map(|name| LineParser::new(Arc::new(LogFormat::parse(name).unwrap()))).collect()
}

#[test]
fn what_is_no_request_is_not_understood() {
    for line in [
        r#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "\x16\x03\x01\x01 \x02" 400 226 "-" "-""#,
        r#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "-" 408 0 "-" "-""#,
        r#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "" 400 0 "-" "-""#,
        r#"192.0.2.1 - - [32/Jan/2026:03:04:05 +0000] "GET / HTTP/1.1" 200 0 "-" "-""#,
        r#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "GET / HTTP/1.1" 2000 0 "-" "-""#,
        r#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "GET / HTTP/1.1"#,
        r#"{"StartUTC":"2026-01-02T03:04:05Z"}"#,
        "{",
        "[]",
        "\0\0\0",
    ] {
        for parser in &mut parsers() {
            assert_eq!(parser.parse(line.as_bytes()), Parsed::NotUnderstood, "{line}");
        }
    }
}

#[test]
fn a_target_with_quotes_escapes_and_bytes_is_as_it_was_sent() {
    let mut parser = LineParser::new(Arc::new(LogFormat::parse("common").unwrap()));
    for (written, sent) in [
        (r"/a\x22b", &b"/a\"b"[..]),
        (r#"/\"x\""#, b"/\"x\""),
        (r#"/"x""#, b"/\"x\""),
        (r"/\xff\xfe", b"/\xff\xfe"),
        ("/a b", b"/a b"),
        (r#"/x" 200 "#, b"/x\" 200"),
    ] {
        let line = format!("h - - [02/Jan/2026:03:04:05 +0000] \"GET {written} HTTP/1.1\" 200 1");
        match parser.parse(line.as_bytes()) {
            // A quote that a status seems to follow ends the request: nobody can know better.
            Parsed::Request(line) if written.contains("\" 200") => assert_eq!(&*line.target, b"/x"),
            Parsed::Request(line) => assert_eq!(&*line.target, sent, "{written}"),
            other @ (Parsed::Comment | Parsed::NotUnderstood) => panic!("{written}: {other:?}"),
        }
    }
}

#[test]
fn a_line_of_megabytes_takes_time_in_proportion() {
    // Quadratic, each of these would take hours.
    for unit in ["\\\"", "\" ", " [", "]: ", "x", "\"\\"] {
        let line = format!("h - - [02/Jan/2026:03:04:05 +0000] \"GET /{}", unit.repeat(100_000));
        for parser in &mut parsers() {
            let _: Parsed<'_> = parser.parse(line.as_bytes());
        }
    }
    let nested = format!("{{\"a\":{}", "[".repeat(100_000));
    for parser in &mut parsers() {
        assert_eq!(parser.parse(nested.as_bytes()), Parsed::NotUnderstood);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        for parser in &mut parsers() {
            let _: Parsed<'_> = parser.parse(&line);
        }
    }

    #[test]
    fn a_damaged_line_is_read_or_not_but_never_panics(at in 0_usize..200, byte in any::<u8>()) {
        let mut line = br#"192.0.2.1 - ann [02/Jan/2026:03:04:05 +0000] "POST /login?next=/cart HTTP/1.1" 429 162 "-" "curl/8.1" 1 "a" "b" 250ms"#.to_vec();
        let at = at % line.len();
        line[at] = byte;
        for parser in &mut parsers() {
            let _: Parsed<'_> = parser.parse(&line);
        }
        let format = LogFormat::detect([&line[..]]);
        prop_assert!(format.is_none_or(|format| !format.name().is_empty()));
    }

    #[test]
    fn no_format_string_makes_the_compiler_panic(text in "[$%{}(),:a-zA-Z_ \"\\\\]{0,60}") {
        match LogFormat::parse(&text) {
            Ok(format) => prop_assert_eq!(format.name(), text),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
