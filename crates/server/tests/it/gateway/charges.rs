//! What an answer is charged, as `tollgate.yaml` says, on both stores.

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tollgate_testkit::RedisServer;

use crate::support::{Server, Setup, eventually, http};

const RULES: &str = "domain: shop\ndescriptors:\n  \
     - key: login\n    rate_limit: { unit: year, requests_per_unit: 2, algorithm: sliding_log }\n  \
     - key: api_key\n    rate_limit: { unit: year, requests_per_unit: 2, algorithm: token_bucket }\n  \
     - key: user\n    rate_limit: { unit: year, requests_per_unit: 100, algorithm: token_bucket }\n";
const MAPPING: &str = "mapping:\n  domain: shop\n  descriptors:\n    \
     - actions: [request_headers: { header_name: x-login, descriptor_key: login }]\n      \
     charge: { when: response, status: [401, 403] }\n    \
     - actions: [request_headers: { header_name: x-api-key, descriptor_key: api_key }]\n      \
     refund_on: [5xx]\n    \
     - actions: [request_headers: { header_name: x-user, descriptor_key: user }]\n      \
     cost: { from: json, field: usage.total_tokens, default: 1 }\n";

const FIRST_EVENT: &str = "data: {\"usage\":{\"total_tokens\":20}}\n\n";
const LAST_EVENTS: &str = "data: {\"usage\":{\"total_tokens\":21}}\n\ndata: [DONE]\n\n";

/// An API that answers with the status of the path, with a document or with events.
async fn api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            tokio::spawn(answer(listener.accept().await.unwrap().0));
        }
    });
    url
}

async fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap();
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    let events = "Content-Type: text/event-stream\r\n";
    let answer = match path {
        "/json" => format!(
            "{closing}Content-Type: application/json\r\nContent-Length: 30\r\n\r\n{{\"usage\":{{\"total_tokens\":  7 }}}}"
        ),
        "/events" => format!("{closing}{events}\r\n{FIRST_EVENT}{LAST_EVENTS}"),
        // More is told to come than does; or nothing more comes until the client goes.
        "/broken" | "/slow" => format!("{closing}{events}Content-Length: 9999\r\n\r\n{FIRST_EVENT}"),
        status => {
            let status = status.trim_start_matches('/');
            format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        }
    };
    stream.write_all(answer.as_bytes()).await.unwrap();
    if path == "/slow" {
        drop(stream.read(&mut [0]).await);
    }
}

/// Waits until so much is left: what is settled is not waited for.
async fn until_left(server: &Server, key: &str, expected: u64) {
    let question = format!(r#"{{"domain":"shop","descriptors":[{{"{key}":"a"}}],"cost":0}}"#);
    eventually(&format!("{expected} of {key} are left"), || async {
        let (_, body) = http::post(server.addresses.http, "/v1/peek", &question).await;
        let reply: Value = serde_json::from_str(&body).unwrap();
        reply["decisions"][0]["remaining"] == expected
    })
    .await;
}

async fn ask(server: &Server, path: &str, header: &str) -> u16 {
    http::get_with(server.addresses.gateway.unwrap(), path, &format!("{header}: a")).await.0
}

async fn start(redis: Option<&RedisServer>) -> Server {
    let mut setup = Setup::new(&[("shop.yaml", RULES)])
        .file(MAPPING)
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api().await);
    if let Some(redis) = redis {
        // Nothing is decided without it, however busy the machine is.
        setup = setup.env("REDIS_URL", format!("127.0.0.1:{}", redis.port())).env("REDIS_TIMEOUT", "10s");
    }
    setup.start().await
}

/// The server, on the memory store and on a Redis.
async fn on_both_stores(play: impl AsyncFn(&Server)) {
    let redis = RedisServer::start();
    for store in [None, Some(&redis)] {
        play(&start(store).await).await;
    }
}

#[tokio::test]
async fn only_failed_logins_count_on_both_stores() {
    on_both_stores(async |server| {
        for (path, left) in [("/200", 2), ("/200", 2), ("/401", 1), ("/302", 1), ("/500", 1), ("/403", 0)] {
            assert_eq!(ask(server, path, "x-login").await, path[1..].parse::<u16>().unwrap());
            until_left(server, "login", left).await;
        }
        assert_eq!(ask(server, "/200", "x-login").await, 429);
    })
    .await;
}

#[tokio::test]
async fn errors_of_the_api_are_free_on_both_stores() {
    on_both_stores(async |server| {
        for (path, left) in [("/500", 2), ("/503", 2), ("/404", 1), ("/500", 1), ("/200", 0)] {
            assert_eq!(ask(server, path, "x-api-key").await, path[1..].parse::<u16>().unwrap());
            until_left(server, "api_key", left).await;
        }
        assert_eq!(ask(server, "/500", "x-api-key").await, 429);
    })
    .await;
}

#[tokio::test]
async fn an_answer_costs_its_tokens_and_one_that_breaks_off_what_was_seen_of_it_on_both_stores() {
    on_both_stores(async |server| {
        assert_eq!(ask(server, "/json", "x-user").await, 200);
        until_left(server, "user", 100 - 7).await;
        // The last event that has the number counts.
        assert_eq!(ask(server, "/events", "x-user").await, 200);
        until_left(server, "user", 93 - 21).await;
        // The API breaks off.
        assert_eq!(ask(server, "/broken", "x-user").await, 200);
        until_left(server, "user", 72 - 20).await;
        // The client goes away in the middle.
        let mut client = TcpStream::connect(server.addresses.gateway.unwrap()).await.unwrap();
        client.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\nx-user: a\r\n\r\n").await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(FIRST_EVENT.as_bytes()) {
            assert!(client.read_buf(&mut seen).await.unwrap() > 0, "it ended");
        }
        drop(client);
        until_left(server, "user", 52 - 20).await;
        // No number is the default.
        assert_eq!(ask(server, "/404", "x-user").await, 404);
        until_left(server, "user", 31).await;
    })
    .await;
}
