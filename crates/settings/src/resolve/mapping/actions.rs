//! The descriptors of a mapping, action by action, in Envoy's words.

use tollgate_http::request::token::TokenSource;
use tollgate_http::request::value::VALUE_MAX;
use tollgate_http::{Action, AddressPrefixes, Fact, PathTemplates};

use crate::go;
use crate::node::{Field, Fields, Node, Placed, Value};
use crate::reader::Reader;

/// Every action, as it is written.
const ACTIONS: &str = "remote_address, request_headers, path, method, query, cookie, generic_key, jwt_claim";

/// The fields that most actions have.
const KEY: &str = "descriptor_key";
const SKIP: &str = "skip_if_absent";

/// A list of actions, or Envoy's map with such a list. What is wrong is left out.
pub(super) fn descriptor(node: Node, reader: &mut Reader<'_>) -> Vec<Action> {
    let place = node.place.clone();
    let items = match node.value {
        Value::Map(_) => {
            let fields = Fields::of(node, &["actions"], reader);
            fields.and_then(|mut fields| fields.take("actions")).map(|node| node.list(reader))
        }
        Value::Null | Value::Text(_) | Value::List(_) => Some(node.list(reader)),
    };
    let items = items.unwrap_or_default();
    if items.is_empty() {
        reader.mistake(place, format!("a descriptor needs actions; write a list of {ACTIONS}"));
    }
    items.into_iter().filter_map(|item| action(item, reader)).collect()
}

fn action(node: Node, reader: &mut Reader<'_>) -> Option<Action> {
    let place = node.place.clone();
    let Value::Map(fields) = node.value else {
        reader.mistake(place, format!("an action is a map with its name; write one of {ACTIONS}"));
        return None;
    };
    let mut fields = fields.into_iter();
    let (Some(Field { name, place: at, node }), None) = (fields.next(), fields.next()) else {
        reader.mistake(place, "an action has one name; write a dash before each");
        return None;
    };
    match name.as_str() {
        "remote_address" => remote_address(node, reader),
        "request_headers" | "request_header" => header(node, reader),
        "path" => path(node, reader),
        "method" => {
            let mut fields = Fields::of(node, &[KEY, SKIP], reader)?;
            finish(&mut fields, "method", Fact::Method, reader)
        }
        "query" => named(node, reader, Fact::Query),
        "cookie" => named(node, reader, Fact::Cookie),
        "generic_key" => {
            let mut fields = Fields::of(node, &["descriptor_value", KEY, SKIP], reader)?;
            let value = fields.required("descriptor_value", reader);
            finish(&mut fields, "generic_key", Fact::Text(value?.text), reader)
        }
        "jwt_claim" => claim(node, reader),
        _ => {
            reader.mistake(at, format!("unknown action '{name}'; write one of {ACTIONS}"));
            None
        }
    }
}

/// The action with what all of them may say.
fn finish(fields: &mut Fields, key: &str, fact: Fact, reader: &mut Reader<'_>) -> Option<Action> {
    let own = fields.text(KEY, reader).map(|placed| placed.text);
    let skip_if_absent = fields.parsed(SKIP, reader, go::truth).unwrap_or(false);
    Some(Action { key: own.unwrap_or_else(|| key.to_owned()), fact, skip_if_absent })
}

fn remote_address(node: Node, reader: &mut Reader<'_>) -> Option<Action> {
    let (v4, v6) = ("v4_prefix_mask_len", "v6_prefix_mask_len");
    let mut fields = Fields::of(node, &[v4, v6, KEY, SKIP], reader)?;
    let v4 = fields.parsed(v4, reader, |text| {
        let bits = go::number::<u8>(text)?;
        AddressPrefixes::new(bits, 128).map(|_| bits).map_err(|error| error.to_string())
    });
    let v6 = fields.parsed(v6, reader, |text| {
        let bits = go::number::<u8>(text)?;
        AddressPrefixes::new(32, bits).map(|_| bits).map_err(|error| error.to_string())
    });
    let prefixes = AddressPrefixes::new(v4.unwrap_or(32), v6.unwrap_or(64)).ok()?;
    finish(&mut fields, "remote_address", Fact::RemoteAddress(prefixes), reader)
}

