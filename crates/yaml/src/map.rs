//! A map as fields, each with its place.
//!
//! Between the tree and what it means: [`YamlMap::read`] settles keys given
//! twice and reports unknown ones; the rest asks for the fields it knows by
//! type. A field that is null counts as absent.
//!
//! Deliberately not here: which values are sensible.

use std::fmt;
use std::ops::RangeInclusive;

use crate::node::{Located, MapEntry, YamlNode, YamlValue};
use crate::problem::{Location, Problems, quoted};
use crate::scalar::ScalarType;
use crate::suggest::{nearest, one_of};

/// What a kind of map is called, which keys it may have, and what it looks like.
#[derive(Debug, Clone, Copy)]
pub struct MapSchema {
    /// With its article: `a step`.
    pub what: &'static str,
    /// In the order of the documentation.
    pub keys: &'static [&'static str],
    /// How to write one.
    pub example: &'static str,
}

/// The fields of one map.
#[derive(Debug)]
pub struct YamlMap {
    /// Where the map begins.
    pub at: Location,
    what: &'static str,
    fields: Vec<YamlField>,
    /// Keys that unknown ones were probably meant to be.
    misspelled: Vec<&'static str>,
}

/// One field.
#[derive(Debug, Clone)]
pub struct YamlField {
    /// Its name.
    pub key: &'static str,
    /// Where the name stands.
    pub key_at: Location,
    /// What stands there.
    pub node: YamlNode,
    /// Whether it came in by `<<`.
    pub is_merged: bool,
}

impl YamlMap {
    /// A map of `what` without fields, for those who settle keys by rules of
    /// their own.
    pub const fn empty(at: Location, what: &'static str) -> Self {
        Self { at, what, fields: Vec::new(), misspelled: Vec::new() }
    }

    /// The fields of a map; none if the node is no map, which is reported, and
    /// so are keys that are unknown or given twice.
    ///
    /// A key written in the map itself wins over one that comes in by `<<`.
    pub fn read(node: &YamlNode, schema: &MapSchema, problems: &mut Problems) -> Option<Self> {
        let (mut map, unknown) = Self::split(node, schema, problems)?;
        let keys = || schema.keys.iter().copied();
        for entry in unknown {
            let meant = nearest(entry.name, keys());
            let help = meant.map_or_else(|| one_of(keys()), |key| format!("write {key}"));
            problems.error(entry.key.at, format!("unknown key {}", quoted(entry.name)), help);
            map.misspelled.extend(keys().find(|key| Some(*key) == meant));
        }
        Some(map)
    }

    /// As [`Self::read`], but unknown keys are ignored: for files of programs
    /// that know more of them.
    pub fn read_known(node: &YamlNode, schema: &MapSchema, problems: &mut Problems) -> Option<Self> {
        Self::split(node, schema, problems).map(|(map, _)| map)
    }

