//! The descriptors of a mapping, action by action, in Envoy's words.

use tollgate_http::request::token::TokenSource;
use tollgate_http::request::value::VALUE_MAX;
use tollgate_http::{
    Action, AddressPrefixes, ChargeTerms, EscapedSlashes, Fact, MappingDescriptor, MissingValue,
    PathSpelling, PathTemplates,
};
use tollgate_yaml::{Located, MapEntry, MapSchema, Problems, YamlMap, YamlNode, YamlValue, one_of, quoted};

use super::{charge, fields, required_text};
use crate::go_syntax::choice;

/// Every action, as it is written. `request_header` is accepted, too.
const ACTIONS: [&str; 8] =
    ["remote_address", "request_headers", "path", "method", "query", "cookie", "generic_key", "jwt_claim"];

/// The fields that all actions have.
const KEY: &str = "descriptor_key";
const SKIP: &str = "skip_if_absent";

/// The fields of actions whose value may be absent.
const MISSING: &str = "missing";
const REQUIRED: &str = "required";

/// The field of actions whose value may be a secret.
const SHOW: &str = "show";

pub(crate) const DESCRIPTOR: MapSchema = MapSchema {
    what: "a descriptor",
    keys: &["actions", "charge", "refund_on", "cost"],
    example: "actions: and a list below it",
};
const REMOTE_ADDRESS: MapSchema = MapSchema {
    what: "remote_address",
    keys: &["v4_prefix_mask_len", "v6_prefix_mask_len", KEY, SKIP, MISSING, REQUIRED],
    example: "remote_address: {}",
};
const REQUEST_HEADERS: MapSchema = MapSchema {
    what: "request_headers",
    keys: &["header_name", KEY, SKIP, MISSING, REQUIRED, SHOW],
    example: "request_headers: { header_name: NAME }",
};
const PATH: MapSchema = MapSchema {
    what: "path",
    keys: &[
        "templates",
        "max_length",
        "unmatched",
        "escaped_slashes",
        "cut_parameters",
        "ignore_case",
        KEY,
        SKIP,
    ],
    example: "path: {}",
};
const METHOD: MapSchema = MapSchema { what: "method", keys: &[KEY, SKIP], example: "method: {}" };
const QUERY: MapSchema = MapSchema {
    what: "query",
    keys: &["name", KEY, SKIP, MISSING, REQUIRED, SHOW],
    example: "query: { name: NAME }",
};
const COOKIE: MapSchema = MapSchema {
    what: "cookie",
    keys: &["name", KEY, SKIP, MISSING, REQUIRED, SHOW],
    example: "cookie: { name: NAME }",
};
const GENERIC_KEY: MapSchema = MapSchema {
    what: "generic_key",
    keys: &["descriptor_value", KEY, SKIP],
    example: "generic_key: { descriptor_value: VALUE }",
};
const JWT_CLAIM: MapSchema = MapSchema {
    what: "jwt_claim",
    keys: &["claim", "from", KEY, SKIP, MISSING, REQUIRED],
    example: "jwt_claim: { claim: NAME }",
};
pub(crate) const TOKEN_SOURCE: MapSchema = MapSchema {
    what: "from",
    keys: &["header", "prefix", "cookie"],
    example: "from: { header: NAME } or from: { cookie: NAME }",
};

/// The name of every action, with what may stand below it.
pub(crate) const SCHEMAS: [(&str, MapSchema); 9] = [
    ("remote_address", REMOTE_ADDRESS),
    ("request_headers", REQUEST_HEADERS),
    ("request_header", REQUEST_HEADERS),
    ("path", PATH),
    ("method", METHOD),
    ("query", QUERY),
    ("cookie", COOKIE),
    ("generic_key", GENERIC_KEY),
    ("jwt_claim", JWT_CLAIM),
];

