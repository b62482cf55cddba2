//! JSON → requests.
//!
//! A body is one request or an array of them. A request names a domain and
//! descriptors; a descriptor is an object whose members are its entries, in
//! their order, or `{"entries":[{"key":…,"value":…}],"cost":…}`.
//!
//! Invariants: what is handed on is within [`crate::bounds`]; all of a batch is
//! read before any of it is decided, and a large one then once more, request by
//! request; a request of usual size is read without an allocation for each of its texts.
//!
//! Deliberately not here: what a mistake looks like on the wire.

mod deferred_request;
mod descriptor;
mod plain_request;
mod values;

use hyper::body::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Operation, Request};

use super::error::{FieldError, SHAPE, V1Error, escape};
use crate::bounds::{BATCH_DESCRIPTORS_MAX, BATCH_MAX, KEY_MAX, VALUE_MAX};
use crate::turn::Turn;
pub(crate) use deferred_request::{DeferCall, defer_call};
use descriptor::{DescriptorList, V1Descriptor};
pub(crate) use values::WholeNumber;
use values::{Bounded, JsonText, Objects};

/// Most requests have no more descriptors than this; more cost an allocation.
const DESCRIPTORS_USUAL: usize = 4;
/// Most requests have no more entries than this in all.
const ENTRIES_USUAL: usize = 8;

/// One request as it was sent.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, expecting = "a request, an object with domain and descriptors")]
pub(crate) struct V1Request<'a> {
    #[serde(borrow, default)]
    domain: JsonText<'a>,
    #[serde(borrow, default)]
    descriptors: DescriptorList<'a>,
    #[serde(default = "one")]
    cost: WholeNumber,
}

const fn one() -> WholeNumber {
    WholeNumber(1)
}

impl<'de: 'a, 'a> Deserialize<'de> for V1Request<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(Objects(deserializer))
    }
}

/// Whether a body is a batch, if it is anything.
pub(crate) fn is_batch(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The one request of a body.
pub(crate) fn request(bytes: &[u8]) -> Result<V1Request<'_>, V1Error> {
    if bytes.trim_ascii().is_empty() {
        return Err(FieldError::Empty.at(""));
    }
    let request = match plain_request::read(bytes) {
        Some(request) => request,
        None => parse(bytes)?,
    };
    request.check("")?;
    Ok(request)
}

/// The requests of a batch.
pub(crate) fn batch(bytes: &[u8]) -> Result<Vec<V1Request<'_>>, V1Error> {
    let Bounded(batch): Bounded<V1Request<'_>, BATCH_MAX> = parse(bytes)?;
    if batch.iter().map(|request| request.descriptors.0.len()).sum::<usize>() > BATCH_DESCRIPTORS_MAX {
        return Err(FieldError::BatchDescriptors.at(""));
    }
    for (index, request) in batch.iter().enumerate() {
        request.check(&format!("/{index}"))?;
    }
    Ok(batch)
}

/// Whether all of a batch is sound. Others have their turn while it is read.
pub(crate) async fn check_batch(bytes: &Bytes, turn: &mut Turn) -> Result<(), V1Error> {
    if is_sound(bytes, turn).await {
        return Ok(());
    }
    // What is wrong with it is looked for where nobody else has to wait.
    let copy = bytes.clone();
    let found = tokio::task::spawn_blocking(move || batch(&copy).err()).await;
    Err(found.ok().flatten().unwrap_or_else(|| FieldError::Empty.at("")))
}

async fn is_sound(bytes: &[u8], turn: &mut Turn) -> bool {
    let (mut requests, mut descriptors) = (0, 0);
    let mut reader = BatchReader::new(bytes);
    let mut left = bytes.len();
    while let Some(request) = reader.next() {
        let Some(request) = request.filter(|request| request.check("").is_ok()) else { return false };
        requests += 1;
        descriptors += request.descriptors.0.len();
        if requests > BATCH_MAX || descriptors > BATCH_DESCRIPTORS_MAX {
            return false;
        }
        drop(request);
        turn.read(left - reader.left()).await;
        left = reader.left();
    }
    true
}

/// The requests of a batch, read one by one, so that a large one does not take ten times its
/// bytes. None stands for what is no request.
pub(crate) struct BatchReader<'a> {
    /// What follows the `[` or the last comma.
    rest: Option<&'a [u8]>,
}

impl<'a> BatchReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let rest = after_blanks(bytes).strip_prefix(b"[").unwrap_or_default();
        let is_empty =
            after_blanks(rest).strip_prefix(b"]").is_some_and(|behind| after_blanks(behind).is_empty());
        Self { rest: (!is_empty).then_some(rest) }
    }

    /// Bytes that are not read yet.
    fn left(&self) -> usize {
        self.rest.map_or(0, <[u8]>::len)
    }

    /// A request, and what follows the comma behind it, if there is one.
    fn read(rest: &'a [u8]) -> Option<(V1Request<'a>, Option<&'a [u8]>)> {
        let mut requests = serde_json::Deserializer::from_slice(rest).into_iter();
        let request = requests.next()?.ok()?;
        match after_blanks(rest.get(requests.byte_offset()..)?).split_first()? {
            (b',', behind) => Some((request, Some(behind))),
            (b']', behind) if after_blanks(behind).is_empty() => Some((request, None)),
            _ => None,
        }
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Option<V1Request<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (request, rest) = Self::read(self.rest.take()?).unzip();
        self.rest = rest.flatten();
        Some(request)
    }
}

