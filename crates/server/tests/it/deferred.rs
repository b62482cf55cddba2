//! Requests over a limit that are taken with 202 and sent later.
//!
//! | module | what it shows |
//! |---|---|
//! | `bounds` | full queues, long bodies, expiry, upstreams that fail |
//! | `calls` | `/v1/defer`, and ways in that cannot defer |
//! | `short_way` | who still takes the gateway's short way |
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

mod bounds;
mod calls;
mod short_way;

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Server, Setup, eventually, http, replace_file};

const RULES: &str = "
domain: gateway
descriptors:
  - key: path
    value: /one
    descriptors:
      - { key: remote_address, rate_limit: { name: one, requests_per_unit: 1, unit: year, over_limit: defer } }
  - key: path
    value: /steady
    descriptors:
      - key: remote_address
        rate_limit: { name: steady, algorithm: token_bucket, requests_per_unit: 10, unit: second, burst: 1, over_limit: defer }
  - key: path
    value: /both
    descriptors:
      - key: remote_address
        rate_limits:
          - { name: later, algorithm: sliding_log, requests_per_unit: 1, unit: year, over_limit: defer }
          - { name: never, algorithm: sliding_log, requests_per_unit: 2, unit: year }
  - key: path
    value: /shadow
    descriptors:
      - key: remote_address
        shadow_mode: true
        rate_limit: { name: shadow, requests_per_unit: 1, unit: year, over_limit: defer }
";

/// An API that notes what arrives, and answers with 200, or as the body says: `503,404` has the first
/// attempt answered with 503 and all further ones with 404.
#[derive(Clone, Default)]
struct NotingApi(Arc<Mutex<Vec<String>>>);

impl NotingApi {
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, own) = (format!("http://{}", listener.local_addr().unwrap()), self.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(own.clone().serve(stream));
            }
        });
        url
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let length = loop {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            break head.len() + 4 + length.unwrap_or(0);
        };
        while bytes.len() < length && stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {}
        let status = {
            let (text, mut seen) = (String::from_utf8(bytes).unwrap(), self.0.lock());
            let body = text.split_once("\r\n\r\n").unwrap().1;
            let earlier = seen.iter().filter(|other| other.split_once("\r\n\r\n").unwrap().1 == body).count();
            let statuses: Vec<u16> = body.split(',').filter_map(|status| status.parse().ok()).collect();
            let status = statuses.get(earlier).or(statuses.last()).copied().filter(|status| *status >= 200);
            seen.push(text);
            status.unwrap_or(200)
        };
        let head =
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\nset-cookie: secret=1\r\nx-kept: yes\r\n");
        drop(stream.write_all(format!("{head}content-length: 4\r\n\r\ndone").as_bytes()).await);
    }

    fn seen(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn bodies(&self) -> Vec<String> {
        self.seen().iter().map(|text| text.split_once("\r\n\r\n").unwrap().1.to_owned()).collect()
    }
}

async fn setup(api: &NotingApi, rules: &str) -> Setup {
    Setup::new(&[("gateway.yaml", rules)])
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", api.start().await)
}

/// Starts it, and waits until it defers.
async fn start(setup: Setup) -> (Server, SocketAddr) {
    let server = setup.start().await;
    eventually("the queue is open", || async {
        http::get(server.addresses.admin, "/metrics").await.1.contains("tollgate_deferred_waiting ")
    })
    .await;
    let gateway = server.addresses.gateway.unwrap();
    (server, gateway)
}

/// Posts to the gateway: the status, and the answer.
async fn order(gateway: SocketAddr, path: &str, body: &str) -> (u16, Value) {
    let (status, told) = http::post(gateway, path, body).await;
    (status, serde_json::from_str(&told).unwrap_or(Value::Null))
}

async fn state(address: SocketAddr, told: &Value) -> Value {
    let (_, body) = http::get(address, told["location"].as_str().unwrap()).await;
    serde_json::from_str(&body).unwrap()
}

async fn until(address: SocketAddr, told: &Value, status: &str) -> Value {
    eventually(status, || async { state(address, told).await["status"] == status }).await;
    state(address, told).await
}

