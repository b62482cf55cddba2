//! The values of which requests are made, as JSON has them.
//!
//! Invariant: a list that is too long is left as soon as it is seen to be.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::super::super::json::whole;
use crate::bounds::ENTRIES_MAX;

/// A deserializer for which an object is an object and no array will do.
pub(super) struct Objects<D>(pub(super) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A whole number that is not negative.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeNumber(pub(crate) u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(WholeNumberVisitor)
    }
}

struct WholeNumberVisitor;

impl Visitor<'_> for WholeNumberVisitor {
    type Value = WholeNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, 0 or more")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<WholeNumber, E> {
        Ok(WholeNumber(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<WholeNumber, E> {
        let whole = whole(number).and_then(|whole| u64::try_from(whole).ok());
        whole.map(WholeNumber).ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }
}

/// A text that is not copied unless it has escapes.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(transparent)]
pub(super) struct JsonText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A value: a text, or what stands for one.
#[derive(Debug)]
pub(super) enum Scalar<'a> {
    Text(Cow<'a, str>),
    Number(u64),
    Negative(i64),
    Truth(bool),
}

impl Default for Scalar<'_> {
    fn default() -> Self {
        Self::Text(Cow::Borrowed(""))
    }
}

impl<'a> Scalar<'a> {
    /// The text that stands for it.
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string().into(),
            Self::Negative(number) => number.to_string().into(),
            Self::Truth(truth) => truth.to_string().into(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match MemberSeed::new(false).deserialize(deserializer)? {
            DescriptorMember::Scalar(scalar) => Ok(scalar),
            DescriptorMember::List(_) => Err(D::Error::invalid_type(Unexpected::Seq, &VALUE)),
        }
    }
}

/// A value of the short form, or the list of the long one.
pub(super) enum DescriptorMember<'a> {
    Scalar(Scalar<'a>),
    List(Vec<EntryObject<'a>>),
}

/// An entry of a list.
#[derive(Debug, serde::Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, expecting = "an entry, an object with key and value")]
pub(super) struct EntryObject<'a> {
    #[serde(borrow)]
    pub(super) key: JsonText<'a>,
    #[serde(borrow, default)]
    pub(super) value: Scalar<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for EntryObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(Objects(deserializer))
    }
}

/// What a value must be. A fraction is none, because there are many ways to
/// write it and a counter has one name; `42.0` is none, and the same as `42`.
const VALUE: &str = "a text, a whole number, true or false";

/// Reads a member; a list only where one may be.
pub(super) struct MemberSeed<'a> {
    takes_list: bool,
    lifetime: PhantomData<&'a ()>,
}

impl MemberSeed<'_> {
    pub(super) const fn new(takes_list: bool) -> Self {
        Self { takes_list, lifetime: PhantomData }
    }
}

impl<'de: 'a, 'a> DeserializeSeed<'de> for MemberSeed<'a> {
    type Value = DescriptorMember<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DescriptorMember<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de: 'a, 'a> Visitor<'de> for MemberSeed<'a> {
    type Value = DescriptorMember<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VALUE)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<DescriptorMember<'a>, E> {
        Ok(DescriptorMember::Scalar(Scalar::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DescriptorMember<'a>, E> {
        Ok(DescriptorMember::Scalar(Scalar::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<DescriptorMember<'a>, E> {
        Ok(DescriptorMember::Scalar(Scalar::Number(number)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<DescriptorMember<'a>, E> {
        Ok(DescriptorMember::Scalar(Scalar::Negative(number)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<DescriptorMember<'a>, E> {
        let whole = whole(number).ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))?;
        match u64::try_from(whole) {
            Ok(number) => self.visit_u64(number),
            Err(_) => self.visit_i64(whole),
        }
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<DescriptorMember<'a>, E> {
        Ok(DescriptorMember::Scalar(Scalar::Truth(truth)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<DescriptorMember<'a>, A::Error> {
        if !self.takes_list {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        BoundedVisitor::<EntryObject<'a>, ENTRIES_MAX>(PhantomData)
            .visit_seq(list)
            .map(|list| DescriptorMember::List(list.0))
    }
}

/// A list of at most `MAX` items.
#[derive(Debug)]
pub(super) struct Bounded<T, const MAX: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BoundedVisitor(PhantomData))
    }
}

struct BoundedVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for BoundedVisitor<T, MAX> {
    type Value = Bounded<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {MAX}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            items.push(item);
        }
        Ok(Bounded(items))
    }
}
