//! The Redis keys of counters, and their slots in a cluster.
//!
//! `t1:{domain|key|value}|key|value…|kind`, described in `spec/keys.md`.
//! People who look into their Redis can read them, and they are injective: two
//! are equal only if domain, entries and kind of limit are.
//!
//! Invariant: the braces hold the domain and the first entry, so that all
//! counters below one first entry share a slot and different ones spread.

use std::fmt::Write;

use smallvec::SmallVec;
use tollgate_core::{Entry, Key};

/// The version of the encoding.
const VERSION: &str = "t1:";
/// What a probe writes; no counter has this key.
const PROBE: &str = "t1:probe";
/// How loaded the nodes are; no counter has this key.
const LOAD: &str = "t1:load";
/// The list of nodes; no counter has this key.
const NODES: &str = "t1:nodes";

/// Slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;

/// The Redis keys of a request's charges; most requests have one.
pub type RedisKeys = SmallVec<[String; 1]>;

/// The key of a counter.
pub fn name(prefix: &str, key: &Key<'_>) -> String {
    let mut name = String::with_capacity(prefix.len() + 64);
    name.push_str(prefix);
    name.push_str(VERSION);
    name.push('{');
    escape(key.domain, &mut name);
    let mut entries = key.entries();
    if let Some(first) = entries.next() {
        entry(first, &mut name);
    }
    name.push('}');
    for next in entries {
        entry(next, &mut name);
    }
    name.push('|');
    kind(key, &mut name);
    name
}

/// The key that probes write to.
pub(crate) fn probe(prefix: &str) -> String {
    format!("{prefix}{PROBE}")
}

/// The key of the list of nodes.
pub(crate) fn nodes(prefix: &str) -> String {
    format!("{prefix}{NODES}")
}

/// The key of how loaded the nodes are.
pub(crate) fn load(prefix: &str) -> String {
    format!("{prefix}{LOAD}")
}

/// A text without the bytes that keys and lists have a use for.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
}

/// The text that was escaped; none if it was not.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut out = pieces.next()?.to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        out.push(char::from(u8::from_str_radix(code, 16).ok()?));
        out.push_str(rest);
    }
    Some(out)
}

fn entry(entry: Entry<'_>, out: &mut String) {
    for text in [entry.key, entry.value] {
        out.push('|');
        escape(text, out);
    }
}

/// Escapes what could be mistaken for the key's own grammar.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if matches!(c, '%' | '|' | '{' | '}') || c.is_ascii_control() || c == ' ' {
            // These are all ASCII, so that writing to a String cannot fail.
            let _written = write!(out, "%{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
}

/// What gives a state its meaning: algorithm, window, parameter, ordinal.
fn kind(key: &Key<'_>, out: &mut String) {
    let shape = key.limit.shape();
    let parameter = shape.parameters().buckets;
    out.push_str(shape.key_tag().letters);
    let window_us = key.limit.window().get();
    let _written = if window_us.is_multiple_of(1_000_000) {
        write!(out, "{}s", window_us / 1_000_000)
    } else {
        write!(out, "{window_us}us")
    };
    if let Some(parameter) = parameter {
        let _written = write!(out, ".{parameter}");
    }
    if key.limit_ordinal() > 0 {
        let _written = write!(out, "#{}", key.limit_ordinal());
    }
    if key.is_penalty() {
        out.push_str(".penalty");
    }
}

/// The slot of a key in a cluster: CRC-16 (XMODEM) of what is in braces, or of
/// the whole key if there are none.
pub fn slot(name: &str) -> u16 {
    let tag = name
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(name).as_bytes()) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL }
        })
    })
}

#[cfg(test)]
mod tests;
