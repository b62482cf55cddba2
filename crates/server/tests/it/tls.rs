//! TLS: mutual, by name, with certificates that change. Scenarios D and E.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

mod http;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::support::certs::Authority;
use crate::support::wire::{ask_one, brief};
use crate::support::{Server, Setup, eventually, replace_file};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: day, requests_per_unit: 10 }
";

/// A server with a certificate by `authority`, which demands certificates of
/// callers by the same if `demands`.
async fn server(authority: &Authority, demands: bool, san: &str) -> Server {
    let setup = Setup::new(&[("rules.yaml", RULES)]);
    let own = authority.sign("localhost");
    std::fs::write(setup.path("cert.pem"), own.cert).unwrap();
    std::fs::write(setup.path("key.pem"), own.key).unwrap();
    std::fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let (cert, key, ca) = (setup.path("cert.pem"), setup.path("key.pem"), setup.path("ca.pem"));
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let setup = setup
        .env("GRPC_SERVER_USE_TLS", "true")
        .env("GRPC_SERVER_TLS_CERT", text(cert))
        .env("GRPC_SERVER_TLS_KEY", text(key));
    let setup = if demands { setup.env("GRPC_CLIENT_TLS_CACERT", text(ca)) } else { setup };
    let setup = if san.is_empty() { setup } else { setup.env("GRPC_CLIENT_TLS_SAN", san) };
    setup.start().await
}

/// A caller that trusts `authority`, and shows a certificate for `name` by `shows`.
async fn connect(
    server: &Server,
    authority: &Authority,
    shows: Option<(&Authority, &str)>,
) -> Result<Channel, tonic::transport::Error> {
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.pem()))
        .domain_name("localhost");
    if let Some((issuer, name)) = shows {
        let own = issuer.sign(name);
        tls = tls.identity(Identity::from_pem(own.cert, own.key));
    }
    let endpoint = Endpoint::from_shared(format!("https://{}", server.grpc_address())).unwrap();
    endpoint.tls_config(tls).unwrap().connect().await
}

/// Whether such a caller gets an answer. With TLS 1.3 a caller learns only by
/// its first call that its certificate was not accepted.
async fn is_served(server: &Server, authority: &Authority, shows: Option<(&Authority, &str)>) -> bool {
    let Ok(channel) = connect(server, authority, shows).await else { return false };
    let asked = crate::support::wire::request("d", vec![crate::support::wire::descriptor(&[("a", "1")])]);
    RateLimitServiceClient::new(channel).should_rate_limit(asked).await.is_ok()
}

#[tokio::test]
async fn callers_are_served_over_tls_and_not_without() {
    let authority = Authority::new();
    let server = server(&authority, false, "").await;
    let channel = connect(&server, &authority, None).await.unwrap();
    let response = ask_one(&mut RateLimitServiceClient::new(channel), "d", &[("a", "1")]).await;
    assert_eq!(brief(&response), "OK: OK 9 of 10/DAY");
    assert!(!is_served(&server, &Authority::new(), None).await, "another authority is not trusted");
    let plain = Endpoint::from_shared(format!("http://{}", server.grpc_address())).unwrap().connect_lazy();
    let asked = crate::support::wire::request("d", vec![]);
    assert!(RateLimitServiceClient::new(plain).should_rate_limit(asked).await.is_err());
}

#[tokio::test]
async fn d_with_an_authority_for_callers_only_their_certificates_get_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority, true, "").await;
    assert!(is_served(&server, &authority, Some((&authority, "envoy.example"))).await);
    assert!(!is_served(&server, &authority, None).await);
    assert!(!is_served(&server, &authority, Some((&other, "envoy.example"))).await);
}

#[tokio::test]
async fn d_with_a_name_for_callers_it_must_be_in_their_certificate() {
    let authority = Authority::new();
    let server = server(&authority, true, "envoy.example").await;
    assert!(is_served(&server, &authority, Some((&authority, "envoy.example"))).await);
    assert!(!is_served(&server, &authority, Some((&authority, "other.example"))).await);
    assert!(!is_served(&server, &authority, None).await);
}

#[tokio::test]
async fn e_a_certificate_that_changes_on_disk_is_picked_up() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = server(&old, false, "").await;
    assert!(is_served(&server, &old, None).await);
    let kept = connect(&server, &old, None).await.unwrap();

    let next = new.sign("localhost");
    // The key alone fits no certificate: the old pair stays in force meanwhile.
    replace_file(&server.path("key.pem"), next.key);
    assert!(is_served(&server, &old, None).await);
    replace_file(&server.path("cert.pem"), next.cert);
    eventually("the new authority is trusted", || is_served(&server, &new, None)).await;
    assert!(!is_served(&server, &old, None).await);
    // Who was connected before stays connected.
    ask_one(&mut RateLimitServiceClient::new(kept), "d", &[("a", "1")]).await;
}

#[tokio::test]
async fn a_folder_of_certificates_that_is_swapped_by_a_link_is_picked_up() {
    let (old, new) = (Authority::new(), Authority::new());
    let setup = Setup::new(&[("rules.yaml", RULES)]);
    let link = setup.path("certs");
    let fill = |name: &str, authority: &Authority| {
        let own = authority.sign("localhost");
        std::fs::create_dir(setup.path(name)).unwrap();
        std::fs::write(setup.path(name).join("tls.crt"), own.cert).unwrap();
        std::fs::write(setup.path(name).join("tls.key"), own.key).unwrap();
        setup.path(name)
    };
    let (first, second) = (fill("1", &old), fill("2", &new));
    std::os::unix::fs::symlink(first, &link).unwrap();
    let server = setup
        .env("GRPC_SERVER_USE_TLS", "true")
        .env("GRPC_SERVER_TLS_CERT", link.join("tls.crt").to_str().unwrap())
        .env("GRPC_SERVER_TLS_KEY", link.join("tls.key").to_str().unwrap())
        .start()
        .await;
    assert!(is_served(&server, &old, None).await);
    std::os::unix::fs::symlink(second, server.path("next")).unwrap();
    std::fs::rename(server.path("next"), &link).unwrap();
    eventually("the new authority is trusted", || is_served(&server, &new, None)).await;
}
