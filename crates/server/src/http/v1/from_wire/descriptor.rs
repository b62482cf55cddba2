//! A descriptor in either of its two forms.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use smallvec::SmallVec;

use super::values::{Bounded, DescriptorMember, EntryObject, JsonText, MemberSeed, Scalar};
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_MAX};

/// A key and a value as they were sent.
pub(super) type V1Entry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Bytes of a misplaced name that are sent back.
const STRAY_CHARS: usize = 100;

/// The descriptors of a request.
#[derive(Debug, Default)]
pub(super) struct DescriptorList<'a>(pub(super) Vec<V1Descriptor<'a>>);

/// A descriptor as it was sent.
#[derive(Debug, Default)]
pub(super) struct V1Descriptor<'a> {
    pub(super) entries: SmallVec<[V1Entry<'a>; 2]>,
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

impl<'de: 'a, 'a> Deserialize<'de> for V1Descriptor<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DescriptorVisitor(PhantomData))
    }
}

struct DescriptorVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for DescriptorVisitor<'a> {
    type Value = V1Descriptor<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor, an object of entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: SmallVec<[(Cow<'a, str>, Scalar<'a>); 2]> = SmallVec::new();
        let mut list: Option<Vec<EntryObject<'a>>> = None;
        while let Some(JsonText(key)) = map.next_key()? {
            let takes_list = key == "entries" && list.is_none();
            match map.next_value_seed(MemberSeed::new(takes_list))? {
                DescriptorMember::List(pairs) => list = Some(pairs),
                DescriptorMember::Scalar(value) => members.push((key, value)),
            }
            if members.len() > ENTRIES_MAX {
                let most = format!("at most {ENTRIES_MAX} entries");
                return Err(A::Error::invalid_length(members.len(), &most.as_str()));
            }
        }
        Ok(match list {
            Some(pairs) => as_list(pairs, &members),
            None => V1Descriptor {
                entries: members.into_iter().map(|(key, value)| (key, value.text())).collect(),
                ..V1Descriptor::default()
            },
        })
    }
}

/// The form with a list of entries.
fn as_list<'a>(pairs: Vec<EntryObject<'a>>, members: &[(Cow<'a, str>, Scalar<'a>)]) -> V1Descriptor<'a> {
    let mut descriptor = V1Descriptor {
        entries: pairs.into_iter().map(|EntryObject { key, value }| (key.0, value.text())).collect(),
        is_list: true,
        ..V1Descriptor::default()
    };
    for (key, value) in members {
        match value {
            Scalar::Number(cost) if key == "cost" && descriptor.cost.is_none() => {
                descriptor.cost = Some(*cost)
            }
            Scalar::Number(_) | Scalar::Text(_) | Scalar::Negative(_) | Scalar::Truth(_) => {
                descriptor.stray.get_or_insert_with(|| key.chars().take(STRAY_CHARS).collect());
            }
        }
    }
    descriptor
}
