//! Claims of tokens, and keys that change on disk.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{RULES, ask};
use crate::support::{Setup, eventually, replace_file};

/// A token, signed with HMAC.
pub(crate) fn token(secret: &[u8], claims: &str) -> String {
    let message =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn a_claim_is_limited_once_its_token_is_verified_and_keys_change_while_running() {
    let setup = Setup::new(&[("edge.yaml", RULES)]);
    let key = setup.path("jwt.key");
    std::fs::write(&key, "first secret\n").unwrap();
    let file = format!(
        "mapping:\n  domain: edge\n  jwt: {{ keys: [{{ secret_file: {} }}] }}\n  descriptors:\n    \
         - [jwt_claim: {{ claim: sub, descriptor_key: user }}]\n",
        key.display()
    );
    let server = setup.file(file).start().await;
    let server = &server;
    let asked = async |secret: &[u8], claims: &str| {
        let header = format!("Authorization: Bearer {}", token(secret, claims));
        let answer = ask(server, "GET /v1/authz", &[&header]).await;
        (answer.status, answer.header("x-ratelimit-limit").is_some())
    };
    const LIMITED: (u16, bool) = (200, true);
    const FREE: (u16, bool) = (200, false);
    assert_eq!(asked(b"first secret", r#"{"sub":"1"}"#).await, LIMITED);
    assert_eq!(asked(b"first secret", r#"{"sub":"1"}"#).await, (429, true));
    assert_eq!(asked(b"first secret", r#"{"sub":"2","exp":1}"#).await, FREE);
    assert_eq!(asked(b"second secret", r#"{"sub":"3"}"#).await, FREE);

    replace_file(&key, "second secret");
    eventually("the second secret is in force", async || asked(b"second secret", r#"{"sub":"1"}"#).await.1)
        .await;
    assert_eq!(asked(b"first secret", r#"{"sub":"4"}"#).await, FREE);

    replace_file(&key, "");
    assert_eq!(asked(b"second secret", r#"{"sub":"5"}"#).await, LIMITED);
}
