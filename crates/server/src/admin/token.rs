//! Who may see the admin pages.
//!
//! Invariant: comparing takes the same time wherever a wrong token differs.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use tollgate_settings::Secret;

/// Lets a request through that shows the token.
pub(super) async fn demand(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    if shown.is_some_and(|shown| is_equal(shown, &token)) {
        return next.run(request).await;
    }
    let text =
        "this page needs the token of TOLLGATE_ADMIN_TOKEN; send it as 'Authorization: Bearer TOKEN'\n";
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

fn is_equal(shown: &[u8], token: &Secret) -> bool {
    shown.ct_eq(token.expose().as_bytes()).into()
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
        let token = Secret::new("open sesame");
        assert!(is_equal(b"open sesame", &token));
        for wrong in [&b""[..], b"open", b"open sesamE", b"open sesame!"] {
            assert!(!is_equal(wrong, &token));
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
