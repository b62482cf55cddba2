//! The fields of a request, wherever they are kept.
//!
//! Most ways in have a [`HeaderMap`]. Whoever reads heads by itself has lines, and making a map of
//! them takes longer than looking at the few that a mapping wants.
//!
//! Invariant: both forms answer alike; the names of lines are in lower case, as a map has them.

use std::ops::Range;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a request, wherever they are kept.
#[derive(Debug, Clone, Copy)]
pub enum HeaderFields<'a> {
    /// In a map.
    Map(&'a HeaderMap),
    /// In the order in which they came.
    Lines(FieldLines<'a>),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// Its name, in lower case.
    pub name: &'a [u8],
    /// Its value, without the spaces around it.
    pub value: &'a [u8],
}

/// Where a field is in its head. It stays true when the head is moved, and is a quarter of a [`FieldLine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSpan {
    name: (u16, u16),
    value: (u16, u16),
}

impl FieldSpan {
    /// A field with its name and its value there; none if that is too far from the beginning of the head.
    pub fn new(name: Range<usize>, value: Range<usize>) -> Option<Self> {
        let span = |Range { start, end }| Some((u16::try_from(start).ok()?, u16::try_from(end).ok()?));
        Some(Self { name: span(name)?, value: span(value)? })
    }
}

/// Fields where they were read.
#[derive(Debug, Clone, Copy)]
pub struct FieldLines<'a> {
    head: &'a [u8],
    spans: &'a [FieldSpan],
}

impl<'a> FieldLines<'a> {
    /// The fields of this head, whose names are in lower case.
    pub const fn new(head: &'a [u8], spans: &'a [FieldSpan]) -> Self {
        Self { head, spans }
    }

    /// All of them, in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = FieldLine<'a>> {
        let part = move |(start, end): (u16, u16)| {
            self.head.get(usize::from(start)..usize::from(end)).unwrap_or_default()
        };
        self.spans.iter().map(move |span| FieldLine { name: part(span.name), value: part(span.value) })
    }
}

impl<'a> From<&'a HeaderMap> for HeaderFields<'a> {
    fn from(map: &'a HeaderMap) -> Self {
        Self::Map(map)
    }
}

impl<'a> HeaderFields<'a> {
    /// The first field of that name.
    pub fn get(self, name: &HeaderName) -> Option<&'a [u8]> {
        match self {
            Self::Map(map) => map.get(name).map(HeaderValue::as_bytes),
            Self::Lines(lines) => {
                let name = name.as_str().as_bytes();
                lines.iter().find(|line| line.name == name).map(|line| line.value)
            }
        }
    }

    /// All fields of that name, in order.
    pub fn get_all(self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let (map, lines) = match self {
            Self::Map(map) => (Some(map), FieldLines::new(&[], &[])),
            Self::Lines(lines) => (None, lines),
        };
        let mapped = map.into_iter().flat_map(move |map| map.get_all(name)).map(HeaderValue::as_bytes);
        let own = lines.iter().filter(move |line| line.name == name.as_str().as_bytes());
        mapped.chain(own.map(|line| line.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_a_map_answer_alike() {
        let pairs: [(&'static str, &'static str); 4] = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "")];
        let map: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let (mut head, mut spans) = (String::new(), Vec::new());
        for (name, value) in pairs {
            let start = head.len();
            head.extend([name, ": ", value, "\r\n"]);
            let value = start + name.len() + 2..head.len() - 2;
            spans.push(FieldSpan::new(start..start + name.len(), value).unwrap());
        }
        let lines = FieldLines::new(head.as_bytes(), &spans);
        for name in ["a", "b", "c", "d"].map(HeaderName::from_static) {
            let forms = [HeaderFields::from(&map), HeaderFields::Lines(lines)];
            let [mapped, own] = forms.map(|fields| {
                let all: Vec<&[u8]> = fields.get_all(&name).collect();
                let back: Vec<&[u8]> = fields.get_all(&name).rev().collect();
                (fields.get(&name), all, back)
            });
            assert_eq!(mapped, own, "{name}");
        }
    }
}
