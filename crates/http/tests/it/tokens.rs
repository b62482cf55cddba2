//! TokenVerifier, signed with real keys. The private keys in `keys/` are for these tests alone.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use tollgate_core::{Micros, Time};
use tollgate_http::request::token::{Algorithm, KeyFile, KeyForm, TokenError, TokenSpec};
use tollgate_http::{Action, Error, Fact, Mapping, TokenSource, TokenVerifier};

const NOW: Time = Time::from_secs(1_700_000_000);
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const CLAIMS: &str = r#"{"sub":"42","plan":"free","exp":1700000100,"org":{"id":7}}"#;

fn keys(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/keys").join(name)
}

/// What stands between the lines of a PEM file.
fn der(name: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(keys(name)).expect("the key is there");
    let lines: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(lines).expect("PEM is base64")
}

/// Makes a signature.
type Sign = Box<dyn FnOnce(&[u8]) -> Vec<u8>>;

fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

fn signed(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = unsigned(header, claims);
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn hs(algorithm: hmac::Algorithm, secret: &[u8]) -> impl FnOnce(&[u8]) -> Vec<u8> {
    move |message| hmac::sign(&hmac::Key::new(algorithm, secret), message).as_ref().to_vec()
}

fn hs256(claims: &str) -> String {
    signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims, hs(hmac::HMAC_SHA256, SECRET))
}

fn rsa(encoding: &'static dyn RsaEncoding) -> impl FnOnce(&[u8]) -> Vec<u8> {
    move |message| {
        let pair = RsaKeyPair::from_pkcs8(&der("rsa_private.pem")).expect("it is a key");
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), message, &mut signature).expect("it signs");
        signature
    }
}

fn ec(name: &str) -> impl FnOnce(&[u8]) -> Vec<u8> {
    let how = if name.starts_with("p256") {
        &ECDSA_P256_SHA256_FIXED_SIGNING
    } else {
        &ECDSA_P384_SHA384_FIXED_SIGNING
    };
    let pair = EcdsaKeyPair::from_pkcs8(how, &der(name), &SystemRandom::new()).expect("it is a key");
    move |message| pair.sign(&SystemRandom::new(), message).expect("it signs").as_ref().to_vec()
}

fn ed(message: &[u8]) -> Vec<u8> {
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der("ed25519_private.pem")).expect("it is a key");
    pair.sign(message).as_ref().to_vec()
}

fn file(path: PathBuf, form: KeyForm) -> KeyFile {
    KeyFile { path, form, algorithms: Vec::new() }
}

fn spec(files: Vec<KeyFile>) -> TokenSpec {
    TokenSpec { files, ..TokenSpec::default() }
}

fn pem(name: &str) -> TokenVerifier {
    TokenVerifier::load(spec(vec![file(keys(name), KeyForm::Pem)])).expect("the key can be used")
}

/// Keys in a file of its own.
struct Written {
    folder: tempfile::TempDir,
    tokens: TokenVerifier,
}

fn written(text: &[u8], form: KeyForm) -> Written {
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("keys"), text).expect("there is room");
    let tokens = TokenVerifier::load(spec(vec![file(folder.path().join("keys"), form)]))
        .expect("the keys can be used");
    Written { folder, tokens }
}

fn subject(tokens: &TokenVerifier, token: &str) -> Result<String, TokenError> {
    let claims = tokens.verify(token.as_bytes(), NOW)?;
    Ok(claims.text(&["sub".to_owned()]).expect("the claim is there").into_owned())
}

fn ok() -> Result<String, TokenError> {
    Ok("42".to_owned())
}

