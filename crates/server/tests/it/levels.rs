//! The levels around the rules, in a whole server: connections by address and all requests together, with
//! TLS, keep-alive, HTTP/2, a reload and a stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::gateway::api;
use crate::support::certs::Authority;
use crate::support::{Server, Setup, eventually, http, replace_file, secure};

/// One a year for 127.0.0.2, one after the other for 127.0.0.4, and no limit for anybody else.
const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    value: 127.0.0.2\n    \
                     rate_limit: { name: one, unit: year, requests_per_unit: 1 }\n  \
                     - key: remote_address\n    value: 127.0.0.4\n    \
                     rate_limit: { unit: minute, requests_per_unit: 1, algorithm: leaky_bucket, burst: 60 }\n";
const ONE: [u8; 4] = [127, 0, 0, 1];
const LIMITED: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];
const HELD: [u8; 4] = [127, 0, 0, 4];

async fn setup(levels: &str) -> Setup {
    Setup::new(&[("gateway.yaml", RULES)])
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api().await)
        .file(format!("levels: {levels}\n"))
}

/// A connection from an address of this machine.
async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    try_connect(from, to).await.unwrap()
}

/// The same; a reset may come before the connection is even known to be there.
async fn try_connect(from: [u8; 4], to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(from)), 0)).unwrap();
    socket.connect(to).await
}

/// How a connection ends that sends nothing.
async fn end(from: [u8; 4], to: SocketAddr) -> Option<io::ErrorKind> {
    let reading = async { try_connect(from, to).await?.read_to_end(&mut Vec::new()).await };
    reading.await.err().map(|error| error.kind())
}

/// Waits until so many connections were let in: another thread may accept what came first.
async fn until_open(server: &Server, count: u64) {
    eventually("they are let in", || async {
        metric(server, "levels.connections.open", "allowed").await >= count
    })
    .await;
}

/// The answer to a request on a connection, up to the end of its body or of the connection.
async fn ask_on(stream: &mut TcpStream) -> String {
    // Whoever is refused may find the connection closed.
    drop(stream.write_all(b"GET /cart HTTP/1.1\r\nhost: a\r\n\r\n").await);
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                return text;
            }
        }
        if stream.read_buf(&mut answer).await.unwrap_or(0) == 0 {
            return text;
        }
    }
}

async fn ask(from: [u8; 4], to: SocketAddr) -> String {
    ask_on(&mut connect(from, to).await).await
}

/// A sample of the metrics page.
async fn metric(server: &Server, level: &str, outcome: &str) -> u64 {
    let (_, page) = http::get(server.addresses.admin, "/metrics").await;
    let name = format!(r#"tollgate_level_decisions_total{{level="{level}",outcome="{outcome}"}} "#);
    page.lines().find_map(|line| line.strip_prefix(&name)).expect("every level is there").parse().unwrap()
}

/// Waits until what was denied most has this.
async fn until_in_history(server: &Server, query: &str, text: &str) {
    eventually("the history has it", || async {
        let path = format!("/v1/history/top?{query}&order=denied&last=1h");
        let (status, body) = http::get(server.addresses.admin, &path).await;
        let found: Value = serde_json::from_str(&body).unwrap_or_default();
        let names = found["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let denied = |own: &&Value| {
            own["name"].as_str().is_some_and(|name| name.contains(text)) && own["denied"].as_u64() > Some(0)
        };
        status == 200 && names.iter().any(|own| denied(&own))
    })
    .await;
}

#[tokio::test]
async fn who_opens_connections_too_fast_is_told_so_and_others_are_served() {
    let server = setup("{ connections: { per_second: 1, burst: 2 } }").await.start().await;
    let gateway = server.addresses.gateway.unwrap();
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(ask(ONE, gateway).await);
    }
    assert!(answers[..2].iter().all(|answer| answer.starts_with("HTTP/1.1 200")), "{answers:?}");
    let refused: Vec<&String> = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 429")).collect();
    assert!(refused.len() >= 10, "{answers:?}");
    assert!(refused[0].contains("127.0.0.1 opens too many connections"), "{refused:?}");
    assert!(ask(OTHER, gateway).await.starts_with("HTTP/1.1 200"));
    let count = u64::try_from(refused.len()).unwrap();
    assert_eq!(metric(&server, "levels.connections.per_second", "denied").await, count);
    // The history knows who it was.
    until_in_history(&server, "by=key&rule=levels.connections.per_second", "remote_address=127.0.0.1").await;
    server.stop().unwrap();
}

