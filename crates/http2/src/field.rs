//! What a header field of a request means.
//!
//! `hpack` asks once for every field that is spelt out, and keeps the answer in its table; `head` makes
//! a request of the answers.
//!
//! Deliberately not here: which fields a request must have, and in which order.

/// A header field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderField<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) kind: FieldKind,
}

/// What a header field means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// `:method: POST`.
    Post,
    /// Another method.
    Method,
    Scheme,
    Authority,
    /// A path that we were told of, by its place.
    KnownPath(usize),
    Path,
    /// A content type of gRPC.
    GrpcContent,
    ContentLength,
    /// One that means nothing to HTTP/2.
    Ordinary,
    /// One that no request may have.
    Malformed,
}

impl FieldKind {
    pub(crate) fn of(name: &[u8], value: &[u8], known_paths: &[&str]) -> Self {
        if !is_value(value) {
            return Self::Malformed;
        }
        match name {
            b":method" if value == b"POST" => Self::Post,
            b":method" if is_name(value) => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => {
                let known = known_paths.iter().position(|path| path.as_bytes() == value);
                known.map_or(Self::Path, Self::KnownPath)
            }
            b"content-type" if is_grpc(value) => Self::GrpcContent,
            b"content-length" => Self::ContentLength,
            b"te" if value != b"trailers" => Self::Malformed,
            // What is about one connection of HTTP/1.1 has no place here.
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Self::Malformed
            }
            name if is_field_name(name) => Self::Ordinary,
            _ => Self::Malformed,
        }
    }
}

/// gRPC with any codec; gRPC-Web is another protocol.
fn is_grpc(content_type: &[u8]) -> bool {
    content_type.strip_prefix(b"application/grpc").is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
}

/// Visible characters, none of them in upper case and none a colon: pseudo-header fields that there are
/// none of begin with one.
fn is_field_name(name: &[u8]) -> bool {
    let is_allowed = |byte: &u8| matches!(byte, 0x21..=0x7e) && !byte.is_ascii_uppercase() && *byte != b':';
    !name.is_empty() && name.iter().all(is_allowed)
}

fn is_name(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_graphic)
}

/// Anything but what ends a line elsewhere. Envoy sends authorities with bytes that no host has.
fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| !matches!(byte, 0 | b'\r' | b'\n'))
}