    /// The fields of the schema, and the other entries.
    fn split<'a>(
        node: &'a YamlNode,
        schema: &MapSchema,
        problems: &mut Problems,
    ) -> Option<(Self, Vec<MapEntry<'a>>)> {
        if !matches!(*node.value, YamlValue::Map(_)) {
            node.must_be(schema.what, "a map", format!("write {}", schema.example), problems);
            return None;
        }
        let (mut map, mut unknown) = (Self::empty(node.at, schema.what), Vec::new());
        for entry in node.entries(|| one_of(schema.keys.iter().copied()), problems) {
            let Some(key) = schema.keys.iter().find(|key| **key == entry.name) else {
                unknown.push(entry);
                continue;
            };
            let node = entry.value.clone();
            let field = YamlField { key, key_at: entry.key.at, node, is_merged: entry.is_merged };
            match map.field_mut(key) {
                None => map.fields.push(field),
                Some(earlier) if earlier.is_merged => *earlier = field,
                Some(_) if field.is_merged => {}
                Some(_) => problems.error(field.key_at, format!("{key} is given twice"), "write it once"),
            }
        }
        Some((map, unknown))
    }

    /// Adds a field; that there is none of that name is up to the caller.
    pub fn push(&mut self, field: YamlField) {
        self.fields.push(field);
    }

    /// Notes that an unknown key was probably meant to be this one, so that it
    /// is not missed as well.
    pub fn misspelled(&mut self, key: &'static str) {
        self.misspelled.push(key);
    }

    /// The field of that name, null or not.
    pub fn field_mut(&mut self, key: &str) -> Option<&mut YamlField> {
        self.fields.iter_mut().find(|field| field.key == key)
    }

    /// The field of that name, unless it is null.
    pub fn get(&self, key: &str) -> Option<&YamlField> {
        self.find(key).filter(|field| !field.node.is_null())
    }

    fn find(&self, key: &str) -> Option<&YamlField> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// The field of that name; that it is missing is reported.
    pub fn required(&self, key: &str, example: &str, problems: &mut Problems) -> Option<&YamlField> {
        let field = self.get(key);
        if field.is_none() && !self.is_reported(key) {
            let message = format!("{} needs {key}", self.what);
            problems.error(self.location(key), message, format!("write {key}: {example}"));
        }
        field
    }

    /// Whether something was reported about this key already: an unknown one
    /// that was probably meant to be it, or a value that cannot be read.
    pub fn is_reported(&self, key: &str) -> bool {
        self.misspelled.contains(&key) || self.find(key).is_some_and(|field| field.node.is_broken())
    }

    /// Where the value of that field stands, or else the map.
    pub fn location(&self, key: &str) -> Location {
        self.find(key).map_or(self.at, |field| field.node.at)
    }

    /// The text of a field as written, whatever it would mean by itself.
    pub fn text(&self, key: &str, problems: &mut Problems) -> Option<Located<String>> {
        self.get(key)?.node.text(key, "TEXT", problems)
    }

    /// The texts of a field that is one text or a list of them.
    pub fn texts(&self, key: &str, example: &str, problems: &mut Problems) -> Vec<Located<String>> {
        let Some(field) = self.get(key) else { return Vec::new() };
        let items = match &*field.node.value {
            YamlValue::List(items) => items.as_slice(),
            YamlValue::Scalar(_) | YamlValue::Map(_) | YamlValue::Broken => std::slice::from_ref(&field.node),
        };
        items.iter().filter_map(|item| item.text(key, example, problems)).collect()
    }

    /// The field as `parse` reads it, whose error says after a semicolon what
    /// to write.
    pub fn parsed<T, E: fmt::Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
        problems: &mut Problems,
    ) -> Option<Located<T>> {
        let Located { value, at } = self.text(key, problems)?;
        match parse(&value) {
            Ok(value) => Some(Located { value, at }),
            Err(error) => {
                problems.error_from(at, &error);
                None
            }
        }
    }

    /// The field as one of some words, looked up by `find`.
    pub fn choice<T>(
        &self,
        key: &str,
        words: &[&'static str],
        find: impl FnOnce(&str) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        let Located { value, at } = self.text(key, problems)?;
        let found = find(&value);
        if found.is_none() {
            let help = match nearest(&value, words.iter().copied()) {
                Some(word) => format!("write {key}: {word}"),
                None => format!("{} for {key}", one_of(words.iter().copied())),
            };
            problems.error(at, format!("unknown {key} {}", quoted(&value)), help);
        }
        found
    }

    /// Whether a field is true; none if it is absent.
    pub fn flag(&self, key: &str, problems: &mut Problems) -> Option<bool> {
        let node = &self.get(key)?.node;
        if let Some(ScalarType::Bool(is_true)) = node.scalar_type() {
            return Some(is_true);
        }
        let help = match ["true", "false"].into_iter().find(|word| node.as_str() == Some(word)) {
            Some(word) => format!("write {key}: {word}, without quotes"),
            None => format!("write {key}: true or {key}: false"),
        };
        node.must_be(key, "true or false", help, problems);
        None
    }

    /// The whole number of a field, if it is in range; none if it is absent.
    pub fn number(&self, key: &str, range: RangeInclusive<u64>, problems: &mut Problems) -> Option<u64> {
        let node = &self.get(key)?.node;
        let mut help = format!("write {key}: N, with N from {} to {}", range.start(), range.end());
        let (kind, text) = (node.scalar_type(), node.as_str().unwrap_or_default());
        if let Some(ScalarType::Int(number)) = kind
            && let Ok(number) = u64::try_from(number)
            && range.contains(&number)
        {
            return Some(number);
        }
        // A whole number may be larger than any that YAML 1.1 keeps whole.
        let is_huge = kind == Some(ScalarType::Float) && !text.contains(['.', 'e', 'E']);
        if is_huge || matches!(kind, Some(ScalarType::Int(_))) {
            problems.error(node.at, format!("{key} of {} is out of range", quoted(text)), help);
            return None;
        }
        if kind == Some(ScalarType::Text) && text.parse::<u32>().is_ok() {
            help = format!("write {key}: {text}, without quotes");
        }
        node.must_be(key, "a whole number", help, problems);
        None
    }

    /// The items of a list; empty if it is absent.
    pub fn list(&self, key: &str, item: &str, problems: &mut Problems) -> &[YamlNode] {
        let Some(field) = self.get(key) else { return &[] };
        if let YamlValue::List(items) = &*field.node.value {
            return items;
        }
        let help = format!("write a list below {key}, each item as - {item}");
        field.node.must_be(key, "a list", help, problems);
        &[]
    }

    /// The items of a list that must be there and have some.
    pub fn nonempty_list(&self, key: &str, item: &str, problems: &mut Problems) -> &[YamlNode] {
        let Some(field) = self.required(key, &format!("and below it - {item}"), problems) else { return &[] };
        if matches!(&*field.node.value, YamlValue::List(items) if items.is_empty()) {
            let help = format!("write at least one - {item}");
            problems.error(field.node.at, format!("{key} is empty"), help);
        }
        self.list(key, item, problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::problem::SourceFile;

    const STEP: MapSchema =
        MapSchema { what: "a step", keys: &["at", "times", "words"], example: "{ at: 0s, times: 3 }" };

    /// What is wrong with a text when it is read as `read` does.
    fn problems_of(text: &str, read: impl Fn(&YamlMap, &mut Problems)) -> Vec<String> {
        let mut problems = Problems::new(vec![SourceFile { name: "f".into(), text: text.into() }]);
        let root = parse(0, &mut problems).unwrap().root;
        if let Some(map) = YamlMap::read(&root, &STEP, &mut problems) {
            read(&map, &mut problems);
        }
        problems.finish().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_no_map_or_has_other_keys_is_reported_with_what_to_write() {
        let keys = "write at, times or words";
        let cases = [
            ("5", "f:1:1: error: a step must be a map, this is the number '5'; write { at: 0s, times: 3 }"),
            ("tmies: 1", "f:1:1: error: unknown key 'tmies'; write times"),
            ("colour: 1", &format!("f:1:1: error: unknown key 'colour'; {keys}")),
            ("{ [a]: 1 }", &format!("f:1:3: error: a key must be a text, this is a list; {keys}")),
            ("at: 1\nat: 2", "f:2:1: error: at is given twice; write it once"),
            (
                "<<: 5",
                "f:1:5: error: << takes a map, this is the number '5'; write <<: *NAME with the anchor of a map",
            ),
        ];
        for (text, told) in cases {
            assert_eq!(problems_of(text, |_, _| {}), [told], "{text}");
        }
    }

    #[test]
    fn a_key_of_the_map_itself_wins_over_a_merged_one() {
        for text in ["{ <<: { times: 1 }, times: 2 }", "{ times: 2, <<: [{ times: 1 }, { times: 3 }] }"] {
            let read = |map: &YamlMap, problems: &mut Problems| {
                assert_eq!(map.number("times", 0..=9, problems), Some(2));
            };
            assert_eq!(problems_of(text, read), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_missing_field_is_reported_once_and_not_if_it_was_misspelled() {
        let read = |map: &YamlMap, problems: &mut Problems| {
            map.required("times", "3", problems);
        };
        assert_eq!(problems_of("at: 1", read), ["f:1:1: error: a step needs times; write times: 3"]);
        assert_eq!(problems_of("times:", read), ["f:1:6: error: a step needs times; write times: 3"]);
        assert_eq!(problems_of("tims: 1", read), ["f:1:1: error: unknown key 'tims'; write times"]);
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let read = |map: &YamlMap, problems: &mut Problems| {
            map.number("times", 1..=9, problems);
        };
        let range = "write times: N, with N from 1 to 9";
        let cases = [
            ("0", format!("times of '0' is out of range; {range}")),
            ("-1", format!("times of '-1' is out of range; {range}")),
            ("99999999999999999999", format!("times of '99999999999999999999' is out of range; {range}")),
            ("1.5", format!("times must be a whole number, this is the fractional number '1.5'; {range}")),
            (
                "'5'",
                "times must be a whole number, this is the text '5'; write times: 5, without quotes".into(),
            ),
            ("[5]", format!("times must be a whole number, this is a list; {range}")),
        ];
        for (text, told) in cases {
            assert_eq!(problems_of(&format!("times: {text}"), read), [format!("f:1:8: error: {told}")]);
        }
        assert_eq!(problems_of("times: 0x9", read), [""; 0]);
    }

    #[test]
    fn texts_are_one_or_a_list() {
        let texts = |map: &YamlMap, problems: &mut Problems| {
            assert_eq!(map.texts("words", "WORD", problems).len(), 2);
        };
        assert_eq!(problems_of("words: [a, 007]", texts), [""; 0]);
        let told = "f:1:12: error: words must be a text, this is a map; write words: WORD";
        assert_eq!(problems_of("words: [a, {}, b]", texts), [told]);
    }
}
