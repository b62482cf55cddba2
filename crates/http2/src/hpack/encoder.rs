//! Writes header fields: by the static table where it has them whole, and else spelt out.
//!
//! Deliberately not here: the dynamic table of the other end, and Huffman's code. What a server of
//! gRPC says is the same for nearly every call, so that it is written once and copied.

use super::{integer, static_table};

/// Writes a field.
pub fn put_field(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let same_name = |field: &(&str, &str)| field.0.as_bytes() == name;
    let whole = |field: &(&str, &str)| same_name(field) && field.1.as_bytes() == value;
    if let Some(place) = static_table::FIELDS.iter().position(whole) {
        return integer::put(block, 0x80, 7, place + 1);
    }
    match static_table::FIELDS.iter().position(same_name) {
        Some(place) => integer::put(block, 0, 4, place + 1),
        None => {
            block.push(0);
            put_text(block, name);
        }
    }
    put_text(block, value);
}

fn put_text(block: &mut Vec<u8>, text: &[u8]) {
    integer::put(block, 0, 7, text.len());
    block.extend_from_slice(text);
}
