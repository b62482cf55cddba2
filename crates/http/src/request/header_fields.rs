//! The fields of a request, wherever they are kept.
//!
//! Most ways in have a [`HeaderMap`]. Whoever reads heads by itself has lines, and making a map of
//! them takes longer than looking at the few that a mapping wants.
//!
//! Invariant: both forms answer alike; the names of lines are in lower case, as a map has them.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a request, wherever they are kept.
#[derive(Debug, Clone, Copy)]
pub enum HeaderFields<'a> {
    /// In a map.
    Map(&'a HeaderMap),
    /// In the order in which they came.
    Lines(&'a [FieldLine<'a>]),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// Its name, in lower case.
    pub name: &'a [u8],
    /// Its value, without the spaces around it.
    pub value: &'a [u8],
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
            Self::Lines(_) => self.get_all(name).next(),
        }
    }

    /// All fields of that name, in order.
    pub fn get_all(self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let (map, lines) = match self {
            Self::Map(map) => (Some(map), &[][..]),
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
        let lines = pairs.map(|(name, value)| FieldLine { name: name.as_bytes(), value: value.as_bytes() });
        for name in ["a", "b", "c", "d"].map(HeaderName::from_static) {
            let forms = [HeaderFields::from(&map), HeaderFields::Lines(&lines)];
            let [mapped, own] = forms.map(|fields| {
                let all: Vec<&[u8]> = fields.get_all(&name).collect();
                let back: Vec<&[u8]> = fields.get_all(&name).rev().collect();
                (fields.get(&name), all, back)
            });
            assert_eq!(mapped, own, "{name}");
        }
    }
}
