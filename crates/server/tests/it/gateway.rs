//! The gateway in a whole server: settings, rules, certificates and history are those of all others.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Setup, http};

const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    \
                     rate_limit: { name: by address, unit: hour, requests_per_unit: 1 }\n";

/// An API that answers every request with its head.
pub(crate) async fn api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let head = &head[..length];
            let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.write_all(head).await.unwrap();
        }
    });
    url
}

#[tokio::test]
async fn without_a_mapping_the_address_is_the_peers() {
    let server = Setup::new(&[("gateway.yaml", RULES)])
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api().await)
        .start()
        .await;
    let gateway = server.addresses.gateway.unwrap();
    for (spoofed, status) in [("1.1.1.1", 200), ("2.2.2.2", 429)] {
        let (own, _) = http::get_with(gateway, "/", &format!("x-forwarded-for: {spoofed}")).await;
        assert_eq!(own, status, "{spoofed}");
    }
}
