//! Rule files as JSON Schema, for editors: they complete keys and mark what is wrong while one types.
//!
//! Made from the table of keys that the reader uses, and from the words and bounds that the limits
//! themselves have.
//!
//! Invariant: every file that loads is valid by the schema.
//!
//! Deliberately not here: what takes more than one field to tell, such as limits that can never
//! refill; `tollgate check` tells all of it.

use serde_json::{Map, Value, json};
use tollgate_core::penalty::{FACTOR_MAX, STRIKES_MAX};
use tollgate_core::{Algorithm, OnStoreError, OverLimit, Parameters, Refill, Shape, Unit};
use tollgate_yaml::json_schema as piece;

use crate::LIMITS_MAX;
use crate::keys::{self, RuleMapKind};
use crate::limit::{NOT_WITH_UNLIMITED, PARAMETERS};

/// The schema of rule files.
///
/// ```
/// let schema = tollgate_rules::schema();
/// assert_eq!(schema["definitions"]["limit"]["properties"]["algorithm"]["enum"][0], "fixed_window");
/// ```
pub fn schema() -> Value {
    let root = piece::requiring(map(RuleMapKind::Root), &["domain"]);
    let definitions = [
        ("descriptor", descriptor()),
        ("limit", limit()),
        ("replaced", piece::requiring(map(RuleMapKind::Replaces), &["name"])),
        ("penalty", piece::requiring(map(RuleMapKind::Penalty), &["after", "within", "block"])),
        ("listed", map(RuleMapKind::ListItem)),
    ];
    piece::document("A rule file of Tollgate", &root, definitions)
}

/// A map of that kind. Keys that mean nothing there are struck through where they may stand.
fn map(kind: RuleMapKind) -> Value {
    let idle: Vec<&str> = keys::idle_keys(kind).collect();
    piece::map(kind.keys().chain(idle.iter().copied()), |key| {
        if idle.contains(&key) {
            let words = format!("{key} has no effect {}", kind.here());
            return json!({ "deprecated": true, "description": words, "deprecationMessage": words });
        }
        let (value, words) = field(key).unwrap_or((json!({}), ""));
        piece::described(value, words)
    })
}

/// A descriptor: it has a key, and one limit or several.
fn descriptor() -> Value {
    let mut descriptor = piece::requiring(map(RuleMapKind::Descriptor), &["key"]);
    let limits = ["rate_limit", "rate_limits"];
    let both: Map<String, Value> = limits.iter().map(|key| ((*key).to_owned(), present())).collect();
    add(&mut descriptor, "not", json!({ "properties": both, "required": limits }));
    descriptor
}

/// A limit: it has a unit or is unlimited, and only parameters of its algorithm.
fn limit() -> Value {
    let mut unlimited: Map<String, Value> =
        NOT_WITH_UNLIMITED.iter().map(|key| ((*key).to_owned(), json!({ "type": "null" }))).collect();
    unlimited.insert("unit".to_owned(), json!({ "not": unit() }));
    let mut rules = vec![json!({
        "if": { "properties": { "unlimited": { "const": true } }, "required": ["unlimited"] },
        "then": { "properties": unlimited },
        "else": { "properties": { "unit": unit() }, "required": ["unit"] },
    })];
    for (key, is_had) in PARAMETERS {
        let owns =
            |algorithm: &Algorithm| is_had(&Shape::new(*algorithm, &Parameters::default(), 1).parameters());
        let owners: Vec<&str> =
            Algorithm::ALL.iter().filter(|owner| owns(owner)).map(|it| it.name()).collect();
        rules.push(json!({
            "if": { "properties": { key: present() }, "required": [key] },
            "then": { "properties": { "algorithm": { "enum": owners } }, "required": ["algorithm"] },
        }));
    }
    let mut limit = map(RuleMapKind::Limit);
    add(&mut limit, "allOf", rules.into());
    limit
}

fn present() -> Value {
    json!({ "not": { "type": "null" } })
}

fn add(schema: &mut Value, key: &str, value: Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}

/// A unit, in capital letters or not.
fn unit() -> Value {
    let any_case = |letter: char| format!("[{}{}]", letter.to_ascii_lowercase(), letter.to_ascii_uppercase());
    let words = Unit::ALL.map(|unit| unit.name().chars().map(any_case).collect::<String>());
    json!({ "type": "string", "pattern": format!("^({})$", words.join("|")) })
}