/// A list of actions, or Envoy's map with such a list and perhaps with when it is charged. What is
/// wrong is left out.
pub(super) fn descriptor(node: &YamlNode, problems: &mut Problems) -> Option<MappingDescriptor> {
    let map = match &*node.value {
        YamlValue::Map(_) => YamlMap::read(node, &DESCRIPTOR, problems),
        YamlValue::Scalar(_) | YamlValue::List(_) | YamlValue::Broken => None,
    };
    let items = match (&map, &*node.value) {
        (Some(map), _) => map.list("actions", "ACTION", problems),
        (None, YamlValue::List(items)) => items,
        (None, _) => {
            let help = format!("write a list of {}", ACTIONS.join(", "));
            node.must_be("a descriptor", "a list of actions", help, problems);
            return None;
        }
    };
    if items.is_empty() {
        let help = format!("write a list of {}", ACTIONS.join(", "));
        problems.error(node.at, "a descriptor needs actions", help);
    }
    let actions: Vec<Action> = items.iter().filter_map(|item| action(item, problems)).collect();
    let terms = match &map {
        Some(map) => charge::terms(map, problems)?,
        None => ChargeTerms::default(),
    };
    (!actions.is_empty()).then(|| MappingDescriptor::new(actions, terms))
}

fn action(node: &YamlNode, problems: &mut Problems) -> Option<Action> {
    let YamlValue::Map(_) = &*node.value else {
        node.must_be("an action", "a map with its name", one_of(ACTIONS), problems);
        return None;
    };
    let entries = node.entries(|| one_of(ACTIONS), problems);
    let [MapEntry { name, key, value, .. }] = entries.as_slice() else {
        problems.error(node.at, "an action has one name", "write a dash before each");
        return None;
    };
    match *name {
        "remote_address" => remote_address(value, problems),
        "request_headers" | "request_header" => request_header(value, problems),
        "path" => path(value, problems),
        "method" => finish(&fields(value, &METHOD, problems)?, "method", Fact::Method, problems),
        "query" => named(value, &QUERY, Fact::Query, problems),
        "cookie" => named(value, &COOKIE, Fact::Cookie, problems),
        "generic_key" => {
            let map = fields(value, &GENERIC_KEY, problems)?;
            let value = required_text(&map, "descriptor_value", "VALUE", problems);
            finish(&map, "generic_key", Fact::Text(value?.value), problems)
        }
        "jwt_claim" => jwt_claim(value, problems),
        _ => {
            problems.error(key.at, format!("unknown action {}", quoted(name)), one_of(ACTIONS));
            None
        }
    }
}

/// The action with what all of them may say.
fn finish(map: &YamlMap, key: &str, fact: Fact, problems: &mut Problems) -> Option<Action> {
    let own = map.text(KEY, problems).map(|text| text.value);
    let mut action = Action::new(own.unwrap_or_else(|| key.to_owned()), fact).or(missing(map, problems));
    if let Some(show) = map.flag(SHOW, problems) {
        action.show = show;
    }
    Some(action)
}

/// What becomes of a request without the value. There are three ways to say it,
/// which must not say different things.
fn missing(map: &YamlMap, problems: &mut Problems) -> MissingValue {
    let choices = [("drop", MissingValue::Drop), ("deny", MissingValue::Deny), ("key", MissingValue::Key)];
    let parse = |text: &str| choice(text, "is not what can become of such a request", &choices);
    let named = map.parsed(MISSING, parse, problems).map(|missing| missing.value);
    let is_required = map.flag(REQUIRED, problems).unwrap_or(false);
    let is_skipped = map.flag(SKIP, problems).unwrap_or(false);
    let said = [named, is_required.then_some(MissingValue::Deny), is_skipped.then_some(MissingValue::Skip)];
    let mut said = said.into_iter().flatten();
    let first = said.next().unwrap_or_default();
    if said.any(|other| other != first) {
        let message = format!("{MISSING}, {REQUIRED} and {SKIP} say different things");
        problems.error(map.at, message, "write one of them");
    }
    first
}

fn remote_address(node: &YamlNode, problems: &mut Problems) -> Option<Action> {
    let map = fields(node, &REMOTE_ADDRESS, problems)?;
    let mut bits = |key, most: u8, default: u8| {
        let bits = map.number(key, 0..=most.into(), problems);
        bits.and_then(|bits| u8::try_from(bits).ok()).unwrap_or(default)
    };
    let prefixes =
        AddressPrefixes::new(bits("v4_prefix_mask_len", 32, 32), bits("v6_prefix_mask_len", 128, 64));
    finish(&map, "remote_address", Fact::RemoteAddress(prefixes.ok()?), problems)
}

