//! A line for every request, whatever becomes of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tollgate_gateway::{
    AccessLog, AccessLogConfig, AccessLogFormat, ClientSocket, GatewayConfig, GatewayTimeouts,
};

use crate::support::{DEADLINE, GatewaySetup, Raw, RawUpstream, in_time, url};

const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { name: 'by \"address\"', unit: hour, requests_per_unit: 2, algorithm: sliding_log }\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// The lines that these requests make: one is hostile, one passes, three are denied, one cannot be read.
async fn lines(format: AccessLogFormat) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let config = AccessLogConfig { path: Some(path.clone()), format };
    let access_log = Some(Arc::new(AccessLog::open(&config).unwrap()));
    let upstream = RawUpstream::new().await;
    let setup = GatewaySetup { rules: RULES, access_log, ..GatewaySetup::default() };
    let gateway = setup.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    let hostile = "GET /a%0a?'x' HTTP/1.1\r\nHost: api\r\nUser-Agent: \u{fc} \"\\ \t{}\r\nReferer: r\r\n\r\n";
    let plain = "GET /b HTTP/1.1\r\nHost: api\r\n\r\n";
    let mut client = Raw::connect(gateway.address).await;
    for (request, status) in [(hostile, "200"), (plain, "200"), (plain, "429")] {
        let (head, _) = client.ask(request).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
    // On the short way, and, for its empty line, on hyper's.
    for way in ["", "\r\n"] {
        client.send(format!("{way}HEAD /b HTTP/1.1\r\nHost: api\r\n\r\n")).await;
        assert!(client.head().await.starts_with("HTTP/1.1 429"));
    }
    // What cannot be read.
    let mut client = Raw::connect(gateway.address).await;
    client.send("GET / HTTP/1.1\r\nHost : a\r\n\r\n").await;
    client.rest().await;
    in_time(async {
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().count() == 6 {
                return text.lines().map(str::to_owned).collect();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_line_in_the_combined_format() {
    let lines = lines(AccessLogFormat::Combined).await;
    let rest = |line: &str| line.split_once("] ").unwrap().1.to_owned();
    assert!(lines.iter().all(|line| line.starts_with("127.0.0.1 - - [")), "{lines:?}");
    assert_eq!(rest(&lines[0]), r#""GET /a%0a?'x' HTTP/1.1" 200 5 "r" "\xC3\xBC \x22\x5C \x09{}""#);
    assert_eq!(rest(&lines[1]), r#""GET /b HTTP/1.1" 200 5 "-" "-""#);
    assert!(rest(&lines[2]).starts_with(r#""GET /b HTTP/1.1" 429 "#), "{}", lines[2]);
    for head in &lines[3..5] {
        assert_eq!(rest(head), r#""HEAD /b HTTP/1.1" 429 0 "-" "-""#);
    }
    assert!(rest(&lines[5]).starts_with(r#""-" 400 "#), "{}", lines[5]);
}

#[tokio::test]
async fn a_line_of_json() {
    let lines = lines(AccessLogFormat::Json).await;
    let line = |index: usize| serde_json::from_str::<serde_json::Value>(&lines[index]).unwrap();
    let (hostile, passed, denied, unread) = (line(0), line(1), line(2), line(5));
    assert_eq!(hostile["user_agent"], "\u{fc} \"\\ \t{}");
    assert_eq!(hostile["target"], "/a%0a?'x'");
    assert_eq!(
        (&passed["status"], &passed["bytes"], &passed["verdict"]),
        (&200.into(), &5.into(), &"allow".into())
    );
    assert_eq!((&passed["rule"], &passed["host"]), (&"by \"address\"".into(), &"api".into()));
    assert!(passed["upstream_ms"].is_u64() && passed["total_ms"].is_u64() && passed["wait_ms"] == 0);
    assert_eq!((&denied["status"], &denied["outcome"]), (&429.into(), &"denied".into()));
    assert!(denied["upstream_ms"].is_null(), "nobody was asked");
    assert_eq!((&unread["status"], &unread["method"]), (&400.into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_held_was_held_for_so_long() {
    const SLOW: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: hour, requests_per_unit: 6, algorithm: leaky_bucket, burst: 3 }\n";
    // On the short way, and, for its empty line, on hyper's.
    for way in ["", "\r\n"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let config = AccessLogConfig { path: Some(path.clone()), format: AccessLogFormat::Json };
        let access_log = Some(Arc::new(AccessLog::open(&config).unwrap()));
        let upstream = RawUpstream::new().await;
        let mut config = GatewayConfig::single(url(upstream.address), GatewayTimeouts::default(), DEADLINE);
        config.max_wait = Duration::from_secs(3_600);
        let setup = GatewaySetup { rules: SLOW, access_log, ..GatewaySetup::default() };
        let gateway = setup.start_with(config).await;
        let _backend = upstream.answer_all(OK);
        let mut client = Raw::connect(gateway.address).await;
        let request = format!("{way}GET / HTTP/1.1\r\nHost: api\r\n\r\n");
        client.ask(&request).await;
        client.send(&request).await;
        let held = Duration::from_millis(100);
        assert!(tokio::time::timeout(held, client.try_head()).await.is_err(), "it is held");
        drop(client);
        let line = in_time(async {
            loop {
                let text = std::fs::read_to_string(&path).unwrap();
                if let Some(line) = text.lines().nth(1) {
                    return serde_json::from_str::<serde_json::Value>(line).unwrap();
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!((&line["status"], &line["verdict"]), (&499.into(), &"delay".into()), "{line}");
        // On a busy machine much of the time in this test passes before the gateway has the request.
        assert!(line["wait_ms"].as_u64().unwrap() >= 1, "{line}");
    }
}

/// A listener for both families has IPv4 clients as IPv6 addresses.
#[tokio::test]
async fn a_client_has_one_spelling_whatever_becomes_of_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let config = AccessLogConfig { path: Some(path.clone()), format: AccessLogFormat::Combined };
    let access_log = Some(Arc::new(AccessLog::open(&config).unwrap()));
    let upstream = RawUpstream::new().await;
    let setup = GatewaySetup { access_log, ..GatewaySetup::default() };
    let gateway = setup.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    for host in ["Host", "Host "] {
        let (mut client, server) = tokio::io::duplex(4096);
        let socket = ClientSocket { peer: Some("::ffff:203.0.113.9".parse().unwrap()), is_tls: false };
        tokio::spawn(Arc::clone(&gateway.gateway).serve(server, socket, std::future::pending()));
        let request = format!("GET / HTTP/1.1\r\n{host}: api\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        in_time(client.read_to_end(&mut Vec::new())).await.unwrap();
    }
    let text = in_time(async {
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().count() == 2 {
                return text;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(text.contains("\" 200 ") && text.contains("\" 400 "), "{text}");
    assert!(text.lines().all(|line| line.starts_with("203.0.113.9 - - [")), "{text}");
}