/// What stands under a key, and what it is for; none for a key that is not told here yet.
fn field(key: &str) -> Option<(Value, &'static str)> {
    let count = || piece::number(0..=u64::from(u32::MAX));
    Some(match key {
        "domain" => (name(), "The group of rules that callers name in their requests."),
        "descriptors" => (
            piece::list(piece::reference("descriptor")),
            "What requests are matched against, level by level.",
        ),
        "key" => (name(), "The key of an entry."),
        "value" => (
            text(),
            "Its value, with * for anything; without it any value matches, each with a counter of its own.",
        ),
        "rate_limit" => {
            (piece::or_null(piece::reference("limit")), "The limit of whatever ends at this descriptor.")
        }
        "rate_limits" => {
            let mut limits = piece::list(piece::reference("limit"));
            add(&mut limits, "minItems", 1.into());
            add(&mut limits, "maxItems", LIMITS_MAX.into());
            (limits, "Several limits, decided all or nothing.")
        }
        "shadow_mode" => (piece::flag(), "Count and report, but refuse nothing."),
        "quota_mode" => (piece::flag(), "Refuse only if every quota refuses."),
        "detailed_metric" => (piece::flag(), "Metrics name the values of this descriptor."),
        "value_to_metric" => (piece::flag(), "Metrics name the value of this entry."),
        "share_threshold" => (piece::flag(), "All values that fit the pattern count together."),
        "metadata" => (json!({ "type": ["object", "null"] }), "Free data that replies carry."),
        "unit" => (
            piece::any([piece::choice(&Unit::ALL.map(Unit::name)), text()]),
            "The window, times unit_multiplier.",
        ),
        "requests_per_unit" => (count(), "How many are allowed in a window; 0 blocks everything."),
        "unlimited" => (piece::flag(), "No limit, and nothing is counted."),
        "name" => (text(), "A name for replies, metrics and replaces."),
        "replaces" => {
            (piece::list(piece::reference("replaced")), "Limits that do not apply where this one does.")
        }
        "algorithm" => (
            piece::choice(&Algorithm::ALL.map(Algorithm::name)),
            "How the limit counts; left out, it is Envoy's fixed window.",
        ),
        "unit_multiplier" => (piece::number(1..=u64::from(u32::MAX)), "The window is the unit times this."),
        "burst" => (count(), "The size of the token bucket, or how many may wait in the leaky one."),
        "refill" => (
            piece::choice(&Refill::ALL.map(Refill::name)),
            "Tokens come back one by one, or all of a window at once.",
        ),
        "buckets" => (piece::number(1..=u64::from(u32::MAX)), "The number of sub-windows."),
        "max_wait" => (piece::duration(), "A request that would wait longer is denied."),
        "count_rejected" => (piece::flag(), "A denied request is counted, too."),
        "throttle" => (throttle(), "hard, or a percentage that may pass beyond the limit and is marked."),
        "on_store_error" => (
            piece::choice(&OnStoreError::ALL.map(OnStoreError::name)),
            "What the limit does while the store cannot be asked.",
        ),
        "postpaid" => (piece::flag(), "Costs become known afterwards and are always recorded."),
        "penalty" => (piece::reference("penalty"), "Who is denied that often is blocked that long."),
        "over_limit" => (
            piece::choice(&OverLimit::ALL.map(OverLimit::name)),
            "deny, or defer: what the limit has no room for is taken with 202 and sent later at its rate.",
        ),
        "message" => (piece::text(), "What whoever is refused is told."),
        "allow" => (listed(), "Whom this does not meet: networks, values and patterns."),
        "deny" => (listed(), "Who is always denied: networks, values and patterns."),
        "file" => (piece::text(), "A file with one item on a line, as seen from the rule file."),
        _ => return penalty_field(key),
    })
}

/// The same of a penalty.
fn penalty_field(key: &str) -> Option<(Value, &'static str)> {
    Some(match key {
        "after" => (piece::number(1..=u64::from(STRIKES_MAX)), "How many denials begin a block."),
        "within" => (piece::duration(), "The time in which they come."),
        "block" => (piece::duration(), "How long the block lasts."),
        "factor" => (piece::number(2..=u64::from(FACTOR_MAX)), "By what each block in a row is longer."),
        "max" => (piece::duration(), "No block is longer."),
        _ => return None,
    })
}

/// Items of a list, each written down or in a file.
fn listed() -> Value {
    let value = json!({ "type": ["string", "number", "boolean"] });
    piece::list(piece::any([value, piece::reference("listed")]))
}

/// A text that must be there.
fn name() -> Value {
    json!({ "type": ["string", "integer", "boolean"], "minLength": 1 })
}

/// A text as the reference takes it: no fraction.
fn text() -> Value {
    json!({ "type": ["string", "integer", "boolean", "null"] })
}

fn throttle() -> Value {
    let of = |word: &'static str, keys: &[&'static str]| {
        let percentages =
            piece::map(keys.iter().copied(), |_| json!({ "type": "string", "pattern": "^[0-9]+%$" }));
        piece::requiring(piece::map([word], |_| piece::requiring(percentages.clone(), keys)), &[word])
    };
    piece::any([piece::choice(&["hard"]), of("soft", &["exceed"]), of("elastic", &["exceed", "below_load"])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_told() {
        use RuleMapKind::{Descriptor, Limit, ListItem, Penalty, Replaces, Root};
        for kind in [Root, Descriptor, Limit, ListItem, Penalty, Replaces] {
            for key in kind.keys() {
                assert!(field(key).is_some(), "{key} has no schema");
            }
        }
    }
}
