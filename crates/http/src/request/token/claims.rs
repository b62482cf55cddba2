//! What a verified token says, and until when.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tollgate_core::Time;

use super::{TokenError, TokenSpec};

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// The text of a claim; of a claim within a claim if `path` has several
    /// names. Numbers and truth values are texts too; lists and maps are none.
    pub fn text(&self, path: &[String]) -> Option<Cow<'_, str>> {
        let (last, above) = path.split_last()?;
        let inside = above.iter().try_fold(&self.0, |map, name| map.get(name)?.as_object())?;
        match inside.get(last)? {
            Value::String(text) => Some(Cow::Borrowed(text)),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whether they hold at that time and are meant for us.
    pub(super) fn check(&self, spec: &TokenSpec, now: Time) -> Result<(), TokenError> {
        let now_us = i128::from(now.get());
        let leeway_us = i128::from(spec.leeway.get());
        if self.instant_us("exp")?.is_some_and(|exp_us| now_us >= exp_us + leeway_us) {
            return Err(TokenError::Expired);
        }
        if self.instant_us("nbf")?.is_some_and(|nbf_us| now_us + leeway_us < nbf_us) {
            return Err(TokenError::NotYet);
        }
        let issuer = self.0.get("iss").and_then(Value::as_str);
        if spec.issuer.is_some() && spec.issuer.as_deref() != issuer {
            return Err(TokenError::Issuer);
        }
        let is_ours =
            |value: &Value| value.as_str().is_some_and(|text| spec.audience.iter().any(|one| one == text));
        let is_for_us = match self.0.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        };
        if spec.audience.is_empty() || is_for_us { Ok(()) } else { Err(TokenError::Audience) }
    }

    /// A claim in seconds since the epoch, fractions cut off, in microseconds.
    fn instant_us(&self, name: &str) -> Result<Option<i128>, TokenError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let Value::Number(number) = value else { return Err(TokenError::Malformed) };
        let text = number.to_string();
        let whole = text.split('.').next().unwrap_or_default();
        let seconds: i64 = whole.parse().map_err(|_| TokenError::Malformed)?;
        Ok(Some(i128::from(seconds) * 1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Micros;

    use super::*;

    fn claims(text: &str) -> Claims {
        serde_json::from_str(text).unwrap()
    }

    fn text(claims: &Claims, path: &[&str]) -> Option<String> {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        claims.text(&path).map(Cow::into_owned)
    }

    #[test]
    fn a_claim_is_a_text_a_number_or_a_truth_value() {
        let claims = claims(
            r#"{"sub":"42","n":7,"ok":true,"a":{"b":{"c":"deep"}},"https://x.example/t":"url","l":["x"],"no":null}"#,
        );
        for (path, value) in [
            (&["sub"][..], Some("42")),
            (&["n"], Some("7")),
            (&["ok"], Some("true")),
            (&["a", "b", "c"], Some("deep")),
            (&["https://x.example/t"], Some("url")),
            (&["l"], None),
            (&["a"], None),
            (&["no"], None),
            (&["sub", "x"], None),
            (&["x"], None),
            (&[], None),
        ] {
            assert_eq!(text(&claims, path).as_deref(), value, "{path:?}");
        }
    }

    #[test]
    fn claims_hold_from_nbf_until_exp() {
        let spec = TokenSpec { leeway: Micros::from_secs(10), ..TokenSpec::default() };
        let at = |text: &str, seconds: u64| claims(text).check(&spec, Time::from_secs(seconds));
        assert_eq!(at(r#"{"exp":100}"#, 109), Ok(()));
        assert_eq!(at(r#"{"exp":100}"#, 110), Err(TokenError::Expired));
        assert_eq!(at(r#"{"exp":100.9}"#, 110), Err(TokenError::Expired));
        assert_eq!(at(r#"{"nbf":100}"#, 90), Ok(()));
        assert_eq!(at(r#"{"nbf":100}"#, 89), Err(TokenError::NotYet));
        assert_eq!(at("{}", 1), Ok(()));
        assert_eq!(at(r#"{"exp":-1}"#, 100), Err(TokenError::Expired));
        for odd in [r#"{"exp":"100"}"#, r#"{"exp":null}"#, r#"{"nbf":[]}"#, r#"{"exp":1e300}"#] {
            assert_eq!(at(odd, 1), Err(TokenError::Malformed), "{odd}");
        }
    }

    #[test]
    fn issuer_and_audience_must_be_those_that_were_asked_for() {
        let spec = TokenSpec {
            issuer: Some("me".to_owned()),
            audience: vec!["shop".to_owned(), "cart".to_owned()],
            ..TokenSpec::default()
        };
        let check = |text: &str| claims(text).check(&spec, Time::from_secs(1));
        assert_eq!(check(r#"{"iss":"me","aud":"cart"}"#), Ok(()));
        assert_eq!(check(r#"{"iss":"me","aud":["x","shop"]}"#), Ok(()));
        assert_eq!(check(r#"{"iss":"you","aud":"shop"}"#), Err(TokenError::Issuer));
        assert_eq!(check(r#"{"aud":"shop"}"#), Err(TokenError::Issuer));
        assert_eq!(check(r#"{"iss":"me"}"#), Err(TokenError::Audience));
        assert_eq!(check(r#"{"iss":"me","aud":["x",7]}"#), Err(TokenError::Audience));
    }
}