#[tokio::test]
async fn an_address_has_so_many_connections_open_and_no_more() {
    let server = setup("{ connections: { open: 2 } }").await.start().await;
    let gateway = server.addresses.gateway.unwrap();
    let (mut one, silent) = (connect(ONE, gateway).await, connect(ONE, gateway).await);
    until_open(&server, 2).await;
    // A connection may be used as often as it likes, whatever the rules say about its requests.
    for _ in 0..3 {
        assert!(ask_on(&mut one).await.starts_with("HTTP/1.1 200"));
    }
    let refused = ask(ONE, gateway).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("levels.connections.open"), "{refused}");
    assert!(ask(OTHER, gateway).await.starts_with("HTTP/1.1 200"));
    // A reload of the rules changes nothing about connections.
    replace_file(&server.rules_folder().join("gateway.yaml"), RULES.replace("name: one", "name: two"));
    eventually("the rules are read", || async {
        http::get(server.addresses.admin, "/rlconfig").await.1.contains("two")
            || http::get(server.addresses.admin, "/v1/rules").await.1.contains("two")
    })
    .await;
    assert!(ask(ONE, gateway).await.starts_with("HTTP/1.1 429"));
    drop(silent);
    eventually("there is room again", || async { ask(ONE, gateway).await.starts_with("HTTP/1.1 200") }).await;
    assert!(ask_on(&mut one).await.starts_with("HTTP/1.1 200"), "the first one is still there");
    until_in_history(&server, "by=key&rule=levels.connections.open", "remote_address=127.0.0.1").await;
    server.stop().unwrap();
}

