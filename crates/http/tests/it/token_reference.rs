//! Random tokens are valid here exactly if they are to `jsonwebtoken`.
//!
//! Its checks run with a verifier of ours, because the crate comes without one:
//! what is compared is how a token is taken apart, which algorithm it may have,
//! and what its claims mean.
//!
//! Invariant: the day of the run changes nothing. `jsonwebtoken` reads the clock
//! itself, so that every instant here is long past or far ahead for any clock.
//!
//! Deliberately left out: the seconds around `exp` and `nbf` and the leeway, which
//! `tokens.rs` has with a given time; instants before 1970, which RFC 7519 allows
//! and `jsonwebtoken` cannot read; a list of issuers, which only it takes.

use std::cell::Cell;
use std::sync::Once;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use ring::hmac;
use serde_json::{Value, json};
use tollgate_core::{Micros, Time};
use tollgate_http::TokenVerifier;
use tollgate_http::request::token::{KeyFile, KeyForm, TokenSpec};

const SECRET: &[u8] = b"a secret that is long enough for anyone";
const LEEWAY_S: u64 = 60;

const NOW: Time = Time::from_secs(1_700_000_000);
/// In 1970 and in 2128.
const PAST_S: u64 = 10_000;
const FUTURE_S: u64 = 5_000_000_000;

/// HMAC by ring.
struct RingHmac(hmac::Key, Algorithm);

impl Verifier<Vec<u8>> for RingHmac {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        hmac::verify(&self.0, message, signature).map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for RingHmac {
    fn algorithm(&self) -> Algorithm {
        self.1
    }
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| {
        let known = [(Algorithm::HS256, hmac::HMAC_SHA256), (Algorithm::HS384, hmac::HMAC_SHA384)];
        let Some((_, how)) = known.into_iter().find(|(own, _)| own == algorithm) else {
            return Err(ErrorKind::InvalidAlgorithm.into());
        };
        Ok(Box::new(RingHmac(hmac::Key::new(how, key.try_get_as_bytes()?), *algorithm)))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Whether `jsonwebtoken` takes it.
fn is_valid_there(token: &str) -> bool {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| PROVIDER.install_default().expect("nobody else installs one"));
    let mut validation = Validation::new(Algorithm::HS256);
    validation.algorithms = vec![Algorithm::HS256, Algorithm::HS384];
    validation.leeway = LEEWAY_S;
    validation.validate_nbf = true;
    validation.set_issuer(&["me"]);
    validation.set_audience(&["shop", "cart"]);
    validation.set_required_spec_claims(&["iss", "aud"]);
    decode::<Value>(token, &DecodingKey::from_secret(SECRET), &validation).is_ok()
}

fn verifier() -> TokenVerifier {
    let folder = tempfile::tempdir().expect("there is a folder for tests");
    let path = folder.path().join("secret");
    std::fs::write(&path, SECRET).expect("it can be written");
    let algorithms = vec![Algorithm::HS256, Algorithm::HS384];
    let spec = TokenSpec {
        files: vec![KeyFile { path, form: KeyForm::Secret, algorithms }],
        issuer: Some("me".to_owned()),
        audience: vec!["shop".to_owned(), "cart".to_owned()],
        leeway: Micros::from_secs(LEEWAY_S),
    };
    TokenVerifier::load(spec).expect("the secret can be used")
}

/// Most often an instant that makes the token valid; else another, none, or something that is none.
fn instant(usual: u64) -> impl Strategy<Value = Option<Value>> {
    let sound = [json!(PAST_S), json!(FUTURE_S), json!(10_000.5), json!(5e9), json!(5_000_000_000.25)];
    let odd = [json!("5000000000"), json!([]), json!({}), Value::Null, json!(true), json!(1e300)];
    prop_oneof![
        8 => Just(Some(json!(usual))),
        2 => Just(None),
        2 => prop::sample::select(sound.to_vec()).prop_map(Some),
        1 => prop::sample::select(odd.to_vec()).prop_map(Some),
    ]
}

fn audience() -> impl Strategy<Value = Option<Value>> {
    let word = prop_oneof![Just("shop"), Just("cart"), Just("bank"), Just("")];
    prop_oneof![
        1 => Just(None),
        4 => word.clone().prop_map(|word| Some(json!(word))),
        3 => prop::collection::vec(word, 0..3).prop_map(|words| Some(json!(words))),
        1 => Just(Some(json!(7))),
    ]
}

fn issuer() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![6 => Just(Some(json!("me"))), 1 => Just(Some(json!("you"))), 1 => Just(None), 1 => Just(Some(json!(7)))]
}

fn token() -> impl Strategy<Value = String> {
    let alg = prop_oneof![5 => Just("HS256"), 2 => Just("HS384"), 1 => Just("HS512"), 1 => Just("RS256"), 1 => Just("none")];
    let signed_as = prop_oneof![6 => Just(None), 1 => Just(Some("HS256")), 1 => Just(Some("HS384"))];
    (alg, signed_as, instant(FUTURE_S), instant(PAST_S), audience(), issuer()).prop_map(
        |(alg, signed_as, exp, nbf, aud, iss)| {
            let mut claims = serde_json::Map::new();
            for (name, value) in [("exp", exp), ("nbf", nbf), ("aud", aud), ("iss", iss)] {
                claims.extend(value.map(|value| (name.to_owned(), value)));
            }
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let message =
                format!("{}.{}", part(&json!({ "alg": alg, "typ": "JWT" })), part(&Value::Object(claims)));
            let how = if signed_as.unwrap_or(alg) == "HS384" { hmac::HMAC_SHA384 } else { hmac::HMAC_SHA256 };
            let signature = hmac::sign(&hmac::Key::new(how, SECRET), message.as_bytes());
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
        },
    )
}

/// Some are damaged: a character is another, one is gone, or there is one more.
fn damaged() -> impl Strategy<Value = String> {
    let damage = prop_oneof![4 => Just(None), 1 => (any::<prop::sample::Index>(), 0..3, "[A-Za-z0-9_.=-]").prop_map(Some)];
    (token(), damage).prop_map(|(mut token, damage)| {
        if let Some((index, how, text)) = damage {
            let at = index.index(token.len());
            let range = if how == 0 { at..at } else { at..at + 1 };
            token.replace_range(range, if how == 1 { "" } else { &text });
        }
        token
    })
}

#[test]
fn a_token_is_valid_here_exactly_if_it_is_there() {
    let verifier = verifier();
    let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::default()));
    let valid = Cell::new(0_u32);
    runner
        .run(&damaged(), |token| {
            let here = verifier.verify(token.as_bytes(), NOW);
            valid.set(valid.get() + u32::from(here.is_ok()));
            prop_assert_eq!(here.is_ok(), is_valid_there(&token), "{:?}: {}", here, token);
            Ok(())
        })
        .expect("both agree");
    assert!(valid.get() > 300, "only {} were valid: the comparison says little", valid.get());
}