#[test]
fn hmac_of_all_lengths_is_verified() {
    let tokens = written(&[SECRET, b"\n"].concat(), KeyForm::Secret).tokens;
    for (name, algorithm) in
        [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
    {
        let header = format!(r#"{{"alg":"{name}"}}"#);
        assert_eq!(subject(&tokens, &signed(&header, CLAIMS, hs(algorithm, SECRET))), ok(), "{name}");
        let forged = signed(&header, CLAIMS, hs(algorithm, b"another secret"));
        assert_eq!(subject(&tokens, &forged), Err(TokenError::Signature), "{name}");
    }
}

#[test]
fn rsa_is_verified() {
    for name in ["rsa_public.pem", "rsa_public_pkcs1.pem"] {
        let tokens = pem(name);
        let encodings: [(&str, &'static dyn RsaEncoding); 3] =
            [("RS256", &RSA_PKCS1_SHA256), ("RS512", &RSA_PKCS1_SHA512), ("PS256", &RSA_PSS_SHA256)];
        for (algorithm, encoding) in encodings {
            let token = signed(&format!(r#"{{"alg":"{algorithm}"}}"#), CLAIMS, rsa(encoding));
            assert_eq!(subject(&tokens, &token), ok(), "{name} {algorithm}");
        }
        let mixed = signed(r#"{"alg":"PS256"}"#, CLAIMS, rsa(&RSA_PKCS1_SHA256));
        assert_eq!(subject(&tokens, &mixed), Err(TokenError::Signature));
    }
}

#[test]
fn elliptic_curves_are_verified() {
    let es256 = signed(r#"{"alg":"ES256"}"#, CLAIMS, ec("p256_private.pem"));
    let es384 = signed(r#"{"alg":"ES384"}"#, CLAIMS, ec("p384_private.pem"));
    let eddsa = signed(r#"{"alg":"EdDSA"}"#, CLAIMS, ed);
    for (name, own) in
        [("p256_public.pem", &es256), ("p384_public.pem", &es384), ("ed25519_public.pem", &eddsa)]
    {
        let tokens = pem(name);
        for token in [&es256, &es384, &eddsa] {
            let expected = if token == own { ok() } else { Err(TokenError::NoKey) };
            assert_eq!(subject(&tokens, token), expected, "{name}");
        }
    }
}

#[test]
fn a_public_key_is_never_a_secret() {
    // The classic: sign with HMAC, and with the public key as the secret.
    for name in ["rsa_public.pem", "p256_public.pem", "ed25519_public.pem"] {
        let text = std::fs::read(keys(name)).expect("the key is there");
        for secret in [text.as_slice(), &der(name)] {
            let forged = signed(r#"{"alg":"HS256"}"#, CLAIMS, hs(hmac::HMAC_SHA256, secret));
            assert_eq!(subject(&pem(name), &forged), Err(TokenError::NoKey), "{name}");
        }
    }
}

#[test]
fn what_is_not_signed_is_no_token() {
    let tokens = written(SECRET, KeyForm::Secret).tokens;
    for header in [r#"{"alg":"none"}"#, r#"{"alg":"None"}"#, r#"{"alg":""}"#, "{}", "[]", ""] {
        let bare = unsigned(header, CLAIMS);
        for token in [format!("{bare}."), bare.clone(), format!("{bare}.AAAA")] {
            assert_eq!(subject(&tokens, &token), Err(TokenError::Malformed), "{header}: {token}");
        }
    }
    let own = hs256(CLAIMS);
    let (message, signature) = own.rsplit_once('.').expect("there are parts");
    assert_eq!(subject(&tokens, &format!("{message}.")), Err(TokenError::Signature));
    assert_eq!(subject(&tokens, &format!("{message}.{signature}=")), Err(TokenError::Malformed));
    assert_eq!(subject(&tokens, &format!("x.{message}.{signature}")), Err(TokenError::Malformed));
    let other = unsigned(r#"{"alg":"HS256"}"#, &CLAIMS.replace("42", "43"));
    assert_eq!(subject(&tokens, &format!("{other}.{signature}")), Err(TokenError::Signature));
    for odd in ["", ".", "..", "...", "a.b.c", "\u{fffd}"] {
        assert_eq!(subject(&tokens, odd), Err(TokenError::Malformed), "{odd}");
    }
    let long = format!("{message}.{}", "A".repeat(100_000));
    assert_eq!(subject(&tokens, &long), Err(TokenError::Malformed));
}

#[test]
fn an_extension_that_a_token_demands_is_refused() {
    let tokens = written(SECRET, KeyForm::Secret).tokens;
    let header = r#"{"alg":"HS256","crit":["b64"],"b64":false}"#;
    let token = signed(header, CLAIMS, hs(hmac::HMAC_SHA256, SECRET));
    assert_eq!(subject(&tokens, &token), Err(TokenError::Critical));
}

#[test]
fn a_token_runs_out_by_the_time_that_is_passed_in() {
    let tokens = written(SECRET, KeyForm::Secret).tokens;
    let token = hs256(r#"{"sub":"42","nbf":1700000000,"exp":1700000100}"#);
    let at = |seconds: u64| tokens.verify(token.as_bytes(), Time::from_secs(seconds)).map(|_| ());
    assert_eq!(at(1_699_999_999), Err(TokenError::NotYet));
    assert_eq!(at(1_700_000_000), Ok(()));
    assert_eq!(at(1_700_000_099), Ok(()));
    assert_eq!(at(1_700_000_100), Err(TokenError::Expired));
}

#[test]
fn issuer_audience_and_leeway_are_those_of_the_mapping() {
    let own = written(SECRET, KeyForm::Secret);
    let spec = TokenSpec {
        issuer: Some("https://id.example".to_owned()),
        audience: vec!["shop".to_owned()],
        leeway: Micros::from_secs(60),
        ..spec(vec![file(own.folder.path().join("keys"), KeyForm::Secret)])
    };
    let tokens = TokenVerifier::load(spec).expect("the keys can be used");
    let right = r#"{"sub":"42","iss":"https://id.example","aud":["shop"],"exp":1699999950}"#;
    assert_eq!(subject(&tokens, &hs256(right)), ok());
    assert_eq!(subject(&tokens, &hs256(&right.replace("id.", "evil."))), Err(TokenError::Issuer));
    assert_eq!(subject(&tokens, &hs256(&right.replace("shop", "cart"))), Err(TokenError::Audience));
}

/// A set with an RSA key, an EC key, a secret, and keys that are not for us.
fn jwks() -> String {
    let rsa = RsaKeyPair::from_pkcs8(&der("rsa_private.pem")).expect("it is a key");
    let parts: ring::signature::RsaPublicKeyComponents<Vec<u8>> = rsa.public().into();
    let (n, e) = (URL_SAFE_NO_PAD.encode(parts.n), URL_SAFE_NO_PAD.encode(parts.e));
    let ec = EcdsaKeyPair::from_pkcs8(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &der("p256_private.pem"),
        &SystemRandom::new(),
    )
    .expect("it is a key");
    // The first byte says that the point is not compressed.
    let (x, y) = ec.public_key().as_ref().split_first().expect("there are bytes").1.split_at(32);
    let (x, y, k) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y), URL_SAFE_NO_PAD.encode(SECRET));
    format!(
        r#"{{"keys":[
            {{"kty":"RSA","use":"sig","kid":"r1","alg":"RS256","n":"{n}","e":"{e}"}},
            {{"kty":"EC","kid":"e1","crv":"P-256","x":"{x}","y":"{y}"}},
            {{"kty":"oct","kid":"s1","k":"{k}"}},
            {{"kty":"RSA","use":"enc","kid":"enc","n":"{n}","e":"{e}"}},
            {{"kty":"EC","kid":"p521","crv":"P-521","x":"{x}","y":"{y}"}},
            {{"kty":"quantum","kid":"q1"}}]}}"#
    )
}

#[test]
fn keys_of_a_set_are_chosen_by_their_id_and_used_for_their_algorithm() {
    let tokens = written(jwks().as_bytes(), KeyForm::Jwks).tokens;
    let by = |header: &str, sign: Sign| subject(&tokens, &signed(header, CLAIMS, sign));
    assert_eq!(by(r#"{"alg":"RS256","kid":"r1"}"#, Box::new(rsa(&RSA_PKCS1_SHA256))), ok());
    assert_eq!(by(r#"{"alg":"RS256"}"#, Box::new(rsa(&RSA_PKCS1_SHA256))), ok());
    assert_eq!(by(r#"{"alg":"ES256","kid":"e1"}"#, Box::new(ec("p256_private.pem"))), ok());
    assert_eq!(by(r#"{"alg":"HS256","kid":"s1"}"#, Box::new(hs(hmac::HMAC_SHA256, SECRET))), ok());
    let no_key = Err(TokenError::NoKey);
    assert_eq!(by(r#"{"alg":"PS256","kid":"r1"}"#, Box::new(rsa(&RSA_PSS_SHA256))), no_key);
    assert_eq!(by(r#"{"alg":"RS256","kid":"enc"}"#, Box::new(rsa(&RSA_PKCS1_SHA256))), no_key);
    assert_eq!(by(r#"{"alg":"RS256","kid":"gone"}"#, Box::new(rsa(&RSA_PKCS1_SHA256))), no_key);
    assert_eq!(by(r#"{"alg":"HS256","kid":"e1"}"#, Box::new(hs(hmac::HMAC_SHA256, SECRET))), no_key);
}

#[test]
fn algorithms_can_be_narrowed() {
    let narrow = KeyFile { algorithms: vec![Algorithm::RS512], ..file(keys("rsa_public.pem"), KeyForm::Pem) };
    let tokens = TokenVerifier::load(spec(vec![narrow])).expect("the key can be used");
    assert_eq!(subject(&tokens, &signed(r#"{"alg":"RS512"}"#, CLAIMS, rsa(&RSA_PKCS1_SHA512))), ok());
    let other = signed(r#"{"alg":"RS256"}"#, CLAIMS, rsa(&RSA_PKCS1_SHA256));
    assert_eq!(subject(&tokens, &other), Err(TokenError::NoKey));
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let load = |path: PathBuf, form| {
        TokenVerifier::load(spec(vec![file(path, form)])).expect_err("it is wrong").to_string()
    };
    for (name, form, words) in [
        ("none.pem", KeyForm::Pem, "cannot be read"),
        ("rsa_private.pem", KeyForm::Pem, "it holds a private key"),
        ("p521_public.pem", KeyForm::Pem, "it must hold a public key of RSA, EC (P-256 or P-384)"),
        ("rsa_public.pem", KeyForm::Jwks, "it is no set of keys"),
        ("rsa_public.pem", KeyForm::Secret, "it holds PEM and no secret"),
    ] {
        let error = load(keys(name), form);
        assert!(error.contains(name) && error.contains(words), "{error}");
    }
    let folder = tempfile::tempdir().expect("there is room");
    for (text, form, words) in [
        ("", KeyForm::Secret, "it is empty"),
        (r#"{"keys":[]}"#, KeyForm::Jwks, "there is no key in it"),
        ("hello", KeyForm::Pem, "in PEM"),
    ] {
        let path = folder.path().join("file");
        std::fs::write(&path, text).expect("there is room");
        let error = load(path, form);
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(TokenVerifier::load(TokenSpec::default()).expect_err("it is wrong"), Error::NoKeys);
}

#[test]
fn keys_that_change_on_disk_are_picked_up_and_bad_ones_are_not() {
    let own = written(SECRET, KeyForm::Secret);
    let path = own.folder.path().join("keys");
    let token = hs256(CLAIMS);
    assert_eq!(own.tokens.refresh(), Ok(false));
    std::fs::write(&path, "").expect("there is room");
    assert!(own.tokens.refresh().is_err());
    assert_eq!(subject(&own.tokens, &token), ok());
    std::fs::write(&path, "another secret").expect("there is room");
    assert_eq!(own.tokens.refresh(), Ok(true));
    assert_eq!(subject(&own.tokens, &token), Err(TokenError::Signature));
}

#[test]
fn a_claim_becomes_an_entry_only_if_the_token_is_valid() {
    let tokens = std::sync::Arc::new(written(SECRET, KeyForm::Secret).tokens);
    let claim = |path: &[&str], source: TokenSource| Fact::Claim {
        path: path.iter().map(|name| (*name).to_owned()).collect(),
        source,
    };
    let cookie = TokenSource::Cookie { name: "session".to_owned() };
    let mapping = Mapping::new(
        "shop",
        vec![
            vec![
                Action::new("user", claim(&["sub"], TokenSource::default())),
                Action::new("org", claim(&["org", "id"], TokenSource::default())),
            ],
            vec![Action::new("user", claim(&["sub"], cookie))],
            vec![Action::new("none", claim(&["none"], TokenSource::default()))],
        ],
    );
    let mapping = mapping.expect("the mapping is right").with_tokens(tokens);
    let seen = |name: &'static str, value: String| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(&value).expect("it is plain text"));
        let facts = crate::mapping::bare_facts(&headers);
        mapping.map(&facts, NOW).expect("nothing is demanded").with_request(|request| {
            let entries = request.descriptors.iter().flat_map(|descriptor| descriptor.entries);
            entries.map(|entry| format!("{}={}", entry.key, entry.value)).collect::<Vec<_>>()
        })
    };
    let token = hs256(CLAIMS);
    assert_eq!(seen("authorization", format!("Bearer {token}")), ["user=42", "org=7"]);
    assert_eq!(seen("authorization", format!("bearer  {token}")), ["user=42", "org=7"]);
    assert_eq!(seen("cookie", format!("a=b; session={token}")), ["user=42"]);
    for wrong in [
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer {token}x"),
        "Bearer".to_owned(),
        String::new(),
    ] {
        assert_eq!(seen("authorization", wrong), [""; 0]);
    }
    let expired = hs256(r#"{"sub":"42","exp":1}"#);
    assert_eq!(seen("authorization", format!("Bearer {expired}")), [""; 0]);
}
