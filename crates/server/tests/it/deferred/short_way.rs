//! While a queue is open, only requests that a limit may put off do without the gateway's short way.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{NotingApi, RULES, order, start};
use crate::support::{Setup, eventually, replace_file};

const PLAIN: &str = "
domain: plain
descriptors:
  - key: remote_address
    rate_limit: { name: plain, requests_per_unit: 3, unit: year }
";

/// The status of a request that has nothing unusual about it, on a connection of its own.
async fn ask(gateway: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "it closed: {bytes:?}");
    }
    String::from_utf8_lossy(&bytes).split(' ').nth(1).unwrap().parse().unwrap()
}

/// Whether the last request went the short way, which names the host before all other fields; hyper does
/// so after them.
fn was_short(api: &NotingApi) -> bool {
    api.seen().last().unwrap().lines().nth(1) == Some("host: x")
}

#[tokio::test]
async fn domains_without_a_limit_that_defers_keep_their_short_way() {
    let api = NotingApi::default();
    let file = format!(
        "gateway:\n  upstreams: {{ api: [{}] }}\n  routes:\n    - path: [/plain, \"/v1/deferred/{{id}}\"]\n      \
         upstream: api\n      mapping: {{ domain: plain, descriptors: [[remote_address: {{}}]] }}\n    - upstream: api\n",
        api.start().await
    );
    let setup = Setup::new(&[("gateway.yaml", RULES), ("plain.yaml", PLAIN)]);
    let (server, gateway) = start(setup.env("TOLLGATE_GATEWAY", "127.0.0.1:0").file(file)).await;
    assert_eq!((ask(gateway, "/plain").await, was_short(&api)), (200, true));
    assert_eq!((ask(gateway, "/one").await, was_short(&api)), (200, false));
    let (status, told) = order(gateway, "/one", "").await;
    assert_eq!((status, ask(gateway, "/one").await), (202, 202), "it is taken whichever way it came");
    // Whoever asks what became of it is answered here, also where the route's own limits do not defer.
    assert_eq!(ask(gateway, told["location"].as_str().unwrap()).await, 200);
    assert_eq!((ask(gateway, "/plain").await, was_short(&api)), (200, true));

    // A limit that defers from now on is asked about from now on.
    let defers = PLAIN.replace("unit: year", "unit: year, over_limit: defer");
    replace_file(&server.rules_folder().join("plain.yaml"), &defers);
    eventually("the new rules are in force", || async {
        crate::support::http::get(server.addresses.admin, "/rlconfig").await.1.matches("defer").count() > 4
    })
    .await;
    assert_eq!((ask(gateway, "/plain").await, was_short(&api)), (200, false));
    assert_eq!(ask(gateway, "/plain").await, 202);
}
