//! What callers of gRPC are told.
//!
//! Used by the gateway and the tower layer for `grpc-message`, so that both say the same.

use std::fmt::Write as _;

/// A text as gRPC wants messages: printable ASCII but for the percent sign, and all else escaped.
pub fn grpc_message(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_grpc_are_printable() {
        assert_eq!(grpc_message("50 % \u{fc}\n"), "50 %25 %C3%BC%0A");
    }
}
