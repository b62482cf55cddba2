//! Requests that come in one piece, one after the other on a connection, as most do.
//!
//! They take a shorter way through the server than others, and nobody may notice.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{RULES, costing, one};
use crate::support::{DEADLINE, Server};

/// More headers than the short way takes.
const MANY_HEADERS: usize = 40;

/// A connection that stays.
struct RawClient(TcpStream);

impl RawClient {
    async fn at(server: &Server) -> Self {
        Self(TcpStream::connect(server.addresses.http).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// One answer, without its date.
    async fn hear(&mut self) -> String {
        let mut bytes = Vec::new();
        let hearing = async {
            while !is_whole(&bytes) {
                bytes.push(self.0.read_u8().await.expect("an answer comes whole"));
            }
        };
        timeout(DEADLINE, hearing).await.expect("it is answered in time");
        let text = String::from_utf8(bytes).unwrap();
        let kept = |line: &&str| !line.starts_with("date: ");
        text.split("\r\n").filter(kept).collect::<Vec<_>>().join("\n")
    }

    /// Whether the server has closed the connection without another word.
    async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        timeout(DEADLINE, self.0.read_to_end(&mut rest)).await.expect("it is closed in time").unwrap();
        rest.is_empty()
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() == length.parse::<usize>().unwrap()
}

fn asked(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn the_short_way_answers_with_the_same_bytes_as_the_long_one() {
    let (short, long) = (Server::with(RULES).await, Server::with(RULES).await);
    let (mut short, mut long) = (RawClient::at(&short).await, RawClient::at(&long).await);
    let many = "a: b\r\n".repeat(MANY_HEADERS);
    let waits = format!("[{},{}]", one("queue", "a"), one("queue", "a"));
    for (path, headers, body, expected) in [
        ("/v1/check", "content-type: application/json\r\n", one("team", "a"), "200 OK"),
        ("/v1/check", "connection: keep-alive\r\n", one("none", "a"), "200 OK"),
        ("/v1/peek", "", costing("team", "b", 3), "429 Too Many Requests"),
        ("/v1/report", "", costing("user_id", "a", 7), "200 OK"),
        ("/v1/refund", "", costing("project", "a", 1), "200 OK"),
        ("/v1/check", "", waits, "200 OK"),
        ("/v1/check", "", "[]".to_owned(), "200 OK"),
        ("/v1/check", "", String::new(), "400 Bad Request"),
        ("/v1/check", "", r#"{"domain":7}"#.to_owned(), "400 Bad Request"),
        ("/v1/check", "content-type: text/html\r\n", one("team", "a"), "415 Unsupported Media Type"),
    ] {
        short.say(&asked(path, headers, &body)).await;
        long.say(&asked(path, &format!("{headers}{many}"), &body)).await;
        let (one, other) = (short.hear().await, long.hear().await);
        assert_eq!(one, other, "{path} {body}");
        assert!(one.starts_with(&format!("HTTP/1.1 {expected}\n")), "{one}");
    }
}

#[tokio::test]
async fn a_connection_goes_on_whatever_is_asked_on_it() {
    let server = Server::with(RULES).await;
    let mut caller = RawClient::at(&server).await;
    // Two at once, and half of a third.
    let check = asked("/v1/check", "", &one("user_id", "a"));
    let (half, rest) = check.split_at(check.len() / 2);
    caller.say(&format!("{check}{check}{half}")).await;
    assert!(caller.hear().await.contains(r#""remaining":2"#));
    assert!(caller.hear().await.contains(r#""remaining":1"#));
    caller.say(rest).await;
    assert!(caller.hear().await.contains(r#""remaining":0"#));
    caller.say("GET /healthcheck HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(caller.hear().await.ends_with("\n\nOK"));
    caller.say(&check).await;
    assert!(caller.hear().await.starts_with("HTTP/1.1 429 "));
    caller.say(&asked("/v1/check", "connection: close\r\n", &one("user_id", "b"))).await;
    assert!(caller.hear().await.contains("\nconnection: close\n"));
    assert!(caller.is_closed().await);
}

#[tokio::test]
async fn a_server_that_ends_answers_what_has_come_and_closes() {
    let server = Server::with(RULES).await;
    let (mut busy, mut silent) = (RawClient::at(&server).await, RawClient::at(&server).await);
    busy.say(&asked("/v1/check", "", &one("team", "a"))).await;
    assert!(busy.hear().await.starts_with("HTTP/1.1 200 OK\n"));
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap().unwrap();
    assert!(busy.is_closed().await);
    assert!(silent.is_closed().await);
}
