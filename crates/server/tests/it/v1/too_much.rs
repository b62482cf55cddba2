//! Bounds on bodies, batches, lengths and time.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_server::bounds::{
    BATCH_DESCRIPTORS_MAX, BATCH_MAX, DESCRIPTORS_MAX, ENTRIES_MAX, JSON_BODY_MAX, KEY_MAX, VALUE_MAX,
};

use super::{RULES, one, post, send};
use crate::support::{DEADLINE, Server};

/// A request with so many descriptors.
fn wide(descriptors: usize) -> String {
    let each = vec![r#"{"none":"x"}"#; descriptors].join(",");
    format!(r#"{{"domain":"shop","descriptors":[{each}]}}"#)
}

/// A request with one descriptor of so many entries.
fn deep(entries: usize) -> String {
    let each: Vec<String> = (0..entries).map(|index| format!(r#""k{index}":"v""#)).collect();
    format!(r#"{{"domain":"shop","descriptors":[{{{}}}]}}"#, each.join(","))
}

fn batch(requests: &str, count: usize) -> String {
    format!("[{}]", vec![requests; count].join(","))
}

#[tokio::test]
async fn what_is_at_a_bound_passes_and_what_is_beyond_is_told_the_bound() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    let padded = |length: usize| {
        let request = one("none", "x");
        format!("{request}{}", " ".repeat(length - request.len()))
    };
    let text = |field: &str, length: usize| {
        let [domain, key, value] = ["domain", "key", "value"].map(|own| match own == field {
            true => "x".repeat(length),
            false => "x".to_owned(),
        });
        format!(r#"{{"domain":"{domain}","descriptors":[{{"{key}":"{value}"}}]}}"#)
    };
    let quarter = wide(BATCH_DESCRIPTORS_MAX / 4);
    let cases = [
        ("a batch", batch(&one("none", "x"), BATCH_MAX), batch(&one("none", "x"), BATCH_MAX + 1), 400),
        ("descriptors", wide(DESCRIPTORS_MAX), wide(DESCRIPTORS_MAX + 1), 400),
        ("entries", deep(ENTRIES_MAX), deep(ENTRIES_MAX + 1), 400),
        ("a domain", text("domain", KEY_MAX), text("domain", KEY_MAX + 1), 400),
        ("a key", text("key", KEY_MAX), text("key", KEY_MAX + 1), 400),
        ("a value", text("value", VALUE_MAX), text("value", VALUE_MAX + 1), 400),
        ("a body", padded(JSON_BODY_MAX), padded(JSON_BODY_MAX + 1), 413),
        (
            "descriptors of a batch",
            batch(&quarter, 4),
            format!("[{}]", [&[quarter.as_str(); 4][..], &[&wide(1)]].concat().join(",")),
            400,
        ),
    ];
    for (what, within, beyond, status) in cases {
        let (came, reply) = post(http, "/v1/peek", &within).await;
        assert_eq!(came, 200, "{what}: {reply}");
        let (came, problem) = post(http, "/v1/peek", &beyond).await;
        assert_eq!(came, status, "{what}: {problem}");
        let told = format!("{} {}", problem["detail"], problem["fix"]);
        assert!(told.contains("at most "), "{what}: {problem}");
        // What is too long is not sent back.
        assert!(problem.to_string().len() < 400, "{what}: {problem}");
    }
}

#[tokio::test]
async fn json_that_nests_without_end_is_refused() {
    let server = Server::with(RULES).await;
    for body in ["[".repeat(500_000), format!(r#"{{"descriptors":{}"#, "[".repeat(500_000))] {
        assert_eq!(post(server.addresses.http, "/v1/check", &body).await.0, 400);
    }
    assert_eq!(post(server.addresses.http, "/v1/check", &one("team", "a")).await.0, 200);
}

#[tokio::test]
async fn a_key_of_too_many_entries_is_refused() {
    let server = Server::with(RULES).await;
    let query = |entries: usize| {
        let pairs: Vec<String> = (0..entries).map(|index| format!("k{index}=v")).collect();
        format!("GET /v1/keys?domain=shop&{}", pairs.join("&"))
    };
    assert_eq!(send(server.addresses.admin, &query(ENTRIES_MAX)).await.0, 200);
    assert_eq!(send(server.addresses.admin, &query(ENTRIES_MAX + 1)).await.0, 400);
}

#[tokio::test]
async fn who_sends_too_slowly_is_cut_off_and_charged_nothing() {
    let server = Server::with(RULES).await;
    let stream = TcpStream::connect(server.addresses.http).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let body = one("team", "slow");
    let (most, _) = body.split_at(body.len() - 1);
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{most}", body.len());
    write.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = read.read_to_string(&mut answer);
    tokio::time::timeout(DEADLINE, read).await.expect("it is cut off in time").unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains(r#""fix":"send the body faster""#), "{answer}");
    drop(write);
    let (_, reply) = post(server.addresses.http, "/v1/check", &one("team", "slow")).await;
    assert_eq!(super::short(&reply), "allow team 1");
}
