//! One parameter of a query.

use std::borrow::Cow;

/// The value of the first parameter of that name, decoded.
pub(crate) fn find<'a>(query: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    form_urlencoded::parse(query).find(|(key, _)| key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_however_it_is_spelled() {
        for (query, value) in [
            ("key=1", Some("1")),
            ("a=2&key=1&key=3", Some("1")),
            ("k%65y=a%20b+c", Some("a b c")),
            ("key", Some("")),
            ("key=%ff", Some("\u{fffd}")),
            ("key=%", Some("%")),
            ("Key=1", None),
            ("a=key=1", None),
            ("&&=&", None),
            ("", None),
        ] {
            assert_eq!(find(query.as_bytes(), "key").as_deref(), value, "{query}");
        }
    }
}