/// What follows the white space of JSON.
fn after_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    bytes.get(blanks..).unwrap_or_default()
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, V1Error> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => V1Error::Field {
            pointer: String::new(),
            detail: format!("the body is not JSON: {error}"),
            fix: "send one JSON object, or an array of them, in UTF-8".to_owned(),
        },
        // Only whoever made a mistake pays for being told where.
        Category::Data => mistake::<T>(bytes).unwrap_or_else(|| V1Error::Field {
            pointer: String::new(),
            detail: error.to_string(),
            fix: SHAPE.to_owned(),
        }),
    })
}

/// Reads the body again, keeping count of where it is.
fn mistake<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<V1Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let error = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    let pointer = pointer(error.path());
    let text = error.inner().to_string();
    let detail = text.rsplit_once(" at line ").map_or(text.as_str(), |(detail, _)| detail).to_owned();
    let fix = fix(&pointer).to_owned();
    Some(V1Error::Field { pointer, detail, fix })
}

fn pointer(path: &Path) -> String {
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Map { key } => format!("{pointer}/{}", escape(key)),
        Segment::Enum { .. } | Segment::Unknown => pointer,
    })
}

/// What to send in place of what stands at `pointer`.
fn fix(pointer: &str) -> &'static str {
    let mut steps = pointer.split('/').skip(1).skip_while(|step| step.parse::<usize>().is_ok());
    match (steps.next(), steps.next(), steps.next()) {
        (Some("domain"), ..) => r#"send a text, such as "domain":"shop""#,
        (Some("cost"), ..) => "send a whole number, such as 1",
        (Some("descriptors"), None, _) => r#"send an array, such as [{"user_id":"42"}]"#,
        (Some("descriptors"), Some(_), None) => {
            r#"send an object of entries, such as {"user_id":"42"}, or {"entries":[{"key":"user_id","value":"42"}]}"#
        }
        (Some("descriptors"), Some(_), Some("cost")) => "send a whole number, such as 1",
        (Some("descriptors"), Some(_), Some("entries")) => r#"send {"key":"user_id","value":"42"}"#,
        (Some("descriptors"), ..) => r#"send a text, such as "42"; a fraction needs quotes"#,
        _ => SHAPE,
    }
}

impl V1Request<'_> {
    /// A request of one descriptor with these entries.
    pub(crate) fn from_entries(domain: String, entries: Vec<(String, String)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let descriptor = V1Descriptor { entries, ..V1Descriptor::default() };
        Self { domain: JsonText(domain.into()), descriptors: DescriptorList(vec![descriptor]), cost: one() }
    }

    /// Whether it is within bounds; `place` is where it stands in the body.
    fn check(&self, place: &str) -> Result<(), V1Error> {
        let descriptors = &self.descriptors.0;
        if self.domain.0.is_empty() {
            return Err(FieldError::Domain.at(format!("{place}/domain")));
        }
        if self.domain.0.len() > KEY_MAX {
            return Err(FieldError::DomainLength.at(format!("{place}/domain")));
        }
        if descriptors.is_empty() {
            return Err(FieldError::NoDescriptors.at(format!("{place}/descriptors")));
        }
        descriptors.iter().enumerate().try_for_each(|(index, descriptor)| {
            let at = |rest: &str| format!("{place}/descriptors/{index}{rest}");
            check_descriptor(descriptor, at)
        })
    }

    /// All entries of all descriptors, one after the other.
    pub(crate) fn entries(&self) -> SmallVec<[Entry<'_>; ENTRIES_USUAL]> {
        let all = self.descriptors.0.iter().flat_map(|descriptor| &descriptor.entries);
        all.map(|(key, value)| Entry { key, value }).collect()
    }

    /// The descriptors over their [`V1Request::entries`], giving back if `refund`.
    pub(crate) fn descriptors<'b>(
        &self,
        entries: &'b [Entry<'b>],
        refund: bool,
    ) -> SmallVec<[Descriptor<'b>; DESCRIPTORS_USUAL]> {
        let mut rest = entries;
        let descriptor = |wire: &V1Descriptor<'_>| {
            let (own, others) = rest.split_at_checked(wire.entries.len()).unwrap_or((rest, &[]));
            rest = others;
            Descriptor {
                entries: own,
                limit: None,
                cost: wire.cost,
                operation: refund.then_some(Operation::Refund),
            }
        };
        self.descriptors.0.iter().map(descriptor).collect()
    }

    /// The request over its [`V1Request::descriptors`].
    pub(crate) fn request<'b>(&'b self, descriptors: &'b [Descriptor<'b>]) -> Request<'b> {
        Request::new(&self.domain.0, descriptors).with_cost(self.cost.0)
    }
}

fn check_descriptor(wire: &V1Descriptor<'_>, at: impl Fn(&str) -> String) -> Result<(), V1Error> {
    if let Some(stray) = &wire.stray {
        return Err(FieldError::NotInEntriesForm.at(at(&format!("/{}", escape(stray)))));
    }
    for (index, (key, value)) in wire.entries.iter().enumerate() {
        let place = |part: &str| match wire.is_list {
            true => at(&format!("/entries/{index}/{part}")),
            // A long key is not sent back.
            false if key.len() > KEY_MAX => at(""),
            false => at(&format!("/{}", escape(key))),
        };
        if key.len() > KEY_MAX {
            return Err(FieldError::KeyLength.at(place("key")));
        }
        if value.len() > VALUE_MAX {
            return Err(FieldError::ValueLength.at(place("value")));
        }
        let is_twice = !wire.is_list && wire.entries.iter().take(index).any(|(other, _)| other == key);
        if is_twice {
            return Err(FieldError::KeyTwice.at(place("key")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
