//! A descriptor in either of its two forms.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use smallvec::SmallVec;

use super::values::{Bounded, Member, MemberSeed, Objects, Scalar, Text};
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_MAX};

/// A key and a value as they were sent.
pub(super) type AskedEntry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Bytes of a misplaced name that are sent back.
const STRAY_CHARS: usize = 100;

/// The descriptors of a request.
#[derive(Debug, Default)]
pub(super) struct DescriptorList<'a>(pub(super) Vec<AskedDescriptor<'a>>);

/// A descriptor as it was sent.
#[derive(Debug, Default)]
pub(super) struct AskedDescriptor<'a> {
    pub(super) entries: SmallVec<[AskedEntry<'a>; 2]>,
    pub(super) cost: Option<u64>,
    /// It was sent as a list of entries.
    pub(super) is_list: bool,
    /// A member that a list of entries may not have beside it.
    pub(super) stray: Option<String>,
}

impl<'de: 'a, 'a> Deserialize<'de> for DescriptorList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bounded::<_, DESCRIPTORS_MAX>::deserialize(deserializer).map(|list| Self(list.0))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for AskedDescriptor<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DescriptorVisitor(PhantomData))
    }
}

struct DescriptorVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for DescriptorVisitor<'a> {
    type Value = AskedDescriptor<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor, an object of entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: SmallVec<[(Cow<'a, str>, Scalar<'a>); 2]> = SmallVec::new();
        let mut list: Option<Vec<Pair<'a>>> = None;
        while let Some(Text(key)) = map.next_key()? {
            let takes_list = key == "entries" && list.is_none();
            match map.next_value_seed(MemberSeed::new(takes_list))? {
                Member::List(pairs) => list = Some(pairs),
                Member::Scalar(value) => members.push((key, value)),
            }
            if members.len() > ENTRIES_MAX {
                let most = format!("at most {ENTRIES_MAX} entries");
                return Err(A::Error::invalid_length(members.len(), &most.as_str()));
            }
        }
        Ok(match list {
            Some(pairs) => as_list(pairs, &members),
            None => AskedDescriptor {
                entries: members.into_iter().map(|(key, value)| (key, value.text())).collect(),
                ..AskedDescriptor::default()
            },
        })
    }
}

/// The form with a list of entries.
fn as_list<'a>(pairs: Vec<Pair<'a>>, members: &[(Cow<'a, str>, Scalar<'a>)]) -> AskedDescriptor<'a> {
    let mut asked = AskedDescriptor {
        entries: pairs.into_iter().map(|Pair { key, value }| (key.0, value.text())).collect(),
        is_list: true,
        ..AskedDescriptor::default()
    };
    for (key, value) in members {
        match value {
            Scalar::Number(cost) if key == "cost" && asked.cost.is_none() => asked.cost = Some(*cost),
            Scalar::Number(_) | Scalar::Text(_) | Scalar::Negative(_) | Scalar::Truth(_) => {
                asked.stray.get_or_insert_with(|| key.chars().take(STRAY_CHARS).collect());
            }
        }
    }
    asked
}

/// An entry of a list.
#[derive(Debug, serde::Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, expecting = "an entry, an object with key and value")]
pub(super) struct Pair<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow, default)]
    value: Scalar<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Pair<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(Objects(deserializer))
    }
}
