//! `tollgate.yaml` as JSON Schema, for editors.
//!
//! Keys, help and defaults come from the rows of all settings, and those of mappings, routes and
//! upstreams from the tables that their readers use.
//!
//! Invariant: every file that the settings accept is valid by the schema.
//!
//! Deliberately not here: what takes more than the shape of a value to tell, such as addresses and
//! files that must exist.

use serde_json::{Map, Value, json};
use tollgate_yaml::MapSchema;
use tollgate_yaml::json_schema as piece;

use crate::gateway::{routes, upstreams};
use crate::mapping::{self, actions, charge, jwt};
use crate::row::SettingRow;
use crate::rows;
use crate::values;

/// The schema of `tollgate.yaml`.
///
/// ```
/// let schema = tollgate_settings::schema();
/// let log = &schema["allOf"][0]["anyOf"][0]["properties"]["log"]["anyOf"][0];
/// assert_eq!(log["properties"]["level"]["default"], "info");
/// ```
pub fn schema() -> Value {
    let definitions = [
        ("descriptor", descriptor()),
        ("action", action()),
        ("token_source", map(&actions::TOKEN_SOURCE, |_| piece::text())),
        ("timeouts", map(&routes::TIMEOUTS, |_| piece::duration())),
    ];
    piece::document("Settings of Tollgate", &section(""), definitions)
}

/// The settings whose keys begin with that; a section may be left empty.
fn section(above: &str) -> Value {
    let mut properties = Map::new();
    for row in rows::all() {
        let Some(rest) = row.key.strip_prefix(above).filter(|rest| !rest.is_empty()) else { continue };
        match rest.split_once('.') {
            None => drop(properties.insert(rest.to_owned(), setting(row))),
            Some((name, _)) if properties.contains_key(name) => {}
            Some((name, _)) => drop(properties.insert(name.to_owned(), section(&format!("{above}{name}.")))),
        }
    }
    piece::or_null(json!({ "type": "object", "properties": properties, "additionalProperties": false }))
}

fn setting(row: &SettingRow) -> Value {
    let mut schema = match row.key {
        "gateway.upstreams" => piece::or_null(json!({ "type": "object", "additionalProperties": group() })),
        "gateway.routes" => piece::list(route()),
        "mapping" => general_mapping(),
        _ => of_type(row.type_name),
    };
    if let Some(fields) = schema.as_object_mut()
        && !row.default.is_empty()
        && !row.default.contains(' ')
    {
        fields.insert("default".to_owned(), row.default.into());
    }
    piece::described(schema, row.help)
}

/// What a value of that Rust type may be in the file.
fn of_type(name: &str) -> Value {
    let name: String = name.chars().filter(|c| !c.is_whitespace()).collect();
    let inner = name.split_once('<').map_or("", |(_, rest)| rest.strip_suffix('>').unwrap_or(rest));
    let scalar = || json!({ "type": ["string", "number", "boolean", "null"] });
    match inner {
        "bool" => json!({ "enum": [true, false, 1, 0, "true", "false", "1", "0", "t", "f", "", null] }),
        "u16" | "u32" | "u64" | "usize" | "f32" | "f64" => piece::any([
            json!({ "type": ["number", "null"], "minimum": 0 }),
            json!({ "type": "string", "pattern": r"^\s*[0-9.]*\s*$" }),
        ]),
        "Duration" => piece::any([piece::duration(), json!({ "enum": [""] })]),
        "ClientAddress" => piece::texts(),
        pairs if pairs.starts_with("Vec<(") => {
            piece::any([scalar(), json!({ "type": "object", "additionalProperties": scalar() })])
        }
        list if list.starts_with("Vec<") => piece::texts(),
        word if !words(word).is_empty() => one_of(&words(word)),
        // Types with a syntax of their own; one or two of them take lists.
        _ => json!({ "type": ["string", "number", "boolean", "array", "null"] }),
    }
}

