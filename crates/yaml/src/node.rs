//! A piece of YAML and where it stands.
//!
//! Made by `parse`; read as fields by [`crate::YamlMap`], or taken apart by
//! whoever knows what it means.

use std::sync::Arc;

use crate::problem::{Location, Problems, quoted};
use crate::scalar::{ScalarType, YamlScalar};

/// A piece of YAML and where it stands. Cloning shares what is below.
#[derive(Debug, Clone)]
pub struct YamlNode {
    /// Where it stands; an alias stands where it is written.
    pub at: Location,
    /// What it is.
    pub value: Arc<YamlValue>,
    /// How many nodes this is, with aliases followed.
    pub(crate) weight: usize,
    /// How many levels of maps and lists this is, with aliases followed.
    pub(crate) depth: usize,
}

/// What a piece of YAML is.
#[derive(Debug)]
pub enum YamlValue {
    /// A text, a number, and the like.
    Scalar(YamlScalar),
    /// Keys and values in the order written.
    Map(Vec<(YamlNode, YamlNode)>),
    /// Items in order.
    List(Vec<YamlNode>),
    /// Reported already; nothing more is said about it.
    Broken,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// What stands there.
    pub value: T,
    /// Where.
    pub at: Location,
}

/// One entry of a map, with merge keys followed.
#[derive(Debug, Clone, Copy)]
pub struct MapEntry<'a> {
    /// The text of the key.
    pub name: &'a str,
    /// The key, which is a scalar.
    pub key: &'a YamlNode,
    /// What stands there.
    pub value: &'a YamlNode,
    /// Whether it came in by `<<`.
    pub is_merged: bool,
}

impl YamlNode {
    pub(crate) fn leaf(at: Location, value: YamlValue) -> Self {
        Self { at, value: Arc::new(value), weight: 1, depth: 0 }
    }

    pub(crate) fn list(at: Location, items: Vec<Self>) -> Self {
        let weight = items.iter().fold(1, |sum: usize, item| sum.saturating_add(item.weight));
        let depth = items.iter().map(|item| item.depth).max().unwrap_or(0) + 1;
        Self { at, value: Arc::new(YamlValue::List(items)), weight, depth }
    }

    /// A map of these pairs.
    pub fn map(at: Location, pairs: Vec<(Self, Self)>) -> Self {
        let nodes = || pairs.iter().flat_map(|(key, value)| [key, value]);
        let weight = nodes().fold(1, |sum: usize, node| sum.saturating_add(node.weight));
        let depth = nodes().map(|node| node.depth).max().unwrap_or(0) + 1;
        Self { at, value: Arc::new(YamlValue::Map(pairs)), weight, depth }
    }

    /// What a scalar means; none for a map or a list.
    pub fn scalar_type(&self) -> Option<ScalarType> {
        match &*self.value {
            YamlValue::Scalar(scalar) => Some(scalar.resolve()),
            YamlValue::Map(_) | YamlValue::List(_) | YamlValue::Broken => None,
        }
    }

    /// The text of a scalar, without quotes.
    pub fn as_str(&self) -> Option<&str> {
        match &*self.value {
            YamlValue::Scalar(scalar) => Some(&scalar.text),
            YamlValue::Map(_) | YamlValue::List(_) | YamlValue::Broken => None,
        }
    }

    /// Whether this is `null`, `~` or nothing at all.
    pub fn is_null(&self) -> bool {
        self.scalar_type() == Some(ScalarType::Null)
    }

    /// Whether this was reported already.
    pub fn is_broken(&self) -> bool {
        matches!(*self.value, YamlValue::Broken)
    }

    /// Whether this is a map with that key.
    pub fn has_key(&self, name: &str) -> bool {
        let is_it = |key: &Self| key.as_str() == Some(name);
        matches!(&*self.value, YamlValue::Map(pairs) if pairs.iter().any(|(key, _)| is_it(key)))
    }

    /// What a message calls it: `the number '5'`.
    pub fn shown(&self) -> String {
        let YamlValue::Scalar(scalar) = &*self.value else {
            return match *self.value {
                YamlValue::Map(_) => "a map",
                YamlValue::List(_) => "a list",
                YamlValue::Scalar(_) | YamlValue::Broken => "not readable",
            }
            .to_owned();
        };
        let kind = match scalar.resolve() {
            ScalarType::Null => return "empty".to_owned(),
            ScalarType::Bool(_) => "the truth value",
            ScalarType::Int(_) => "the number",
            ScalarType::Float => "the fractional number",
            ScalarType::Timestamp => "the date",
            ScalarType::Text => "the text",
        };
        format!("{kind} {}", quoted(&scalar.text))
    }

    /// Reports that `name` is not what it must be, unless that is known.
    pub fn must_be(&self, name: &str, what: &str, help: impl Into<String>, problems: &mut Problems) {
        if !self.is_broken() {
            problems.error(self.at, format!("{name} must be {what}, this is {}", self.shown()), help);
        }
    }

    /// The text of a scalar as written: `007` is not 7. Anything else is
    /// reported, nothing at all too.
    pub fn text(&self, name: &str, example: &str, problems: &mut Problems) -> Option<Located<String>> {
        let text = self.as_str().filter(|_| !self.is_null());
        if text.is_none() {
            self.must_be(name, "a text", format!("write {name}: {example}"), problems);
        }
        text.map(|text| Located { value: text.to_owned(), at: self.at })
    }

    /// The entries of a map, with those of `<<` where it stands, so that of two
    /// equal keys the last is meant. A key that is no scalar is reported with
    /// `help`; what is no map has no entries.
    pub fn entries(&self, help: impl Fn() -> String, problems: &mut Problems) -> Vec<MapEntry<'_>> {
        let mut list = EntryList { entries: Vec::new(), help: &help, problems };
        if let YamlValue::Map(pairs) = &*self.value {
            list.add(pairs, false);
        }
        list.entries
    }
}

struct EntryList<'a, 'p> {
    entries: Vec<MapEntry<'a>>,
    /// What to write instead of a key that is no scalar.
    help: &'p dyn Fn() -> String,
    problems: &'p mut Problems,
}

impl<'a> EntryList<'a, '_> {
    fn add(&mut self, pairs: &'a [(YamlNode, YamlNode)], is_merged: bool) {
        for (key, value) in pairs {
            match &*key.value {
                YamlValue::Scalar(scalar) if scalar.is_merge() => self.merge(value),
                YamlValue::Scalar(scalar) => {
                    self.entries.push(MapEntry { name: &scalar.text, key, value, is_merged });
                }
                YamlValue::Map(_) | YamlValue::List(_) | YamlValue::Broken => {
                    key.must_be("a key", "a text", (self.help)(), self.problems);
                }
            }
        }
    }

    fn merge(&mut self, value: &'a YamlNode) {
        // Of several maps the first wins, so it comes last.
        let maps = match &*value.value {
            YamlValue::List(items) => items.iter().rev().collect(),
            YamlValue::Map(_) | YamlValue::Scalar(_) | YamlValue::Broken => vec![value],
        };
        for map in maps {
            match &*map.value {
                YamlValue::Map(pairs) => self.add(pairs, true),
                YamlValue::Scalar(_) | YamlValue::List(_) | YamlValue::Broken => {
                    let message = format!("<< takes a map, this is {}", map.shown());
                    if !map.is_broken() {
                        self.problems.error(map.at, message, "write <<: *NAME with the anchor of a map");
                    }
                }
            }
        }
    }
}
