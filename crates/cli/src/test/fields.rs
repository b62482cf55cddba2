//! A map of a rule test as fields, each with its place.
//!
//! Between the YAML tree and what it means: unknown keys, keys given twice and
//! values of the wrong type are reported here, so that the rest asks for what
//! it knows.

use std::fmt;

use super::report::{Place, Report, quoted};
use super::yaml::{Kind, Node};
use crate::words;

/// The fields of one map.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Where the map begins.
    pub(super) at: Place,
    what: &'static str,
    list: Vec<(&'static str, &'a Node)>,
    /// Fields that are there under a wrong name, which is reported.
    misspelled: Vec<&'static str>,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: Place,
}

impl<'a> Fields<'a> {
    /// The fields of `what`; none if the node is no map, which is reported.
    pub(super) fn read(
        node: &'a Node,
        what: &'static str,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let mut fields = Self { at: node.at, what, list: Vec::new(), misspelled: Vec::new() };
        let Kind::Map(pairs) = &*node.kind else {
            let example = known.first().copied().unwrap_or_default();
            let message = format!("{what} must be a map, this is {}", node.shown());
            report.error(
                node.at,
                message,
                format!("write {example}: and the rest, each on a line of its own"),
            );
            return None;
        };
        for (key, value) in pairs {
            fields.add(key, value, known, report);
        }
        Some(fields)
    }

    fn add(&mut self, key: &Node, value: &'a Node, known: &[&'static str], report: &mut Report) {
        let Kind::Scalar { text, .. } = &*key.kind else {
            return report.error(
                key.at,
                format!("a key must be a text, this is {}", key.shown()),
                one_of(known),
            );
        };
        let Some(name) = known.iter().find(|name| *name == text) else {
            let nearest = words::nearest(text, known.iter().copied());
            let help = nearest.map_or_else(|| one_of(known), |name| format!("write {name}"));
            self.misspelled.extend(known.iter().filter(|name| Some(**name) == nearest));
            return report.error(key.at, format!("unknown key {} in {}", quoted(text), self.what), help);
        };
        if self.list.iter().any(|(earlier, _)| earlier == name) {
            return report.error(key.at, format!("{name} is given twice"), "write it once");
        }
        self.list.push((name, value));
    }

    /// The field of that name.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        self.list.iter().find(|(name, _)| *name == key).map(|(_, node)| *node)
    }

    /// The field of that name; that it is missing is reported.
    pub(super) fn need(&self, key: &str, example: &str, report: &mut Report) -> Option<&'a Node> {
        let node = self.get(key);
        if node.is_none() && !self.misspelled.contains(&key) {
            report.error(self.at, format!("{} needs {key}", self.what), format!("write {key}: {example}"));
        }
        node
    }

    /// The field as a text, as written.
    pub(super) fn text(&self, key: &str, report: &mut Report) -> Option<At<String>> {
        text_of(self.get(key)?, key, "TEXT", report)
    }

    /// The field read by `parse`, whose error says after a semicolon what to write.
    pub(super) fn parsed<T, E: fmt::Display>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, E>,
        report: &mut Report,
    ) -> Option<At<T>> {
        let At { value, at } = self.text(key, report)?;
        match parse(&value) {
            Ok(value) => Some(At { value, at }),
            Err(error) => {
                let error = error.to_string();
                let (message, help) = error.split_once("; ").unwrap_or((&error, ""));
                report.error(at, format!("{key}: {message}"), help);
                None
            }
        }
    }

    /// The field as a whole number from `least` to `most`.
    pub(super) fn number(&self, key: &str, least: u64, most: u64, report: &mut Report) -> Option<u64> {
        let parse = |text: &str| {
            let help = format!("write a whole number from {least} to {most}");
            let digits = text.replace('_', "");
            let is_number = digits.strip_prefix('-').unwrap_or(&digits).parse::<u128>().is_ok();
            let what = if is_number { "is out of range" } else { "is no whole number" };
            let number = digits.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| format!("{} {what}; {help}", quoted(text)))
        };
        self.parsed(key, parse, report).map(|at| at.value)
    }

    /// The items of a field that must be a list with something in it.
    pub(super) fn list(&self, key: &str, item: &str, report: &mut Report) -> &'a [Node] {
        let Some(node) = self.need(key, &format!("and below it - {item}"), report) else { return &[] };
        match &*node.kind {
            Kind::List(items) if items.is_empty() => {
                report.error(node.at, format!("{key} is empty"), format!("write at least one - {item}"));
                &[]
            }
            Kind::List(items) => items,
            Kind::Scalar { .. } | Kind::Map(_) => {
                let message = format!("{key} must be a list, this is {}", node.shown());
                report.error(node.at, message, format!("write a list below {key}, each item as - {item}"));
                &[]
            }
        }
    }
}

/// The text of a scalar; anything else is reported.
pub(super) fn text_of(node: &Node, key: &str, example: &str, report: &mut Report) -> Option<At<String>> {
    match &*node.kind {
        Kind::Scalar { text, is_null: false } => Some(At { value: text.clone(), at: node.at }),
        Kind::Scalar { .. } | Kind::Map(_) | Kind::List(_) => {
            let message = format!("{} must be a text, this is {}", key, node.shown());
            report.error(node.at, message, format!("write {key}: {example}"));
            None
        }
    }
}

fn one_of(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("write {} or {last}", first.join(", ")),
        [one] => format!("write {one}"),
        _ => String::new(),
    }
}
