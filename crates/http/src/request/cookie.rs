//! One cookie of many.

use http::header::COOKIE;

use crate::request::header_fields::HeaderFields;

/// The value of the first cookie of that name, without quotes.
pub(crate) fn find<'a>(headers: HeaderFields<'a>, name: &str) -> Option<&'a [u8]> {
    let pairs = headers.get_all(&COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
    pairs.into_iter().find_map(|pair| {
        let mut sides = pair.splitn(2, |byte| *byte == b'=');
        let is_it = sides.next()?.trim_ascii() == name.as_bytes();
        sides.next().filter(|_| is_it).map(|value| unquoted(value.trim_ascii()))
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    #[test]
    fn a_cookie_is_found_among_weird_ones() {
        let mut headers = HeaderMap::new();
        for line in ["a=1; sid=first; sid=second", "=x; ; ;;sid", "b=\"q=1\"; c=\"; d= 4 ;e=", "f==g"] {
            headers.append(COOKIE, line.parse().unwrap());
        }
        for (name, value) in [
            ("a", Some("1")),
            ("sid", Some("first")),
            ("SID", None),
            ("b", Some("q=1")),
            ("c", Some("\"")),
            ("d", Some("4")),
            ("e", Some("")),
            ("f", Some("=g")),
            ("g", None),
        ] {
            assert_eq!(find((&headers).into(), name), value.map(str::as_bytes), "{name}");
        }
    }
}