fn request_header(node: &YamlNode, problems: &mut Problems) -> Option<Action> {
    let map = fields(node, &REQUEST_HEADERS, problems)?;
    let Located { value, at } = required_text(&map, "header_name", "NAME", problems)?;
    let fact = Fact::header(&value).map_err(|error| problems.error_from(at, &error)).ok();
    let key = value.trim_start_matches(':').to_ascii_lowercase();
    finish(&map, &key, fact?, problems)
}

fn path(node: &YamlNode, problems: &mut Problems) -> Option<Action> {
    let map = fields(node, &PATH, problems)?;
    let mut paths = PathTemplates::spelled(path_spelling(&map, problems));
    for Located { value, at } in map.texts("templates", "TEMPLATE", problems) {
        if let Err(error) = paths.add(&value) {
            problems.error_from(at, &error);
        }
    }
    let most = u64::try_from(VALUE_MAX).unwrap_or(u64::MAX);
    let length = map.number("max_length", 1..=most, problems);
    if let Some(length) = length.and_then(|length| usize::try_from(length).ok()) {
        paths = paths.with_length_max(length);
    }
    if let Some(unmatched) = map.text("unmatched", problems) {
        paths = paths.with_unmatched(&unmatched.value);
    }
    finish(&map, "path", Fact::Path(paths), problems)
}

/// How paths are spelled where proxies and services differ.
fn path_spelling(map: &YamlMap, problems: &mut Problems) -> PathSpelling {
    let choices =
        [("slash", EscapedSlashes::Slash), ("keep", EscapedSlashes::Keep), ("deny", EscapedSlashes::Deny)];
    let parse = |text: &str| choice(text, "is not what %2F can be", &choices);
    let escaped_slashes = map.parsed("escaped_slashes", parse, problems);
    PathSpelling {
        escaped_slashes: escaped_slashes.map(|choice| choice.value).unwrap_or_default(),
        cut_parameters: map.flag("cut_parameters", problems).unwrap_or(false),
        ignore_case: map.flag("ignore_case", problems).unwrap_or(false),
    }
}

/// A query parameter or a cookie, by name.
fn named(
    node: &YamlNode,
    schema: &MapSchema,
    fact: fn(String) -> Fact,
    problems: &mut Problems,
) -> Option<Action> {
    let map = fields(node, schema, problems)?;
    let name = required_text(&map, "name", "NAME", problems)?.value;
    finish(&map, &name, fact(name.clone()), problems)
}

fn jwt_claim(node: &YamlNode, problems: &mut Problems) -> Option<Action> {
    let map = fields(node, &JWT_CLAIM, problems)?;
    map.required("claim", "NAME, or a list of names one within the other", problems)?;
    let path: Vec<String> = map.texts("claim", "NAME", problems).into_iter().map(|text| text.value).collect();
    let source = match map.get("from") {
        Some(field) => token_source(&field.node, problems)?,
        None => TokenSource::default(),
    };
    if path.is_empty() {
        let help = "write claim: NAME, or a list of names one within the other";
        problems.error(map.location("claim"), "claim is empty", help);
        return None;
    }
    let key = path.join(".");
    finish(&map, &key, Fact::Claim { path, source }, problems)
}

/// Where a token is: `{ header: X-Token, prefix: "" }` or `{ cookie: session }`.
fn token_source(node: &YamlNode, problems: &mut Problems) -> Option<TokenSource> {
    let map = fields(node, &TOKEN_SOURCE, problems)?;
    let (header, cookie) = (map.text("header", problems), map.text("cookie", problems));
    let prefix = map.text("prefix", problems).map(|prefix| prefix.value);
    match (header, cookie) {
        (None, Some(cookie)) => Some(TokenSource::Cookie { name: cookie.value }),
        (Some(Located { value, at }), None) => match Fact::header(&value) {
            Ok(Fact::Header(name)) => {
                // Only the usual header has a usual prefix.
                let usual = if name == "authorization" { "Bearer " } else { "" };
                Some(TokenSource::Header { name, prefix: prefix.unwrap_or_else(|| usual.to_owned()) })
            }
            Ok(_) | Err(_) => {
                let message = format!("{} is not the name of a header that can hold a token", quoted(&value));
                problems.error(at, message, "write such as header: X-Token");
                None
            }
        },
        (None, None) | (Some(_), Some(_)) => {
            problems.error(map.at, "a token is in one place", "write header: NAME or cookie: NAME");
            None
        }
    }
}