fn header(node: Node, reader: &mut Reader<'_>) -> Option<Action> {
    let mut fields = Fields::of(node, &["header_name", KEY, SKIP], reader)?;
    let Placed { place, text } = fields.required("header_name", reader)?;
    let fact = Fact::header(&text).map_err(|error| reader.mistake(place, error.to_string())).ok();
    let key = text.trim_start_matches(':').to_ascii_lowercase();
    finish(&mut fields, &key, fact?, reader)
}

fn path(node: Node, reader: &mut Reader<'_>) -> Option<Action> {
    let mut fields = Fields::of(node, &["templates", "max_length", "unmatched", KEY, SKIP], reader)?;
    let mut paths = PathTemplates::default();
    for Placed { place, text } in fields.texts("templates", reader) {
        if let Err(error) = paths.add(&text) {
            reader.mistake(place, error.to_string());
        }
    }
    let max = fields.parsed("max_length", reader, |text| match go::number::<usize>(text)? {
        bytes if (1..=VALUE_MAX).contains(&bytes) => Ok(bytes),
        bytes => Err(format!("a path of {bytes} bytes cannot be a value; write 1 to {VALUE_MAX}")),
    });
    if let Some(max) = max {
        paths = paths.with_length_max(max);
    }
    if let Some(unmatched) = fields.text("unmatched", reader) {
        paths = paths.with_unmatched(&unmatched.text);
    }
    finish(&mut fields, "path", Fact::Path(paths), reader)
}

/// A query parameter or a cookie, by name.
fn named(node: Node, reader: &mut Reader<'_>, fact: fn(String) -> Fact) -> Option<Action> {
    let mut fields = Fields::of(node, &["name", KEY, SKIP], reader)?;
    let name = fields.required("name", reader)?.text;
    finish(&mut fields, &name, fact(name.clone()), reader)
}

fn claim(node: Node, reader: &mut Reader<'_>) -> Option<Action> {
    let mut fields = Fields::of(node, &["claim", "from", KEY, SKIP], reader)?;
    let path: Vec<String> = fields.texts("claim", reader).into_iter().map(|placed| placed.text).collect();
    if path.is_empty() {
        let message = "'claim' is missing; write its name, or a list of names one within the other";
        reader.mistake(fields.place(), message);
        return None;
    }
    let source = match fields.take("from") {
        Some(node) => source(node, reader)?,
        None => TokenSource::default(),
    };
    let key = path.join(".");
    finish(&mut fields, &key, Fact::Claim { path, source }, reader)
}

/// Where a token is: `{ header: X-Token, prefix: "" }` or `{ cookie: session }`.
fn source(node: Node, reader: &mut Reader<'_>) -> Option<TokenSource> {
    let mut fields = Fields::of(node, &["header", "prefix", "cookie"], reader)?;
    let (header, cookie) = (fields.text("header", reader), fields.text("cookie", reader));
    let prefix = fields.text("prefix", reader).map(|placed| placed.text);
    match (header, cookie) {
        (None, Some(cookie)) => Some(TokenSource::Cookie { name: cookie.text }),
        (Some(Placed { place, text }), None) => match Fact::header(&text) {
            Ok(Fact::Header(name)) => {
                // Only the usual header has a usual prefix.
                let usual = if name == "authorization" { "Bearer " } else { "" };
                Some(TokenSource::Header { name, prefix: prefix.unwrap_or_else(|| usual.to_owned()) })
            }
            Ok(_) | Err(_) => {
                reader.mistake(place, format!("'{text}' is not the name of a header that can hold a token"));
                None
            }
        },
        (None, None) | (Some(_), Some(_)) => {
            reader.mistake(fields.place(), "a token is in one place; write header: NAME or cookie: NAME");
            None
        }
    }
}
