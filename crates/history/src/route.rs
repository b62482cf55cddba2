//! From the path of a request to the name of a route.
//!
//! Before the recorder: adapters that know no template, and imports, call
//! [`normalise`].
//!
//! Invariant: the result has no query, no control character and at most
//! [`NAME_BYTES_MAX`] bytes, whatever the client sent.

use std::borrow::Cow;

/// The longest name of a series, in bytes: enough for real routes, and little enough
/// that a million made-up ones do not matter.
pub const NAME_BYTES_MAX: usize = 256;

/// The path without query and fragment, percent-decoded once, with `//` and `/./`
/// collapsed and control characters replaced.
///
/// ```
/// use tollgate_history::route::normalise;
/// assert_eq!(normalise("/cart?id=7"), "/cart");
/// assert_eq!(normalise("//a/./b%20c/"), "/a/b c/");
/// assert_eq!(normalise("http://shop.example/cart"), "/cart");
/// ```
pub fn normalise(target: &str) -> Cow<'_, str> {
    // Nearly all are, and this is on the path of a decision.
    if is_simple(target) {
        return Cow::Borrowed(cut(target));
    }
    let path = without_origin(target);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    if is_plain(path) {
        return Cow::Borrowed(cut(path));
    }
    let decoded = percent_decode(path);
    let mut clean = String::with_capacity(decoded.len());
    for part in decoded.split_inclusive('/') {
        let is_empty = matches!(part, "/" | "./") && clean.ends_with('/');
        if !is_empty {
            clean.push_str(part);
        }
    }
    Cow::Owned(cut(&clean.replace(char::is_control, "\u{fffd}")).to_owned())
}

/// The name, cut to [`NAME_BYTES_MAX`] at a character boundary.
pub fn cut(name: &str) -> &str {
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let end = (0..=NAME_BYTES_MAX).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name.get(..end).unwrap_or("")
}

/// A request target in absolute form has a scheme and a host.
fn without_origin(target: &str) -> &str {
    match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
        }
        _ => target,
    }
}

/// Whether nothing needs to be changed; looks at each byte once and may say no in vain.
fn is_simple(target: &str) -> bool {
    let mut before = 0;
    target.bytes().all(|byte| {
        let is_odd = matches!(byte, 0..=b' ' | b'%' | b'?' | b'#' | b':' | 0x7f..)
            || (byte == b'/' && matches!(before, b'/' | b'.'));
        before = byte;
        !is_odd
    })
}

fn is_plain(path: &str) -> bool {
    !path.contains("//") && !path.contains("/./") && !path.contains('%') && !path.contains(char::is_control)
}

/// Decodes escapes once; what is not an escape, or not UTF-8, stays readable.
fn percent_decode(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        match escape(tail) {
            Some((byte, tail)) => {
                bytes.push(byte);
                rest = tail;
            }
            None => bytes.push(b'%'),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escape(tail: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = tail.split_first_chunk::<2>()?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u8::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_routes() {
        let cases = [
            ("/", "/"),
            ("", ""),
            ("/a/b.html", "/a/b.html"),
            ("/a?b=/c", "/a"),
            ("/a#b", "/a"),
            ("/a///b", "/a/b"),
            ("/./a", "/a"),
            ("/a%2Fb", "/a/b"),
            ("/%zz%4", "/%zz%4"),
            ("/%+1", "/%+1"),
            ("/a%0ab", "/a\u{fffd}b"),
            ("/%ff", "/\u{fffd}"),
            ("https://host", "/"),
            ("/redirect/http://x/y", "/redirect/http:/x/y"),
        ];
        for (target, route) in cases {
            assert_eq!(normalise(target), route, "{target}");
        }
    }

    #[test]
    fn no_name_is_longer_than_the_most() {
        for letters in ["a", "ü", "€", "%c3%bc", "%00"] {
            let long = format!("/{}", letters.repeat(1_000));
            let name = normalise(&long);
            assert!((NAME_BYTES_MAX - 3..=NAME_BYTES_MAX).contains(&name.len()), "{}", name.len());
        }
    }
}
