//! What one flush adds to a log that several processes share.
//!
//! ```text
//! version  labels  per label: length, label   hours  per hour: hour, length, record   crc32
//! u8       varint             varint  bytes   varint           varint  varint  bytes  u32 LE
//! ```
//!
//! Whoever writes it knows the numbers of some labels and cannot give numbers to
//! the others: these come along in full, and their rows have numbers above those
//! of the catalogue. The post's name, the instance and the sequence number, is its
//! key and not part of it.

use super::bytes::{put_bytes, put_checksum, put_varint, versioned, wide};
use super::record::{self, Minute};
use crate::error::{Result, corrupt};
use crate::label::{Label, RowId};

/// The format that is written.
pub(crate) const VERSION: u8 = 1;

/// Writes a flush: its labels without numbers, and its minutes by hour.
pub(crate) fn encode<'a>(
    labels: &[&Label],
    hours: impl ExactSizeIterator<Item = (u32, &'a [Minute])>,
) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_varint(&mut bytes, wide(labels.len()));
    for label in labels {
        put_bytes(&mut bytes, &label.encode());
    }
    put_varint(&mut bytes, wide(hours.len()));
    for (hour, minutes) in hours {
        put_varint(&mut bytes, u64::from(hour));
        put_bytes(&mut bytes, &record::encode(minutes));
    }
    put_checksum(&mut bytes);
    bytes
}

/// A count of a post: in which minute since the epoch, of which row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) minute: u32,
    pub(crate) id: RowId,
    pub(crate) count: u64,
}

/// Everything in a post.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Post {
    /// The labels without numbers.
    pub(crate) labels: Vec<Label>,
    pub(crate) counts: Vec<Count>,
}

/// Reads a post whole: one that is damaged anywhere counts nowhere.
pub(crate) fn decode(bytes: &[u8]) -> Result<Post> {
    let mut reader = versioned(bytes, VERSION, "a post of no known version")?;
    let mut post = Post::default();
    for _ in 0..reader.varint()? {
        let label = Label::decode(reader.bytes()?)?;
        if label.by().is_none() {
            return Err(corrupt("a post names a total as if it were a series"));
        }
        post.labels.push(label);
    }
    for _ in 0..reader.varint()? {
        let first = reader.varint_u32()?.checked_mul(60).ok_or(corrupt("an hour is too large"))?;
        record::decode(reader.bytes()?, &mut |of_hour, id, count| {
            post.counts.push(Count { minute: first.saturating_add(u32::from(of_hour)), id, count });
        })?;
    }
    let is_known = |count: &Count| match count.id.sid().place() {
        Some(place) => wide(post.labels.len()) > u64::from(place),
        None => true,
    };
    if !post.counts.iter().all(is_known) {
        return Err(corrupt("a post counts towards a label that it does not name"));
    }
    if reader.is_empty() { Ok(post) } else { Err(corrupt("a post has bytes at its end")) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::codec::damage::{is_always_found, is_harmless_with_a_forged_checksum};
    use crate::label::Sid;
    use tollgate_core::Outcome;

    pub(crate) fn sample() -> Vec<u8> {
        let labels = [&Label::Route("/new".into()), &Label::Rule("r".into())];
        let rows = vec![
            (RowId::UP, 1),
            (Sid(9).row(Outcome::Denied), 300),
            (Sid::waiting(1).row(Outcome::Allowed), 7),
        ];
        let hours = [
            (459_999, vec![Minute { of_hour: 59, rows: rows.clone() }]),
            (460_000, vec![Minute { of_hour: 0, rows }]),
        ];
        encode(&labels, hours.iter().map(|(hour, minutes)| (*hour, minutes.as_slice())))
    }

    #[test]
    fn a_post_comes_back() {
        let post = decode(&sample()).unwrap();
        assert_eq!(post.labels, [Label::Route("/new".into()), Label::Rule("r".into())]);
        let id = Sid::waiting(1).row(Outcome::Allowed);
        assert_eq!(post.counts.len(), 6);
        assert_eq!(post.counts[2], Count { minute: 459_999 * 60 + 59, id, count: 7 });
        assert_eq!((id.sid().place(), Sid(9).place()), (Some(1), None));
        assert_eq!(decode(&encode(&[], [].into_iter())).unwrap(), Post::default());
    }

    #[test]
    fn a_label_that_is_not_named_is_damage() {
        let minute = [Minute { of_hour: 0, rows: vec![(Sid::waiting(0).row(Outcome::Allowed), 1)] }];
        assert!(decode(&encode(&[], [(1, minute.as_slice())].into_iter())).is_err());
    }

    #[test]
    fn damage_is_found_and_does_no_harm() {
        is_always_found(&sample(), decode);
        is_harmless_with_a_forged_checksum(&sample(), |changed| drop(decode(changed)));
    }
}