#[tokio::test]
async fn a_request_over_the_limit_is_sent_later_without_credentials_and_its_answer_kept() {
    let api = NotingApi::default();
    let keep = setup(&api, RULES).await.env("TOLLGATE_DEFER_KEEP_HEADERS", "X-Api-Key");
    let (server, gateway) = start(keep).await;
    let head = "POST /steady?q=1 HTTP/1.1\r\nhost: shop\r\nconnection: close\r\nauthorization: secret\r\n\
                cookie: a=secret\r\nx-api-key: kept\r\nidempotency-key: mine\r\nx-a: 1\r\ncontent-length: 6\r\n\r\nsecond";
    // The first passes; on a machine that is busy more may.
    let answer = loop {
        let answer = http::raw(gateway, head.as_bytes()).await;
        if !answer.starts_with("HTTP/1.1 200 ") {
            break answer;
        }
    };
    let (told_head, body) = answer.split_once("\r\n\r\n").unwrap();
    let told: Value = serde_json::from_str(body).unwrap();
    let location = told["location"].as_str().unwrap();
    assert!(
        told_head.starts_with("HTTP/1.1 202 ") && told_head.contains(&format!("location: {location}\r\n"))
    );
    assert!(told_head.contains("retry-after: 1\r\n") && told["rule"] == "steady", "{answer}");
    let done = until(gateway, &told, "done").await;
    assert_eq!(done, state(server.addresses.http, &told).await, "both listeners tell it");
    let response = &done["response"];
    assert_eq!((&response["status"], &response["body"]), (&Value::from(200), &Value::from("done")));
    assert!(
        !response.to_string().contains("secret") && response.to_string().contains("x-kept"),
        "{response}"
    );
    let sent = api.seen().pop().unwrap();
    assert!(sent.starts_with("POST /steady?q=1 HTTP/1.1\r\n") && sent.ends_with("\r\n\r\nsecond"), "{sent}");
    for kept in
        ["host: shop", "x-api-key: kept", "idempotency-key: mine", "x-a: 1", "x-tollgate-verdict: delay"]
    {
        assert!(sent.contains(kept), "{kept}: {sent}");
    }
    assert!(!sent.contains("secret"), "{sent}");
    let summary = || async {
        let (_, summary) = http::get(server.addresses.admin, "/v1/history/summary?last=1h").await;
        serde_json::from_str::<Value>(&summary).unwrap()
    };
    eventually("each is counted once", || async { summary().await["total"] == api.seen().len() }).await;
    let summary = summary().await;
    assert_eq!((&summary["delayed"], &summary["denied"]), (&1.into(), &0.into()), "{summary}");
    let (status, problem) = http::get(gateway, &format!("/v1/deferred/{}", "0".repeat(32))).await;
    assert!(status == 404 && problem.contains("no request with this id is known"), "{problem}");
}

#[tokio::test]
async fn requests_of_one_key_arrive_in_their_order_and_at_the_rate_of_the_limit() {
    let api = NotingApi::default();
    // Far apart, because each has a connection of its own and could overtake one that is held up.
    let slow = RULES.replace("requests_per_unit: 10, unit: second", "requests_per_unit: 2, unit: second");
    let (_server, gateway) = start(setup(&api, &slow).await).await;
    let started = tokio::time::Instant::now();
    for number in 0..5 {
        let (status, told) = order(gateway, "/steady", &number.to_string()).await;
        assert!(status == 202 || status == 200, "{status} {told}");
    }
    eventually("all arrive", || async { api.bodies().len() == 5 }).await;
    // The first passes at once, and the others take half a second each.
    assert!(started.elapsed().as_millis() >= 1_990, "{:?}", started.elapsed());
    let order: Vec<u32> = api.bodies().iter().map(|body| body.parse().unwrap()).collect();
    assert_eq!(order, (0..5).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_limit_that_does_not_defer_denies_and_one_in_shadow_mode_defers_nothing() {
    let api = NotingApi::default();
    let (_server, gateway) = start(setup(&api, RULES).await).await;
    assert_eq!(order(gateway, "/both", "").await.0, 200);
    let (status, waits) = order(gateway, "/both", "").await;
    assert_eq!((status, &waits["rule"]), (202, &Value::from("later")), "it took nothing of the other limit");
    let shadow = [order(gateway, "/shadow", "").await.0, order(gateway, "/shadow", "").await.0];
    assert_eq!(shadow, [200, 200]);
    let rules = RULES.replace("requests_per_unit: 2, unit: year", "requests_per_unit: 1, unit: year");
    let (_server, gateway) = start(setup(&api, &rules).await).await;
    assert_eq!(order(gateway, "/both", "").await.0, 200);
    let (status, denied) = order(gateway, "/both", "").await;
    assert_eq!(
        (status, &denied["violated-policies"]),
        (429, &serde_json::json!(["later", "never"])),
        "{denied}"
    );
    assert_eq!(http::get(gateway, "/one").await.0, 200);
    let upgrade = "GET /one HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let head = http::raw(gateway, format!("{upgrade}{last}").as_bytes()).await;
    assert!(head.starts_with("HTTP/1.1 429 "), "what cannot be sent later is denied: {head}");
}

#[tokio::test]
async fn what_waits_survives_a_restart_and_goes_by_the_rules_of_a_reload() {
    let (api, data) = (NotingApi::default(), tempfile::tempdir().unwrap());
    let (server, gateway) = start(setup(&api, RULES).await.data(data.path())).await;
    assert_eq!(order(gateway, "/one", "1").await.0, 200);
    let (status, told) = order(gateway, "/one", "2").await;
    assert_eq!(status, 202);
    server.stop().unwrap();
    let (server, gateway) = start(setup(&api, RULES).await.data(data.path())).await;
    assert_eq!(state(gateway, &told).await["status"], "waiting");
    let (status, third) = order(gateway, "/one", "3").await;
    assert_eq!(status, 202, "the counter came back, too");
    let free = RULES.replace(
        "requests_per_unit: 1, unit: year, over_limit",
        "requests_per_unit: 9, unit: second, over_limit",
    );
    replace_file(&server.rules_folder().join("gateway.yaml"), free);
    server.control().reload();
    until(gateway, &told, "done").await;
    until(gateway, &third, "done").await;
    // Both were let go at once, each on a connection of its own, so either may arrive first.
    let mut bodies = api.bodies();
    bodies.sort_unstable();
    assert_eq!(bodies, ["1", "2", "3"]);
}
