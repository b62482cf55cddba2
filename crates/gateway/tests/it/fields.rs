//! What an upstream and a client see of each other's fields.

use crate::support::{GatewaySetup, Raw, RawUpstream, field};

#[tokio::test]
async fn the_upstream_sees_who_asks_and_nothing_about_the_connection() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client
        .send(
            "GET http://shop.example/x HTTP/1.1\r\nHost: other\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\n\
             Keep-Alive: 5\r\nTE: trailers, gzip\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
             X-Real-IP: 6.6.6.6\r\nX-Tollgate-Verdict: free\r\nX-Forwarded-Proto: https\r\nX-Own: 2\r\n\r\n",
        )
        .await;
    let mut backend = upstream.accept().await;
    let head = backend.head().await;
    assert!(head.starts_with("GET /x HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("host", Some("shop.example")),
        ("x-hop", None),
        ("keep-alive", None),
        ("te", Some("trailers")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-host", Some("shop.example")),
        ("forwarded", Some("for=127.0.0.1;proto=http;host=\"shop.example\"")),
        ("via", Some("1.1 tollgate")),
        ("x-real-ip", None),
        ("x-tollgate-verdict", Some("allow")),
        ("x-tollgate-client", Some("127.0.0.1")),
        ("x-own", Some("2")),
    ] {
        assert_eq!(field(&head, name), value, "{name} in {head}");
    }
    assert!(!head.contains("6.6.6.6"), "{head}");
    backend
        .send("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-Own: 3\r\nContent-Length: 0\r\n\r\n")
        .await;
    let answer = client.head().await;
    assert_eq!((field(&answer, "x-hop"), field(&answer, "keep-alive")), (None, None), "{answer}");
    assert_eq!(field(&answer, "x-own"), Some("3"));
}

/// RFC 9112, 3.2.1.
#[tokio::test]
async fn an_empty_path_is_sent_on_as_a_slash() {
    for (target, path) in [("http://shop", "/"), ("http://shop?page=1", "/?page=1")] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        client.send(format!("GET {target} HTTP/1.1\r\nHost: shop\r\n\r\n")).await;
        let head = upstream.accept().await.head().await;
        assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{target}: {head}");
    }
}

#[tokio::test]
async fn a_trusted_proxy_says_whom_it_speaks_for() {
    let upstream = RawUpstream::new().await;
    let setup = GatewaySetup { trusted: &["127.0.0.1"], ..GatewaySetup::default() };
    let gateway = setup.start(upstream.address).await;
    let mut client = Raw::connect(gateway.address).await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.9\r\nX-Tollgate-Client: 1\r\n\r\n").await;
    let head = upstream.accept().await.head().await;
    assert_eq!(field(&head, "x-forwarded-for"), Some("6.6.6.6, 203.0.113.9, 127.0.0.1"));
    assert_eq!(field(&head, "x-tollgate-client"), Some("203.0.113.9"));
}

/// CGI and what came after it make `HTTP_PROXY` of a field, and the same of `_` and `-`.
#[tokio::test]
async fn fields_that_an_upstream_could_take_for_others_stay_behind_on_both_ways() {
    for way in ["", "\r\n"] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        client
            .send(format!(
                "{way}GET / HTTP/1.1\r\nHost: a\r\nProxy: http://evil\r\nContent_Length: 6\r\nContent-Type: x/y\r\n\
                 Transfer_Encoding: chunked\r\nX_Forwarded_For: 6.6.6.6\r\nX_Tollgate-Client: 6.6.6.6\r\n\
                 X_Real_IP: 6.6.6.6\r\nKeep_Alive: 6\r\nProxy_Authorization: 6\r\nHTTP2-Settings: 6\r\n\
                 HTTP2_Settings: 6\r\nX_Own: 2\r\n\r\n"
            ))
            .await;
        let head = upstream.accept().await.head().await;
        let names: Vec<&str> =
            head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0)).collect();
        let mut names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with("x-")).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "forwarded", "host", "via", "x_own"], "{way:?}: {head}");
        assert!(!head.contains("6.6.6.6"), "{head}");
    }
}
