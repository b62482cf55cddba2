//! TLS in: as the other listeners have it, with HTTP/2 and HTTP/1.1 by ALPN, and mutual.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{FREE, api};
use crate::support::certs::{Authority, Certificate};
use crate::support::{Server, Setup, secure};

async fn server(authority: &Authority, demands: bool) -> Server {
    let setup = Setup::new(&[("free.yaml", FREE)]);
    let own = authority.sign("localhost");
    let files = [("cert", own.cert), ("key", own.key), ("client_ca", authority.pem())];
    let mut setup = setup.env("TOLLGATE_GATEWAY", "127.0.0.1:0").env("TOLLGATE_UPSTREAM", api().await);
    for (name, text) in files {
        let path = setup.path(name);
        std::fs::write(&path, text).unwrap();
        if demands || name != "client_ca" {
            let variable = format!("TOLLGATE_GATEWAY_TLS_{}", name.to_ascii_uppercase());
            setup = setup.env(&variable, path.to_str().unwrap());
        }
    }
    setup.start().await
}

/// The answer to a request over TLS; none if there is none.
async fn ask(server: &Server, authority: &Authority, shows: Option<Certificate>) -> Option<String> {
    let mut stream = secure::connect(server.addresses.gateway.unwrap(), authority, shows).await?;
    let request =
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Proto: http\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer).filter(|answer| !answer.is_empty())
}

#[tokio::test]
async fn the_api_is_told_that_its_client_came_by_tls() {
    let authority = Authority::new();
    let server = server(&authority, false).await;
    let answer = ask(&server, &authority, None).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("\r\nx-forwarded-proto: https\r\n") && answer.contains(";proto=https;"),
        "{answer}"
    );
}

#[tokio::test]
async fn with_mutual_tls_nobody_gets_in_without_a_certificate() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority, true).await;
    assert!(ask(&server, &authority, None).await.is_none());
    assert!(ask(&server, &authority, Some(other.sign("client"))).await.is_none());
    assert!(
        ask(&server, &authority, Some(authority.sign("client"))).await.unwrap().starts_with("HTTP/1.1 200")
    );
}

/// The client offers both, and HTTP/2 is chosen.
#[tokio::test]
async fn http2_is_preferred() {
    use tonic::transport::{Certificate as Ca, ClientTlsConfig, Endpoint};
    let authority = Authority::new();
    let server = server(&authority, false).await;
    let tls = ClientTlsConfig::new().ca_certificate(Ca::from_pem(authority.pem())).domain_name("localhost");
    let url = format!("https://{}", server.addresses.gateway.unwrap());
    // A channel of tonic speaks nothing but HTTP/2.
    Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap().connect().await.unwrap();
}
