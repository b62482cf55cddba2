//! The header fields of a call, compressed by HPACK (RFC 7541).
//!
//! The first call on a connection adds them to the server's table, and every later one refers to
//! their index there, as all clients do.

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// `:method: POST` and `:scheme: http` by their index in the static table.
const METHOD_AND_SCHEME: [u8; 2] = [0x83, 0x86];

/// The server's table must have this many bytes for [`INDEXED`].
pub(super) const TABLE_NEEDED: u32 = 4_096;

/// The fields of the first call, which the server adds to its table.
pub(super) fn indexing(authority: &str) -> Vec<u8> {
    fields(authority, 0x40)
}

/// The fields of every call to a server without a table.
pub(super) fn literal(authority: &str) -> Vec<u8> {
    fields(authority, 0x00)
}

/// The fields of a later call by their index: the newest in the table is 62.
pub(super) const INDEXED: [u8; 6] = [0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];

/// All fields; those that are not in the static table as literals of a form.
fn fields(authority: &str, form: u8) -> Vec<u8> {
    let mut out = METHOD_AND_SCHEME.to_vec();
    // The index of a name takes the bits that the form leaves: six, or four.
    let named = |out: &mut Vec<u8>, index: u8| match form {
        0x00 if index >= 0x0f => out.extend_from_slice(&[0x0f, index - 0x0f]),
        _ => out.push(form | index),
    };
    named(&mut out, 4);
    string(&mut out, PATH);
    named(&mut out, 1);
    string(&mut out, authority);
    named(&mut out, 31);
    string(&mut out, "application/grpc");
    named(&mut out, 0);
    string(&mut out, "te");
    string(&mut out, "trailers");
    out
}

/// A string without Huffman coding; its length has seven bits, and more bytes if need be.
fn string(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 0x7f {
        out.push(u8::try_from(length).unwrap_or(0x7e));
    } else {
        out.push(0x7f);
        length -= 0x7f;
        while length >= 0x80 {
            out.push(0x80 | u8::try_from(length % 0x80).unwrap_or(0));
            length /= 0x80;
        }
        out.push(u8::try_from(length).unwrap_or(0));
    }
    out.extend_from_slice(text.as_bytes());
}
