//! The gateway in a whole server: settings, rules, certificates and history are those of all others.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

mod charges;
mod grpc;
mod kept;
mod outages;
mod reload;
mod reload_under_load;
mod tls;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Setup, http};

const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    \
                     rate_limit: { name: by address, unit: year, requests_per_unit: 1 }\n";
const FREE: &str = "domain: other\ndescriptors:\n  - key: user\n    \
                    rate_limit: { unit: hour, requests_per_unit: 1 }\n";

/// An API that answers every request with its name and the head of the request.
async fn named_api(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                let length_all = name.len() + length;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length_all}\r\n\r\n{name}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(&head[..length]).await.unwrap();
            });
        }
    });
    url
}

pub(crate) async fn api() -> String {
    named_api("").await
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

/// Routes of the file, what history calls their requests, and what metrics tell of their upstreams.
#[tokio::test]
async fn requests_are_counted_by_the_template_of_their_route() {
    let (users, shop) = (named_api("users ").await, named_api("shop ").await);
    let server = Setup::new(&[("free.yaml", FREE)])
        .file(format!(
            "listen: {{ gateway: '127.0.0.1:0' }}\ngateway:\n  upstreams: {{ users: '{users}', shop: ['{shop}'] }}\n  \
             routes:\n    - {{ path: '/users/{{id}}', upstream: users }}\n    - {{ path: /shop, upstream: shop }}\n"
        ))
        .start()
        .await;
    let gateway = server.addresses.gateway.unwrap();
    for (path, expected) in [("/users/7", "users GET /users/7"), ("/users/8", "users "), ("/shop", "shop ")] {
        let (status, body) = http::get(gateway, path).await;
        assert!(status == 200 && body.starts_with(expected), "{path}: {status} {body}");
    }
    assert_eq!(http::get(gateway, "/nothing").await.0, 404);
    let (_, top) = http::get(server.addresses.admin, "/v1/history/top?by=route&last=1h").await;
    assert!(top.contains("\"/users/{id}\"") && !top.contains("/users/7"), "{top}");
    let (_, metrics) = http::get(server.addresses.admin, "/metrics").await;
    for line in [
        format!("tollgate_gateway_upstream_requests_total{{group=\"users\",upstream=\"{users}\"}} 2"),
        format!("tollgate_gateway_upstream_up{{group=\"shop\",upstream=\"{shop}\"}} 1"),
    ] {
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}
