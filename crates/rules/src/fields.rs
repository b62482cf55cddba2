//! A map of a rule file as fields, each with its place.
//!
//! Between the YAML tree and what it means: [`Fields::read`] follows merge
//! keys, settles keys given twice, and reports keys that are unknown or stand
//! in the wrong place; the rest asks for the fields it knows by type.
//!
//! The last of two equal keys wins, and two `rate_limit` maps become one, as in
//! the parser of envoyproxy/ratelimit.
//!
//! Deliberately not here: which values are sensible.

use super::keys::{self, Level};
use super::problem::{Place, Report, quoted};
use super::yaml::{Kind, Node, Resolved};

/// The fields of one map.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Where the map begins.
    pub(crate) at: Place,
    level: Level,
    list: Vec<Field>,
    /// Keys that unknown ones were probably meant to be.
    misspelled: Vec<&'static str>,
}

/// One field.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) key_at: Place,
    pub(crate) node: Node,
    is_merged: bool,
}

impl Fields {
    /// The fields of a map; none if the node is no map, which is reported.
    pub(crate) fn read(node: &Node, level: Level, what: &str, report: &mut Report) -> Option<Self> {
        let pairs = match &*node.kind {
            Kind::Map(pairs) => pairs,
            Kind::Broken => return None,
            Kind::Scalar(_) | Kind::List(_) => {
                let message = format!("{what} must be a map, this is {}", shown(node));
                report.error(node.at, message, level.example());
                return None;
            }
        };
        let mut fields = Self { at: node.at, level, list: Vec::new(), misspelled: Vec::new() };
        fields.add(pairs, Origin::Own, report);
        Some(fields)
    }

    fn add(&mut self, pairs: &[(Node, Node)], origin: Origin, report: &mut Report) {
        for (key, value) in pairs {
            match &*key.kind {
                Kind::Scalar(scalar) if scalar.is_merge() => self.merge(value, report),
                Kind::Scalar(scalar) if scalar.resolve() == Resolved::Text => {
                    if let Some(known) = self.known(&scalar.text, key.at, value, report) {
                        let is_merged = matches!(origin, Origin::Merged);
                        self.put(
                            Field { key: known, key_at: key.at, node: value.clone(), is_merged },
                            report,
                        );
                    }
                }
                Kind::Scalar(_) | Kind::Map(_) | Kind::List(_) => {
                    let message = format!("a key must be a text, this is {}", shown(key));
                    report.error(key.at, message, keys::help_for("", self.level));
                }
                Kind::Broken => {}
            }
        }
    }

    fn merge(&mut self, value: &Node, report: &mut Report) {
        match &*value.kind {
            Kind::Map(pairs) => self.add(pairs, Origin::Merged, report),
            // Of several maps the first wins, so it comes last.
            Kind::List(items) => {
                for item in items.iter().rev() {
                    match &*item.kind {
                        Kind::Map(pairs) => self.add(pairs, Origin::Merged, report),
                        Kind::Broken => {}
                        Kind::Scalar(_) | Kind::List(_) => not_mergeable(item, report),
                    }
                }
            }
            Kind::Broken => {}
            Kind::Scalar(_) => not_mergeable(value, report),
        }
    }

