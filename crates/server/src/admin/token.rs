//! The admin token as a request shows it.
//!
//! Invariant: comparing takes the same time wherever a wrong token differs.
//!
//! Deliberately not here: what becomes of a request without it; `session` decides that.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use tollgate_settings::Secret;

/// Whether a request shows the token in its `Authorization`.
pub(super) fn is_shown(headers: &HeaderMap, token: &Secret) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    shown.is_some_and(|shown| is_equal(shown, token.expose().as_bytes()))
}

/// Whether two secrets are the same.
pub(super) fn is_equal(shown: &[u8], own: &[u8]) -> bool {
    shown.ct_eq(own).into()
}

/// The token in a header; the scheme's name is taken in any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_first_chunk::<7>()?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_is_equal() {
        assert!(is_equal(b"open sesame", b"open sesame"));
        for wrong in [&b""[..], b"open", b"open sesamE", b"open sesame!"] {
            assert!(!is_equal(wrong, b"open sesame"));
        }
    }

    #[test]
    fn the_scheme_is_taken_in_any_case_and_no_other() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abc"), None);
        assert_eq!(bearer(b"Bearer"), None);
    }
}
