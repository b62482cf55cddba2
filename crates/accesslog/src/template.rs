//! Lines by a pattern: fields, and the text that stands between them.
//!
//! Format strings of nginx, Apache and Envoy are compiled into one [`Template`], which then reads
//! line after line.
//!
//! Invariant: a field ends where the text that follows it in the pattern comes first. In quotes an
//! escaped quote does not count; old servers wrote unescaped ones into requests, so what follows a
//! request must look like a status where a status follows.
//!
//! Deliberately not here: what a field means.

mod apache;
mod envoy;
mod nginx;

use crate::error::FormatError;
use crate::line::{FORWARDED_FOR, Field, LineBuilder, LogLine};
use crate::timestamp::TimeCache;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    steps: Vec<FieldStep>,
    /// What follows the last field; more may follow that.
    tail: Vec<u8>,
}

/// One field, and the text that stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldStep {
    before: Vec<u8>,
    field: Field,
    /// The field as the operator wrote it.
    source: String,
    /// A quote stands before it.
    is_quoted: bool,
}

/// Whose notation a format string has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Nginx,
    Apache,
    Envoy,
}

impl Notation {
    /// The notation that a format string looks like.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut operators = text.split('%').skip(1);
        let is_operator = |text: &str| {
            let name = text.split(['(', ':']).next().unwrap_or_default();
            name.len() >= 3 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        match text {
            _ if text.contains('$') => Some(Self::Nginx),
            _ if operators.any(is_operator) => Some(Self::Envoy),
            _ if text.contains('%') => Some(Self::Apache),
            _ => None,
        }
    }
}

impl Template {
    /// Compiles a format string.
    pub(crate) fn compile(notation: Notation, text: &str) -> Result<Self, FormatError> {
        let mut builder = TemplateBuilder::default();
        match notation {
            Notation::Nginx => nginx::compile(text, &mut builder),
            Notation::Apache => apache::compile(text, &mut builder),
            Notation::Envoy => envoy::compile(text, &mut builder),
        }?;
        builder.build()
    }

    /// Reads headers no longer that are not wanted, but for one that may stand for the address.
    pub(crate) fn skip_headers(&mut self, wants: impl Fn(&str) -> bool) {
        let has_address = self.steps.iter().any(|step| step.field == Field::Address);
        for step in &mut self.steps {
            let skips = matches!(&step.field, Field::Header(name)
                if !wants(name) && (has_address || &**name != FORWARDED_FOR));
            if skips {
                step.field = Field::Skip;
            }
        }
    }

    /// What a line says; `None` if it does not follow the pattern.
    pub(crate) fn parse<'a>(&self, line: &'a [u8], cache: &mut TimeCache) -> Option<LogLine<'a>> {
        let mut builder = LineBuilder::default();
        let mut rest = line.strip_prefix(&*self.steps.first()?.before)?;
        let mut steps = self.steps.iter().peekable();
        while let Some(step) = steps.next() {
            let (end, next) = match steps.peek() {
                Some(next) => (end_of_field(rest, step, next)?, next.before.len()),
                None if step.is_quoted => (end_of_quoted(rest, b"\"", false)?, 0),
                None if !self.tail.is_empty() => (memchr::memmem::find(rest, &self.tail)?, 0),
                None => (memchr::memchr(b' ', rest).unwrap_or(rest.len()), 0),
            };
            if step.field != Field::Skip {
                builder.set(&step.field, rest.get(..end)?, cache)?;
            }
            // What stands before the next field was found where this one ends.
            rest = rest.get(end + next..)?;
        }
        builder.build()
    }
}

/// Where a field ends: where the text before the next one begins.
fn end_of_field(rest: &[u8], step: &FieldStep, next: &FieldStep) -> Option<usize> {
    if step.is_quoted && next.before.starts_with(b"\"") {
        return end_of_quoted(rest, &next.before, next.field == Field::Status);
    }
    match &*next.before {
        // Nearly always a blank, and often behind a dash.
        [byte] if rest.get(1) == Some(byte) && rest.first() != Some(byte) => Some(1),
        [byte] => memchr::memchr(*byte, rest),
        before => memchr::memchr_iter(*before.first()?, rest)
            .find(|at| rest.get(*at..).is_some_and(|rest| rest.starts_with(before))),
    }
}

