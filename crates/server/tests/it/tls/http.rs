//! The HTTP listener over TLS.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::RULES;
use crate::support::certs::{Authority, Certificate};
use crate::support::{Server, Setup, eventually, http, replace_file, secure};

/// A server with a certificate by `authority`, which demands certificates of
/// callers by the same, for the name `san`, if there is one.
async fn server(authority: &Authority, san: Option<&str>) -> Server {
    let setup = Setup::new(&[("rules.yaml", RULES)]);
    let own = authority.sign("localhost");
    let file = |name: &str, text: &str| {
        std::fs::write(setup.path(name), text).unwrap();
        setup.path(name).to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("cert.pem", &own.cert), file("key.pem", &own.key));
    let ca = file("ca.pem", &authority.pem());
    let mut setup = setup.env("TOLLGATE_HTTP_TLS_CERT", cert).env("TOLLGATE_HTTP_TLS_KEY", key);
    if let Some(san) = san {
        setup = setup.env("TOLLGATE_HTTP_TLS_CLIENT_CA", ca).env("TOLLGATE_HTTP_TLS_CLIENT_SAN", san);
    }
    setup.without_waiting().start().await
}

/// Whether such a caller is told that the server is healthy.
async fn is_healthy(server: &Server, authority: &Authority, shows: Option<Certificate>) -> bool {
    let Some(mut stream) = secure::connect(server.addresses.http, authority, shows).await else {
        return false;
    };
    let asked = b"GET /healthcheck HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
    let mut answer = Vec::new();
    // Whoever is not let in sees the end early.
    drop(stream.write_all(asked).await);
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8(answer).unwrap().ends_with("\r\n\r\nOK")
}

#[tokio::test]
async fn callers_are_served_over_tls_and_not_without() {
    let authority = Authority::new();
    let server = server(&authority, None).await;
    eventually("healthy over TLS", || is_healthy(&server, &authority, None)).await;
    let plain = http::raw_bytes(server.addresses.http, b"GET /healthcheck HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(!plain.starts_with(b"HTTP/"), "{plain:?}");
}

#[tokio::test]
async fn where_certificates_are_demanded_only_those_for_the_name_get_in() {
    let authority = Authority::new();
    let server = server(&authority, Some("proxy.example")).await;
    eventually("healthy", || is_healthy(&server, &authority, Some(authority.sign("proxy.example")))).await;
    assert!(!is_healthy(&server, &authority, None).await);
    assert!(!is_healthy(&server, &authority, Some(authority.sign("other.example"))).await);
    assert!(!is_healthy(&server, &authority, Some(Authority::new().sign("proxy.example"))).await);
}

#[tokio::test]
async fn a_certificate_that_changes_on_disk_is_picked_up() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = server(&old, None).await;
    eventually("the old one is trusted", || is_healthy(&server, &old, None)).await;
    let next = new.sign("localhost");
    replace_file(&server.path("key.pem"), next.key);
    replace_file(&server.path("cert.pem"), next.cert);
    eventually("the new one is trusted", || is_healthy(&server, &new, None)).await;
    assert!(!is_healthy(&server, &old, None).await);
}
