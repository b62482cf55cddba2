//! Lines that are a JSON object each: Envoy's, Traefik's, Caddy's, and others by a list of names.
//!
//! Deliberately not here: speed. A line of JSON takes ten times as long as one of text.

use std::borrow::Cow;

use serde_json::Value;

use crate::error::FormatError;
use crate::line::{Field, LineBuilder, LogLine};
use crate::timestamp::TimeCache;

/// Which names of an object are which fields. A name with dots is one within the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonFields {
    fields: Vec<(Field, Vec<String>)>,
    headers: HeaderNames,
}

/// Where headers of the request stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderNames {
    /// Only where a field says so.
    Listed,
    /// In names that begin so.
    Prefixed(&'static str),
    /// In an object of lists.
    Object(&'static str, &'static str),
}

impl JsonFields {
    fn new(fields: Vec<(Field, &str)>, headers: HeaderNames) -> Self {
        let path = |text: &str| text.split('.').map(str::to_owned).collect();
        Self { fields: fields.into_iter().map(|(field, text)| (field, path(text))).collect(), headers }
    }

    /// The fields of Envoy's JSON log as its documentation and Istio name them.
    pub(crate) fn envoy() -> Self {
        let fields = vec![
            (Field::Time, "start_time"),
            (Field::Method, "method"),
            (Field::Target, "x_envoy_original_path"),
            (Field::Target, "x-envoy-original-path"),
            // Envoy Gateway's name for it.
            (Field::Target, "x-envoy-origin-path"),
            (Field::Target, "path"),
            (Field::Status, "response_code"),
            (Field::Duration { nanos: 1_000_000 }, "duration"),
            (Field::Address, "downstream_remote_address"),
            (Field::Host, "authority"),
            // A name that begins with a colon has no dots.
            (Field::Host, ":authority"),
            (Field::Header("x-forwarded-for".into()), "x_forwarded_for"),
            (Field::Header("x-forwarded-for".into()), "x-forwarded-for"),
            (Field::Header("user-agent".into()), "user_agent"),
            (Field::Header("user-agent".into()), "user-agent"),
        ];
        Self::new(fields, HeaderNames::Listed)
    }

    /// Traefik's access log.
    pub(crate) fn traefik() -> Self {
        let fields = vec![
            (Field::Time, "StartUTC"),
            (Field::Method, "RequestMethod"),
            (Field::Target, "RequestPath"),
            (Field::Status, "DownstreamStatus"),
            (Field::Duration { nanos: 1 }, "Duration"),
            (Field::Address, "ClientHost"),
            (Field::Host, "RequestHost"),
        ];
        Self::new(fields, HeaderNames::Prefixed("request_"))
    }

    /// Caddy's access log.
    pub(crate) fn caddy() -> Self {
        let fields = vec![
            (Field::Time, "ts"),
            (Field::Method, "request.method"),
            (Field::Target, "request.uri"),
            (Field::Status, "status"),
            (Field::Duration { nanos: 1_000_000_000 }, "duration"),
            (Field::Address, "request.client_ip"),
            (Field::Address, "request.remote_ip"),
            (Field::Host, "request.host"),
        ];
        Self::new(fields, HeaderNames::Object("request", "headers"))
    }

    /// `time=ts,address=client.ip,target=uri,duration=took:ms`, as an operator writes it.
    pub(crate) fn listed(text: &str) -> Result<Self, FormatError> {
        let mut fields = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let unknown = || FormatError::JsonField { text: pair.to_owned() };
            let (name, path) = pair.split_once('=').ok_or_else(unknown)?;
            let (path, unit) = match path.rsplit_once(':') {
                Some((path, unit @ ("s" | "ms" | "us" | "ns"))) => (path, unit),
                _ => (path, "s"),
            };
            let nanos = match unit {
                "s" => 1_000_000_000,
                "ms" => 1_000_000,
                "us" => 1_000,
                _ => 1,
            };
            let field = match name.trim() {
                "time" => Field::Time,
                "address" => Field::Address,
                "request" => Field::Request,
                "method" => Field::Method,
                "target" => Field::Target,
                "query" => Field::Query,
                "host" => Field::Host,
                "status" => Field::Status,
                "duration" => Field::Duration { nanos },
                name => match name.strip_prefix("header.") {
                    Some(header) => Field::Header(header.to_ascii_lowercase().into()),
                    None => return Err(unknown()),
                },
            };
            fields.push((field, path.trim()));
        }
        let has = |wanted: &[Field]| fields.iter().any(|(field, _)| wanted.contains(field));
        if !has(&[Field::Time]) {
            return Err(FormatError::NoTime);
        }
        if !has(&[Field::Request, Field::Target]) {
            return Err(FormatError::NoTarget);
        }
        Ok(Self::new(fields, HeaderNames::Listed))
    }

    /// What a line says; `None` if it is no object, or lacks a time or a target.
    pub(crate) fn parse<'a>(&self, line: &[u8], cache: &mut TimeCache) -> Option<LogLine<'a>> {
        if line.first() != Some(&b'{') {
            return None;
        }
        let object: Value = serde_json::from_slice(line).ok()?;
        let mut builder = LineBuilder::plain_text();
        for (field, path) in &self.fields {
            if let Some(text) = at(&object, path).and_then(text) {
                builder.set(field, text, cache)?;
            }
        }
        self.read_headers(&object, &mut builder);
        builder.build()
    }

    fn read_headers(&self, object: &Value, builder: &mut LineBuilder<'_>) {
        let (members, prefix) = match self.headers {
            HeaderNames::Listed => return,
            HeaderNames::Prefixed(prefix) => (object.as_object(), prefix),
            HeaderNames::Object(outer, inner) => {
                (object.get(outer).and_then(|outer| outer.get(inner)).and_then(Value::as_object), "")
            }
        };
        for (name, value) in members.into_iter().flatten() {
            if let (Some(name), Some(text)) = (name.strip_prefix(prefix), text(value)) {
                builder.set_header(Cow::Owned(name.to_ascii_lowercase()), Cow::Owned(text));
            }
        }
    }
}

/// A value as a log of text would have it; of a list the first.
fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        // Not as serde writes it: a duration of a few microseconds would get an exponent.
        Value::Number(number) => Some(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => float.to_string().into_bytes(),
            None => number.to_string().into_bytes(),
        }),
        Value::Array(list) => list.first().filter(|first| !first.is_array()).and_then(text),
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

fn at<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}
