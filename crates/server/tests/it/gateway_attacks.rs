//! Clients of the gateway who lie about who they are: forged tokens and addresses get nowhere.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::authz::tokens::token;
use crate::authz::{BY_ADDRESS, RULES, ask_from, mapping};
use crate::gateway::api;
use crate::support::{Setup, http};

/// In `trusted_proxies`.
const PROXY: [u8; 4] = [127, 0, 0, 1];
const CLIENT: [u8; 4] = [127, 0, 0, 2];

async fn setup() -> Setup {
    Setup::new(&[("edge.yaml", RULES)])
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api().await)
}

#[tokio::test]
async fn a_forged_token_is_nobodys() {
    let setup = setup().await;
    let key = setup.path("jwt.key");
    std::fs::write(&key, "secret").unwrap();
    let file = format!(
        "mapping:\n  domain: edge\n  jwt: {{ keys: [{{ secret_file: {} }}] }}\n  descriptors:\n    \
         - [jwt_claim: {{ claim: sub, descriptor_key: user, required: true }}]\n",
        key.display()
    );
    let server = setup.file(file).start().await;
    let gateway = server.addresses.gateway.unwrap();
    let good = token(b"secret", r#"{"sub":"1"}"#);
    let (_, signed) = good.split_once('.').unwrap();
    let (claims, signature) = signed.split_once('.').unwrap();
    let header = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let other = header(r#"{"sub":"2"}"#);
    let forged = [
        String::new(),
        format!("{}.{claims}.", header(r#"{"alg":"none"}"#)),
        format!("{}.{claims}.{signature}", header(r#"{"alg":"HS512"}"#)),
        format!("{}.{claims}.{signature}", header(r#"{"alg":"RS256"}"#)),
        format!("{}.{other}.{signature}", header(r#"{"alg":"HS256"}"#)),
        format!("{good}.x"),
        token(b"other secret", r#"{"sub":"1"}"#),
        token(b"", r#"{"sub":"1"}"#),
        token(b"secret", r#"{"sub":"1","exp":1}"#),
        token(b"secret", r#"{"sub":"1","nbf":99999999999}"#),
        token(b"secret", "{}"),
    ];
    for forged in forged {
        let line = format!("Authorization: Bearer {forged}");
        assert_eq!(ask_from(CLIENT, gateway, "GET /", &[&line]).await.status, 403, "{forged}");
    }
    let line = format!("Authorization: Bearer {good}");
    // Whoever has it removed as a field of the connection has none.
    let removed = ask_from(CLIENT, gateway, "GET /", &[&line, "Connection: Authorization"]).await;
    assert_eq!(removed.status, 403);
    // None of it took anything from the one who has a token.
    for status in [200, 429] {
        assert_eq!(ask_from(CLIENT, gateway, "GET /", &[&line]).await.status, status);
    }
}

#[tokio::test]
async fn an_address_is_believed_from_trusted_proxies_alone() {
    let server = setup().await.file(mapping(BY_ADDRESS)).start().await;
    let gateway = server.addresses.gateway.unwrap();
    for _ in 0..2 {
        assert_eq!(ask_from(CLIENT, gateway, "GET /", &[]).await.status, 200);
    }
    let spoofed = [
        &["X-Forwarded-For: 192.0.2.1"][..],
        &["X_Forwarded_For: 192.0.2.1"],
        &["Forwarded: for=192.0.2.1"],
        &["X-Real-IP: 192.0.2.1"],
        &["X-Tollgate-Client: 192.0.2.1"],
        &["X-Forwarded-For: 127.0.0.1"],
        &["X-Forwarded-For: 192.0.2.1", "Connection: X-Forwarded-For"],
        &["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 127.0.0.1"],
    ];
    for headers in spoofed {
        assert_eq!(ask_from(CLIENT, gateway, "GET /", headers).await.status, 429, "{headers:?}");
    }
    // Behind the proxy the client's own words stand to the left of what the proxy saw.
    for (list, status) in [
        ("192.0.2.1, 127.0.0.2", 429),
        ("127.0.0.2, 192.0.2.9", 200),
        ("192.0.2.1, nonsense, 127.0.0.2", 429),
    ] {
        let line = format!("X-Forwarded-For: {list}");
        assert_eq!(ask_from(PROXY, gateway, "GET /", &[&line]).await.status, status, "{list}");
    }
}

/// The field is where most clients name the host, and not where all do.
#[tokio::test]
async fn a_host_is_limited_wherever_it_is_named() {
    let rules = "
domain: edge
descriptors:
  - key: host
    value: api.example
    rate_limit: { requests_per_unit: 2, unit: year }
";
    let by_host = "mapping: { domain: edge, descriptors: [[request_headers: { header_name: Host, descriptor_key: host }]] }\n";
    let server = Setup::new(&[("edge.yaml", rules)])
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api().await)
        .file(by_host)
        .start()
        .await;
    let gateway = server.addresses.gateway.unwrap();
    let plain = "GET / HTTP/1.1\r\nhost: api.example\r\n\r\n";
    let closing = |target: &str, host: &str| {
        format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
    };
    // The first two have nothing unusual about them, and take the short way.
    let answers =
        http::raw(gateway, format!("{plain}{plain}{}", closing("/", "api.example")).as_bytes()).await;
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "200", "429"], "{answers}");
    let absolute = http::raw(gateway, closing("http://api.example/", "other").as_bytes()).await;
    assert!(absolute.starts_with("HTTP/1.1 429 "), "{absolute}");
    let other = http::raw(gateway, closing("http://other/", "api.example").as_bytes()).await;
    assert!(other.starts_with("HTTP/1.1 200 "), "{other}");
}
