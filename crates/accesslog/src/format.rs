//! The formats by name, and which of them a log has.
//!
//! An operator gives a name or a format string, or nothing: then the first lines are tried. A
//! [`LineParser`] reads the rest.

use std::sync::Arc;

use crate::columns::Columns;
use crate::container::without_prefix;
use crate::error::FormatError;
use crate::json::JsonFields;
use crate::line::LogLine;
use crate::template::{Notation, Template};
use crate::timestamp::TimeCache;

/// How the lines of a log are to be read.
#[derive(Debug, Clone)]
pub struct LogFormat {
    name: String,
    layout: Layout,
    is_written_at_end: bool,
}

#[derive(Debug, Clone)]
enum Layout {
    Template(Template),
    Columns,
    Json(JsonFields),
}

/// The formats that have a name, those with more fields first: where two fit, the first is taken.
pub const FORMAT_NAMES: [&str; 13] = [
    "traefik",
    "vhost_combined",
    "combined",
    "common",
    "istio",
    "envoy",
    "haproxy",
    "alb",
    "w3c",
    "cloudfront",
    "envoy-json",
    "traefik-json",
    "caddy",
];

/// So many lines are looked at to find out the format.
const SAMPLE_LINES: usize = 200;

const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const ENVOY: &str = r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%""#;
const ISTIO: &str = r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS%"#;
// Written like Apache's; what has no letter there is `%{…}x`, which is skipped.
const TRAEFIK: &str =
    r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %{count}x "%{router}x" "%{server}x" %{ms}Tms"#;
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;
const HAPROXY: &str = r#"%a [%{accepted}t] %{frontend}x %{server}x %{timers}x %>s %b %{rest}x "%r"#;
const ALB: &str = r#"%{type}x %{written}t %{balancer}x %a %{target}x %{received}x %{s}T %{sent}x %>s %{target}x %{in}x %{out}x "%r" "%{User-Agent}i""#;

impl LogFormat {
    /// The format of that name, or one by a format string.
    ///
    /// # Errors
    /// If it is neither, or a line of it has no time or no request.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let template = |notation, text| Template::compile(notation, text).map(Layout::Template);
        let (layout, is_written_at_end) = match text {
            "combined" | "nginx" | "apache" => (template(Notation::Apache, COMBINED)?, false),
            "common" => (template(Notation::Apache, r#"%h %l %u %t "%r" %>s"#)?, false),
            "vhost_combined" => (template(Notation::Apache, VHOST_COMBINED)?, false),
            "traefik" => (template(Notation::Apache, TRAEFIK)?, false),
            "haproxy" => (template(Notation::Apache, HAPROXY)?, false),
            "alb" => (template(Notation::Apache, ALB)?, true),
            "envoy" => (template(Notation::Envoy, ENVOY)?, false),
            "istio" => (template(Notation::Envoy, ISTIO)?, false),
            "w3c" | "cloudfront" => (Layout::Columns, true),
            "envoy-json" => (Layout::Json(JsonFields::envoy()), false),
            "traefik-json" => (Layout::Json(JsonFields::traefik()), false),
            "caddy" => (Layout::Json(JsonFields::caddy()), true),
            _ => match (text.strip_prefix("json:"), Notation::of(text)) {
                (Some(fields), _) => (Layout::Json(JsonFields::listed(fields)?), false),
                (None, Some(notation)) => (template(notation, text)?, notation == Notation::Nginx),
                (None, None) => {
                    return Err(FormatError::Unknown {
                        text: text.to_owned(),
                        known: FORMAT_NAMES.join(", "),
                    });
                }
            },
        };
        Ok(Self { name: text.to_owned(), layout, is_written_at_end })
    }

    /// The format that most of these lines have; none if no line is understood.
    pub fn detect<'l>(lines: impl IntoIterator<Item = &'l [u8]>) -> Option<Self> {
        let lines: Vec<&[u8]> = lines.into_iter().take(SAMPLE_LINES).collect();
        let understood = |format: &Self| {
            let mut parser = LineParser::new(Arc::new(format.clone()));
            lines.iter().filter(|line| matches!(parser.parse(line), Parsed::Request(_))).count()
        };
        let formats = FORMAT_NAMES.iter().filter_map(|name| Self::parse(name).ok());
        let mut best: Option<(usize, Self)> = None;
        for format in formats {
            let count = understood(&format);
            if count > best.as_ref().map_or(0, |(most, _)| *most) {
                best = Some((count, format));
            }
        }
        best.map(|(_, format)| format)
    }

    /// The same without the headers that nobody wants, which saves their copies.
    #[must_use]
    pub fn with_headers(mut self, wants: impl Fn(&str) -> bool) -> Self {
        if let Layout::Template(template) = &mut self.layout {
            template.skip_headers(wants);
        }
        self
    }

    /// Its name, or the format string.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a line of the log can change how those behind it are read, so that one parser must read
    /// all of them.
    pub const fn has_directives(&self) -> bool {
        matches!(self.layout, Layout::Columns)
    }

    /// Whether times are of the end of a request, so that it began [`LogLine::duration`] earlier.
    pub const fn is_written_at_end(&self) -> bool {
        self.is_written_at_end
    }
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is looked at once and dropped, and nearly always the large one"
)]
pub enum Parsed<'a> {
    /// A request.
    Request(LogLine<'a>),
    /// Nothing, or a comment of the log.
    Comment,
    /// Not in this format, or no request, as what a port scan leaves.
    NotUnderstood,
}

/// Reads the lines of one log, in their order.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_accesslog::{LineParser, LogFormat, Parsed};
/// let line = br#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "GET /cart?id=7 HTTP/1.1" 429 17"#;
/// let format = LogFormat::detect([&line[..]]).unwrap();
/// assert_eq!(format.name(), "common");
/// let mut parser = LineParser::new(Arc::new(format));
/// let Parsed::Request(request) = parser.parse(line) else { panic!("a request") };
/// assert_eq!((&*request.target, request.status), (&b"/cart?id=7"[..], Some(429)));
/// ```
#[derive(Debug, Clone)]
pub struct LineParser {
    format: Arc<LogFormat>,
    times: TimeCache,
    columns: Columns,
}

impl LineParser {
    /// Reads lines of that format.
    pub fn new(format: Arc<LogFormat>) -> Self {
        Self { format, times: TimeCache::default(), columns: Columns::default() }
    }

    /// What a line is, with or without its end.
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return Parsed::Comment;
        }
        if let [b'#', ..] = line {
            if let Ok(directive) = std::str::from_utf8(line) {
                self.columns.direct(directive);
            }
            return Parsed::Comment;
        }
        let Self { format, times, columns } = self;
        let line = without_prefix(line).unwrap_or(line);
        let parsed = match &format.layout {
            Layout::Template(template) => template.parse(line, times),
            Layout::Columns => columns.parse(line, times),
            Layout::Json(fields) => fields.parse(line, times),
        };
        parsed.map_or(Parsed::NotUnderstood, Parsed::Request)
    }
}