/// Where quoted text ends, if `after` follows, and a status after that where one must.
fn end_of_quoted(text: &[u8], after: &[u8], before_status: bool) -> Option<usize> {
    let mut skip = 0;
    for at in memchr::memchr2_iter(b'"', b'\\', text) {
        if at < skip {
            continue;
        }
        if text.get(at) == Some(&b'\\') {
            skip = at + 2;
            continue;
        }
        let Some(rest) = text.get(at..).and_then(|rest| rest.strip_prefix(after)) else { continue };
        if !before_status || matches!(rest.first(), Some(b'0'..=b'9' | b'-')) {
            return Some(at);
        }
    }
    None
}

/// A pattern that is being compiled.
#[derive(Debug, Default)]
struct TemplateBuilder {
    steps: Vec<FieldStep>,
    text: Vec<u8>,
}

impl TemplateBuilder {
    fn text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn field(&mut self, field: Field, source: &str) -> Result<(), FormatError> {
        let before = std::mem::take(&mut self.text);
        if let (true, Some(last)) = (before.is_empty(), self.steps.last()) {
            return Err(FormatError::Adjacent { first: last.source.clone(), second: source.to_owned() });
        }
        let is_quoted = before.ends_with(b"\"");
        self.steps.push(FieldStep { before, field, source: source.to_owned(), is_quoted });
        Ok(())
    }

    fn build(self) -> Result<Template, FormatError> {
        let has = |wanted: &[Field]| self.steps.iter().any(|step| wanted.contains(&step.field));
        if !has(&[Field::Time]) {
            return Err(FormatError::NoTime);
        }
        if !has(&[Field::Request, Field::Target]) {
            return Err(FormatError::NoTarget);
        }
        Ok(Template { steps: self.steps, tail: self.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(notation: Notation, text: &str) -> Vec<Field> {
        let template = Template::compile(notation, text).unwrap();
        template.steps.into_iter().map(|step| step.field).collect()
    }

    #[test]
    fn all_three_notations_compile_to_the_same_fields() {
        let expected =
            [Field::Address, Field::Time, Field::Request, Field::Status, Field::Header("x-api-key".into())];
        let nginx = r#"$remote_addr [$time_local] "$request" $status "$http_x_api_key""#;
        let apache = r#"%h %t \"%r\" %>s \"%{X-Api-Key}i\""#;
        assert_eq!(fields(Notation::Nginx, nginx), expected);
        assert_eq!(fields(Notation::Apache, apache), expected);
        assert_eq!(
            (Notation::of(nginx), Notation::of(apache)),
            (Some(Notation::Nginx), Some(Notation::Apache))
        );
        let envoy = r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %DURATION% "%REQ(X-API-KEY):10%""#;
        let expected = [
            Field::Time,
            Field::Method,
            Field::Target,
            Field::Skip,
            Field::Status,
            Field::Duration { nanos: 1_000_000 },
            Field::Header("x-api-key".into()),
        ];
        assert_eq!(fields(Notation::Envoy, envoy), expected);
        assert_eq!(Notation::of(envoy), Some(Notation::Envoy));
        assert_eq!(Notation::of("combined"), None);
    }

    #[test]
    fn a_format_that_cannot_be_read_says_why() {
        let error = |text: &str| Template::compile(Notation::of(text).unwrap(), text).unwrap_err();
        assert_eq!(error("$remote_addr $request"), FormatError::NoTime);
        assert_eq!(error("$remote_addr $time_local"), FormatError::NoTarget);
        let (first, second) = ("$status".to_owned(), "$request".to_owned());
        assert_eq!(error("$time_local $status$request"), FormatError::Adjacent { first, second });
        assert!(matches!(error("%t %{Referer"), FormatError::Unclosed { .. }));
        assert!(matches!(error("${time_local $request"), FormatError::Unclosed { .. }));
        assert!(matches!(error("%START_TIME %REQ(:PATH)"), FormatError::Unclosed { .. }));
    }

    #[test]
    fn quotes_end_where_they_end() {
        let end = |text: &str| end_of_quoted(text.as_bytes(), b"\" ", true);
        assert_eq!(end("GET / HTTP/1.0\" 200"), Some(14));
        assert_eq!(end(r#"GET /\" 2 HTTP/1.0" 200"#), Some(18), "escaped");
        assert_eq!(end(r#"GET /"x" HTTP/1.0" 200"#), Some(17), "unescaped, and no status follows");
        assert_eq!(end(r#"GET /\\" 200"#), Some(7), "the backslash is escaped");
        assert_eq!(end("GET / HTTP/1.0"), None);
    }
}