    /// The key, if it belongs here; else it is reported.
    fn known(&mut self, name: &str, at: Place, value: &Node, report: &mut Report) -> Option<&'static str> {
        let Some(known) = keys::find(name) else {
            unknown(name, at, self.level, report);
            match name {
                // It would stand instead of these two.
                "concurrency" => self.misspelled.extend(["unit", "requests_per_unit"]),
                _ if report.is_full() => {}
                _ => self.misspelled.extend(keys::meant(name, self.level)),
            }
            return None;
        };
        if known.levels.contains(&self.level) {
            return Some(known.name);
        }
        let help = format!("write it {}", known.levels.first().map_or("", |level| level.whereabouts()));
        let message = format!("{name} has no effect {}", self.level.here());
        if known.is_old {
            report.warning(at, message, help);
            check_unused(name, value, report);
        } else {
            report.error(at, message, help);
        }
        None
    }

    fn put(&mut self, mut field: Field, report: &mut Report) {
        let name = field.key;
        let Some(earlier) = self.list.iter_mut().find(|earlier| earlier.key == name) else {
            return self.list.push(field);
        };
        if !earlier.is_merged && !field.is_merged {
            let line = earlier.key_at.line;
            let message = match name {
                "rate_limit" => {
                    format!("{name} is given twice, this and the one at line {line} are read as one")
                }
                _ => format!("{name} is given twice, the one at line {line} is ignored"),
            };
            report.warning(field.key_at, message, "write it once");
        } else if !earlier.is_merged {
            report.warning(earlier.key_at, format!("<< after {name} overwrites it"), "write << first");
        }
        if name == "rate_limit" {
            field.node = joined(&earlier.node, &field.node);
        }
        *earlier = field;
    }

    /// The field of that name, null or not.
    pub(crate) fn get(&self, key: &str) -> Option<&Field> {
        self.list.iter().find(|field| field.key == key)
    }

    /// Whether something was reported about this key already: an unknown one
    /// that was probably meant to be it, or a value that cannot be read.
    pub(crate) fn is_told(&self, key: &str) -> bool {
        let is_broken = |field: &Field| matches!(*field.node.kind, Kind::Broken);
        self.misspelled.contains(&key) || self.get(key).is_some_and(is_broken)
    }

    /// The field of that name, unless it is null.
    pub(crate) fn set(&self, key: &str) -> Option<&Field> {
        self.get(key).filter(|field| !field.node.is_null())
    }

    /// Where the value of that field stands, or else the map.
    pub(crate) fn place(&self, key: &str) -> Place {
        self.get(key).map_or(self.at, |field| field.node.at)
    }

    /// The text of a field, as written: `200` and `on` are texts here.
    pub(crate) fn text(&self, key: &str, report: &mut Report) -> Option<String> {
        let field = self.set(key)?;
        let Kind::Scalar(scalar) = &*field.node.kind else {
            field.wrong("a text", &format!("write {key}: TEXT"), report);
            return None;
        };
        match scalar.resolve() {
            Resolved::Text | Resolved::Int(_) | Resolved::Bool(_) => Some(scalar.text.clone()),
            Resolved::Float | Resolved::Timestamp => {
                let help = format!("write {key}: \"{}\", in quotes", quoted(&scalar.text).trim_matches('\''));
                field.wrong("a text", &help, report);
                None
            }
            Resolved::Null => None,
        }
    }

    /// The text of a field, whatever it would mean by itself.
    pub(crate) fn raw(&self, key: &str, report: &mut Report) -> Option<String> {
        let field = self.set(key)?;
        match &*field.node.kind {
            Kind::Scalar(scalar) => Some(scalar.text.clone()),
            Kind::Map(_) | Kind::List(_) | Kind::Broken => self.text(key, report),
        }
    }

    /// Whether a field is true; none if it is absent.
    pub(crate) fn flag(&self, key: &str, report: &mut Report) -> Option<bool> {
        let field = self.set(key)?;
        if let Kind::Scalar(scalar) = &*field.node.kind
            && let Resolved::Bool(is_true) = scalar.resolve()
        {
            return Some(is_true);
        }
        let is_quoted = |word: &str| matches!(&*field.node.kind, Kind::Scalar(scalar) if scalar.text == word);
        let help = match ["true", "false"].into_iter().find(|word| is_quoted(word)) {
            Some(word) => format!("write {key}: {word}, without quotes"),
            None => format!("write {key}: true or {key}: false"),
        };
        field.wrong("true or false", &help, report);
        None
    }

    /// The whole number of a field; none if it is absent.
    pub(crate) fn number(&self, key: &str, report: &mut Report) -> Option<u32> {
        let field = self.set(key)?;
        let help = format!("write {key}: N, with N from 0 to {}", u32::MAX);
        if let Kind::Scalar(scalar) = &*field.node.kind {
            let out_of_range = format!("{key} of {} is out of range", quoted(&scalar.text));
            match scalar.resolve() {
                Resolved::Int(number) => {
                    let number = u32::try_from(number).ok();
                    if number.is_none() {
                        report.error(field.node.at, out_of_range, help);
                    }
                    return number;
                }
                // Whole, but larger than any number that YAML 1.1 keeps whole.
                Resolved::Float if !scalar.text.contains(['.', 'e', 'E']) => {
                    report.error(field.node.at, out_of_range, help);
                    return None;
                }
                Resolved::Text if scalar.text.parse::<u32>().is_ok() => {
                    let help = format!("write {key}: {}, without quotes", scalar.text);
                    field.wrong("a whole number", &help, report);
                    return None;
                }
                Resolved::Text
                | Resolved::Bool(_)
                | Resolved::Float
                | Resolved::Timestamp
                | Resolved::Null => {}
            }
        }
        field.wrong("a whole number", &help, report);
        None
    }

    /// The items of a list; empty if it is absent or null.
    pub(crate) fn list(&self, key: &str, item: &str, report: &mut Report) -> Vec<Node> {
        let Some(field) = self.set(key) else { return Vec::new() };
        match &*field.node.kind {
            Kind::List(items) => items.clone(),
            Kind::Broken => Vec::new(),
            Kind::Scalar(_) | Kind::Map(_) => {
                field.wrong("a list", &format!("write a list below {key}, each item as - {item}"), report);
                Vec::new()
            }
        }
    }
}