#[tokio::test]
async fn http2_is_one_connection_however_many_requests_it_carries() {
    let server = setup("{ connections: { open: 1 } }").await.start().await;
    let gateway = server.addresses.gateway.unwrap();
    let io = hyper_util::rt::TokioIo::new(connect(ONE, gateway).await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    let task = tokio::spawn(connection);
    for _ in 0..5 {
        let request = hyper::Request::get(format!("http://{gateway}/")).body(String::new()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    }
    assert!(ask(ONE, gateway).await.starts_with("HTTP/1.1 429"));
    task.abort();
    eventually("there is room again", || async { ask(ONE, gateway).await.starts_with("HTTP/1.1 200") }).await;
}

#[tokio::test]
async fn behind_tls_whoever_has_too_many_is_reset_before_the_handshake() {
    let authority = Authority::new();
    let mut setup = setup("{ connections: { open: 1 } }").await;
    let own = authority.sign("localhost");
    for (name, text, variable) in [
        ("cert.pem", &own.cert, "TOLLGATE_GATEWAY_TLS_CERT"),
        ("key.pem", &own.key, "TOLLGATE_GATEWAY_TLS_KEY"),
    ] {
        std::fs::write(setup.path(name), text).unwrap();
        let path = setup.path(name).to_str().unwrap().to_owned();
        setup = setup.env(variable, path);
    }
    let server = setup.start().await;
    let gateway = server.addresses.gateway.unwrap();
    let held = secure::connect(gateway, &authority, None).await.expect("the first one gets in");
    assert_eq!(end(ONE, gateway).await, Some(io::ErrorKind::ConnectionReset));
    drop(held);
    eventually("there is room again", || async {
        secure::connect(gateway, &authority, None).await.is_some()
    })
    .await;
    // One that never shakes hands has its place until it goes.
    let admitted = metric(&server, "levels.connections.open", "allowed").await;
    let silent = connect(OTHER, gateway).await;
    until_open(&server, admitted + 1).await;
    assert_eq!(end(OTHER, gateway).await, Some(io::ErrorKind::ConnectionReset));
    drop(silent);
    server.stop().unwrap();
}

#[tokio::test]
async fn the_gateway_takes_so_many_requests_and_a_denied_flood_takes_none_of_them() {
    let server = setup("{ requests: { per_second: 1, burst: 8 } }").await.start().await;
    let gateway = server.addresses.gateway.unwrap();
    let mut flood = connect(LIMITED, gateway).await;
    assert!(ask_on(&mut flood).await.starts_with("HTTP/1.1 200"));
    for _ in 0..50 {
        let denied = ask_on(&mut flood).await;
        assert!(denied.starts_with("HTTP/1.1 429") && denied.contains(r#"["one"]"#), "{denied}");
    }
    let mut other = connect(OTHER, gateway).await;
    let mut answers = Vec::new();
    for _ in 0..40 {
        answers.push(ask_on(&mut other).await);
        if !answers.last().unwrap().contains("connection: close") {
            continue;
        }
        other = connect(OTHER, gateway).await;
    }
    let passed = answers.iter().take_while(|answer| answer.starts_with("HTTP/1.1 200")).count();
    assert!((7..40).contains(&passed), "{passed} of 40 passed");
    let denied = answers.iter().find(|answer| answer.starts_with("HTTP/1.1 429")).unwrap();
    assert!(
        denied.contains(r#"["levels.requests"]"#) && denied.contains("\r\nretry-after: 1\r\n"),
        "{denied}"
    );
    assert!(metric(&server, "levels.requests", "denied").await > 0);
    // It is about nobody in particular, so that there is a rule and no key.
    until_in_history(&server, "by=rule", "levels.requests").await;
}

/// Sixty are there, and one comes back each second: too few for all if those who left had kept theirs.
#[tokio::test]
async fn whoever_leaves_while_it_is_held_takes_none_of_them() {
    const HOLDERS: usize = 40;
    let levels = "{ requests: { per_second: 1, burst: 60 } }\ngateway: { max_wait: 2h }";
    let server = setup(levels).await.start().await;
    let gateway = server.addresses.gateway.unwrap();
    assert!(ask(HELD, gateway).await.starts_with("HTTP/1.1 200"));
    let mut held = Vec::new();
    for number in 0..HOLDERS {
        let mut client = connect(HELD, gateway).await;
        // Both ways through the gateway.
        let more = if number % 2 == 0 { "" } else { "te: trailers\r\n" };
        client.write_all(format!("GET /cart HTTP/1.1\r\nhost: a\r\n{more}\r\n").as_bytes()).await.unwrap();
        held.push(client);
    }
    eventually("they are held", || async { metric(&server, "levels.requests", "allowed").await == 41 }).await;
    drop(held);
    let question = r#"{"domain":"gateway","descriptors":[{"remote_address":"127.0.0.4"}]}"#;
    eventually("what they took is given back", || async {
        let (_, answer) = http::post(server.addresses.http, "/v1/peek", question).await;
        // Without the one that passed, unless that was a minute ago, and without the one that this asks about.
        [r#""remaining":59,"#, r#""remaining":60,"#].iter().any(|text| answer.contains(text))
    })
    .await;
    for number in 0..50 {
        let answer = ask(OTHER, gateway).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{number}: {answer}");
    }
}

#[tokio::test]
async fn nothing_is_refused_in_shadow_mode_and_all_of_it_is_counted() {
    let levels = "{ connections: { open: 1, per_second: 1 }, requests: { per_second: 1 } }";
    let server = setup(levels).await.env("SHADOW_MODE", "true").start().await;
    let gateway = server.addresses.gateway.unwrap();
    let _held = connect(ONE, gateway).await;
    until_open(&server, 1).await;
    for _ in 0..10 {
        assert!(ask(ONE, gateway).await.starts_with("HTTP/1.1 200"));
    }
    for level in ["levels.connections.open", "levels.connections.per_second", "levels.requests"] {
        assert!(metric(&server, level, "shadow_denied").await > 0, "{level}");
        assert_eq!(metric(&server, level, "denied").await, 0, "{level}");
    }
}

#[tokio::test]
async fn other_listeners_have_levels_if_they_are_named() {
    let levels = "{ connections: { open: 1, listeners: [http, resp] } }";
    let server = setup(levels).await.env("TOLLGATE_RESP", "127.0.0.1:0").without_waiting().start().await;
    let (http, resp) = (server.addresses.http, server.addresses.resp.unwrap());
    // They are counted together.
    let _held = connect(OTHER, http).await;
    until_open(&server, 1).await;
    assert!(ask(OTHER, http).await.starts_with("HTTP/1.1 429"));
    let mut told = String::new();
    connect(OTHER, resp).await.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("-ERR 127.0.0.3 has too many connections open"), "{told}");
    eventually("the gateway serves", || async {
        ask(OTHER, server.addresses.gateway.unwrap()).await.starts_with("HTTP/1.1 200")
    })
    .await;
}