/// The words that a value of that type may be, if it is one of a few; those that we write ourselves first.
fn words(type_name: &str) -> Vec<&'static str> {
    fn names<T>(words: &[(&'static str, T)]) -> Vec<&'static str> {
        words.iter().map(|(word, _)| *word).collect()
    }
    match type_name {
        "LogLevel" => [names(&values::LOG_LEVELS), names(&values::OTHER_LOG_LEVELS)].concat(),
        "LogFormat" => names(&values::LOG_FORMATS),
        "RequestFrom" => names(&values::REQUESTS_FROM),
        "KeyNames" => names(&values::KEY_NAMES),
        "StatsdProtocol" => names(&values::STATSD_PROTOCOLS),
        "RateLimitFields" => names(&values::RATELIMIT_FIELDS),
        "EnvoyPassThrough" => names(&values::ENVOY_PASS_THROUGHS),
        "ConfigType" => names(&values::CONFIG_TYPES),
        "AccessLogFormat" => names(&values::ACCESS_LOG_FORMATS),
        "Layout" => names(&values::LAYOUTS),
        _ => Vec::new(),
    }
}

/// One of these words, for an editor to offer; in capitals or not, as the settings take it.
fn one_of(words: &[&str]) -> Value {
    let either = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase()),
        false => c.to_string(),
    };
    let patterns: Vec<String> = words.iter().map(|word| word.chars().map(either).collect()).collect();
    piece::any([
        json!({ "enum": words }),
        json!({ "type": "string", "pattern": format!(r"^\s*({})?\s*$", patterns.join("|")) }),
        json!({ "type": "null" }),
    ])
}

fn map(schema: &MapSchema, of: impl Fn(&str) -> Value) -> Value {
    piece::or_null(piece::map(schema.keys.iter().copied(), of))
}

fn general_mapping() -> Value {
    let keys = || map(&jwt::KEY_FILE, |key| if key == "algorithms" { piece::texts() } else { piece::text() });
    let tokens = || {
        map(&jwt::JWT, |key| match key {
            "keys" => piece::list(keys()),
            "audience" => piece::texts(),
            "leeway" => piece::duration(),
            _ => piece::text(),
        })
    };
    map(&mapping::MAPPING, |key| match key {
        "descriptors" => piece::list(piece::reference("descriptor")),
        "trusted_proxies" => piece::list(piece::text()),
        "jwt" => tokens(),
        _ => piece::text(),
    })
}

/// A list of actions, or Envoy's map with such a list.
fn descriptor() -> Value {
    let actions = || piece::list(piece::reference("action"));
    let as_map = piece::map(actions::DESCRIPTOR.keys.iter().copied(), |key| match key {
        "actions" => actions(),
        "charge" => map(&charge::CHARGE, |_| piece::texts()),
        "cost" => map(&charge::COST, |key| if key == "default" { whole_number() } else { piece::text() }),
        _ => piece::texts(),
    });
    piece::any([json!({ "type": "array", "items": piece::reference("action") }), as_map])
}

fn action() -> Value {
    let named = |name: &'static str, schema: &MapSchema| {
        piece::requiring(piece::map([name], |_| map(schema, action_field)), &[name])
    };
    let one_of: Vec<Value> = actions::SCHEMAS.iter().map(|(name, schema)| named(name, schema)).collect();
    json!({ "anyOf": one_of })
}

fn action_field(key: &str) -> Value {
    match key {
        "skip_if_absent" | "required" | "show" | "cut_parameters" | "ignore_case" => piece::flag(),
        "v4_prefix_mask_len" | "v6_prefix_mask_len" | "max_length" => whole_number(),
        "templates" | "claim" => piece::texts(),
        "from" => piece::reference("token_source"),
        _ => piece::text(),
    }
}

fn whole_number() -> Value {
    piece::number(0..=u64::from(u32::MAX))
}

fn route() -> Value {
    let own_mapping = || {
        map(&mapping::ROUTE_MAPPING, |key| match key {
            "descriptors" => piece::list(piece::reference("descriptor")),
            _ => piece::text(),
        })
    };
    let route = piece::map(routes::ROUTE.keys.iter().copied(), |key| match key {
        "headers" => piece::or_null(json!({ "type": "object", "additionalProperties": piece::text() })),
        "mapping" => own_mapping(),
        "timeouts" => piece::reference("timeouts"),
        "upstream" => piece::text(),
        _ => piece::texts(),
    });
    piece::requiring(route, &["upstream"])
}

/// The upstreams of one name: one, a list, or a map with more about them.
fn group() -> Value {
    let described = piece::map(upstreams::GROUP.keys.iter().copied(), |key| match key {
        "servers" => piece::texts(),
        "tls" => map(&upstreams::TLS, |key| match key {
            "danger_accept_any_certificate" => piece::flag(),
            _ => piece::text(),
        }),
        "eject" => map(&upstreams::EJECT, |key| match key {
            "for" => piece::duration(),
            _ => whole_number(),
        }),
        "health_check" => map(&upstreams::HEALTH_CHECK, |key| match key {
            "interval" | "timeout" => piece::duration(),
            "status" => piece::texts(),
            "path" => piece::text(),
            _ => whole_number(),
        }),
        _ => piece::text(),
    });
    piece::any([piece::texts(), piece::requiring(described, &["servers"])])
}