impl Field {
    /// Reports that the value is not what it must be.
    pub(crate) fn wrong(&self, what: &str, help: &str, report: &mut Report) {
        if !matches!(*self.node.kind, Kind::Broken) {
            let message = format!("{} must be {what}, this is {}", self.key, shown(&self.node));
            report.error(self.node.at, message, help);
        }
    }
}

/// Whether a key was written in the map itself or came in by `<<`.
#[derive(Clone, Copy)]
enum Origin {
    Own,
    Merged,
}

/// A node as a message names it.
pub(crate) fn shown(node: &Node) -> String {
    match &*node.kind {
        Kind::Map(_) => "a map".to_owned(),
        Kind::List(_) => "a list".to_owned(),
        Kind::Broken => "not readable".to_owned(),
        Kind::Scalar(scalar) => {
            let kind = match scalar.resolve() {
                Resolved::Null => return "empty".to_owned(),
                Resolved::Bool(_) => "the truth value",
                Resolved::Int(_) => "the number",
                Resolved::Float => "the fractional number",
                Resolved::Timestamp => "the date",
                Resolved::Text => "the text",
            };
            format!("{kind} {}", quoted(&scalar.text))
        }
    }
}

fn unknown(name: &str, at: Place, level: Level, report: &mut Report) {
    if report.is_full() {
        return report.error(at, "", "");
    }
    if keys::is_later(name) {
        let message = format!("{name} is not in this version of Tollgate");
        return report.error(at, message, "leave it out");
    }
    report.error(at, format!("unknown key {}", quoted(name)), keys::help_for(name, level));
}

fn not_mergeable(node: &Node, report: &mut Report) {
    let message = format!("<< takes a map, this is {}", shown(node));
    report.error(node.at, message, "write <<: *NAME with the anchor of a map");
}

/// Two maps as one, in which the fields of the second win.
fn joined(first: &Node, second: &Node) -> Node {
    let (Kind::Map(ours), Kind::Map(theirs)) = (&*first.kind, &*second.kind) else { return second.clone() };
    let has = |pairs: &[(Node, Node)], name: &str| pairs.iter().any(|(key, _)| is_key(key, name));
    let mut pairs = Vec::new();
    // By known key, so that joining many maps does not add up.
    for name in Level::Limit.keys().filter(|name| !has(theirs, name)) {
        pairs.extend(ours.iter().rfind(|(key, _)| is_key(key, name)).cloned());
    }
    pairs.extend(theirs.iter().cloned());
    Node::map(second.at, pairs)
}

fn is_key(key: &Node, name: &str) -> bool {
    matches!(&*key.kind, Kind::Scalar(scalar) if scalar.text == name)
}

/// What stands below a key without effect is checked as the reference checks
/// everything: for unknown keys, for lists of other things than maps, and for
/// fractional numbers and dates.
fn check_unused(name: &str, node: &Node, report: &mut Report) {
    // Free data is anyone's own affair.
    if name == "metadata" {
        return;
    }
    let no_map = |item: &Node, report: &mut Report| {
        let message = format!("a list holds only maps, this is {}", shown(item));
        report.error(item.at, message, "write - key: NAME");
    };
    match &*node.kind {
        Kind::Map(pairs) => {
            for (key, value) in pairs {
                let Kind::Scalar(scalar) = &*key.kind else { continue };
                if !scalar.is_merge() && keys::find(&scalar.text).is_none() {
                    unknown(&scalar.text, key.at, Level::Descriptor, report);
                }
                check_unused(&scalar.text, value, report);
            }
        }
        Kind::List(items) => {
            for item in items {
                match &*item.kind {
                    Kind::Map(_) => check_unused(name, item, report),
                    Kind::Broken => {}
                    Kind::Scalar(_) | Kind::List(_) => no_map(item, report),
                }
            }
        }
        Kind::Scalar(scalar) => {
            if matches!(scalar.resolve(), Resolved::Float | Resolved::Timestamp) {
                let message = format!("a value must be a text, this is {}", shown(node));
                report.error(node.at, message, format!("write {:?}, in quotes", scalar.text));
            }
        }
        Kind::Broken => {}
    }
}
