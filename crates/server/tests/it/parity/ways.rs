//! The ways in, each with a caller of its own.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tollgate_core::{Entry, Time};
use tollgate_limiter::overrides::{OverrideEffect, OverrideEntry, OverrideTable};
use tollgate_limiter::{Limiter, MemoryStore, NoSink, SystemClock};
use tollgate_settings::{ConfigFile, Flags, Settings};
use tollgate_tower::TollgateLayer;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::ServerMode;
use super::script::{OVERRIDES, Scene, ScriptStep};
use crate::support::http::{self, post};
use crate::support::wire::{OVER, ask, descriptor, request, with_hits};
use crate::support::{Client, Server};

/// What a caller gets to know.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) verdict: String,
    /// What remains of the limit that is told; none if none is.
    pub(super) remaining: Option<u64>,
    /// None if the way cannot tell.
    pub(super) is_soft: Option<bool>,
    /// When a denied one may come again, in seconds; none if that is not told.
    pub(super) retry_after: Option<u64>,
}

/// A way in.
pub(super) struct Way {
    pub(super) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Grpc,
    Json,
    Check,
    Resp,
    Authz,
    Gateway,
    Tower,
}

pub(super) const WAYS: &[Way] = &[
    Way { name: "gRPC", kind: Kind::Grpc },
    Way { name: "/json", kind: Kind::Json },
    Way { name: "/v1/check", kind: Kind::Check },
    Way { name: "RESP", kind: Kind::Resp },
    Way { name: "/v1/authz", kind: Kind::Authz },
    Way { name: "gateway", kind: Kind::Gateway },
    Way { name: "tower", kind: Kind::Tower },
];

impl Way {
    /// Whether it can say all that a scene has.
    pub(super) fn can(&self, scene: &Scene, server: ServerMode) -> bool {
        match self.kind {
            Kind::Grpc | Kind::Json | Kind::Check => true,
            Kind::Resp => scene.steps.iter().all(|step| step.descriptors.len() == 1),
            Kind::Authz | Kind::Gateway | Kind::Tower => scene.steps.iter().all(|step| {
                let has_cost = step.cost == 1 || step.is_settled_later() && self.settles_later();
                has_cost && server.expected(step).verdict != "delay"
            }),
        }
    }

    /// Whether it sees answers, and charges by them.
    pub(super) fn settles_later(&self) -> bool {
        matches!(self.kind, Kind::Gateway | Kind::Tower)
    }

    /// Whoever asks.
    pub(super) async fn caller(&self, server: &Server, mode: ServerMode) -> Caller {
        let http = server.addresses.http;
        match self.kind {
            Kind::Grpc => Caller::Grpc(server.client().await),
            Kind::Json => Caller::Json(http),
            Kind::Check => Caller::Check(http),
            Kind::Resp => {
                let client = redis::Client::open(format!(
                    "redis://{}/?protocol=resp3",
                    server.addresses.resp.unwrap()
                ))
                .unwrap();
                Caller::Resp(client.get_multiplexed_async_connection().await.unwrap())
            }
            Kind::Authz => Caller::Authz(http),
            Kind::Gateway => Caller::Gateway(server.addresses.gateway.unwrap()),
            Kind::Tower => Caller::Tower(layer(mode)),
        }
    }
}

/// Whoever asks.
pub(super) enum Caller {
    Grpc(Client),
    Json(SocketAddr),
    Check(SocketAddr),
    Resp(MultiplexedConnection),
    Authz(SocketAddr),
    Gateway(SocketAddr),
    Tower(TollgateLayer),
}

impl Caller {
    /// Asks, and tells what came of it.
    pub(super) async fn ask(&mut self, step: &ScriptStep) -> Seen {
        match self {
            Self::Grpc(client) => grpc(client, step).await,
            Self::Json(address) => json(*address, step).await,
            Self::Check(address) => check(*address, step).await,
            Self::Resp(connection) => resp(connection, step).await,
            Self::Authz(address) => authz(*address, step).await,
            Self::Gateway(address) => gateway(*address, step).await,
            Self::Tower(layer) => tower(layer, step).await,
        }
    }
}

/// What the headers say, by a function that finds one.
fn by_headers<'a>(is_refused: bool, find: impl Fn(&str) -> Option<&'a str>) -> Seen {
    let verdict = match is_refused {
        true => "deny",
        false if find("x-ratelimit-wait-ms").is_some() => "delay",
        false => "allow",
    };
    Seen {
        verdict: verdict.to_owned(),
        remaining: find("x-ratelimit-remaining").map(|text| text.parse().unwrap()),
        is_soft: Some(find("x-ratelimit-soft") == Some("true")),
        retry_after: find("retry-after").map(|text| text.parse().unwrap()),
    }
}

async fn grpc(client: &mut Client, step: &ScriptStep) -> Seen {
    // A cost of 0 for the whole request is one of 1 on this wire.
    let descriptors = step.descriptors.iter().map(|entries| with_hits(step.cost, descriptor(entries)));
    let asked = RateLimitRequest { hits_addend: 1, ..request("shop", descriptors.collect()) };
    let response = ask(client, asked).await;
    assert_eq!(response.statuses.len(), step.descriptors.len());
    by_headers(response.overall_code == OVER, |name| {
        let mut own = response.response_headers_to_add.iter();
        own.find(|header| header.key.eq_ignore_ascii_case(name)).map(|header| header.value.as_str())
    })
}

async fn json(address: SocketAddr, step: &ScriptStep) -> Seen {
    let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": value });
    let of = |entries: &&[(&str, &str)]| {
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        json!({ "entries": entries, "hits_addend": step.cost })
    };
    let descriptors: Vec<Value> = step.descriptors.iter().map(of).collect();
    let asked = json!({ "domain": "shop", "descriptors": descriptors });
    let (status, body) = post(address, "/json", &asked.to_string()).await;
    assert!([200, 429].contains(&status), "{status} {body}");
    let reply: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(reply["overallCode"] == "OVER_LIMIT", status == 429, "{body}");
    let none = Vec::new();
    let headers = reply["responseHeadersToAdd"].as_array().unwrap_or(&none);
    by_headers(status == 429, |name| {
        let is = |header: &&Value| header["key"].as_str().unwrap().eq_ignore_ascii_case(name);
        headers.iter().find(is).map(|header| header["value"].as_str().unwrap())
    })
}

async fn check(address: SocketAddr, step: &ScriptStep) -> Seen {
    // By hand, since the order of entries matters and a map would sort them.
    let of = |entries: &&[(&str, &str)]| {
        let entries: Vec<String> =
            entries.iter().map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
        format!("{{{}}}", entries.join(","))
    };
    let descriptors: Vec<String> = step.descriptors.iter().map(of).collect();
    let (descriptors, cost) = (descriptors.join(","), step.cost);
    let asked = format!(r#"{{"domain":"shop","descriptors":[{descriptors}],"cost":{cost}}}"#);
    let (status, body) = post(address, "/v1/check", &asked).await;
    let reply: Value = serde_json::from_str(&body).unwrap();
    let verdict = reply["verdict"].as_str().unwrap().to_owned();
    assert_eq!(status, if verdict == "deny" { 429 } else { 200 }, "{body}");
    let decisions = reply["decisions"].as_array().unwrap();
    let told = reply.get("binding").and_then(|index| decisions.get(usize::try_from(index.as_u64()?).ok()?));
    assert!(told.is_none_or(|decision| decision["shadow"] == false), "{body}");
    // A list has no numbers to tell.
    let is_exception =
        |decision: &&Value| ["deny_list", "override"].map(Value::from).contains(&decision["reason"]);
    let told = told.filter(|decision| !is_exception(decision));
    let is_soft = |decision: &Value| decision["soft"] == true && decision["shadow"] == false;
    Seen {
        remaining: told.map(|decision| decision["remaining"].as_u64().unwrap()),
        is_soft: Some(verdict != "deny" && decisions.iter().any(is_soft)),
        retry_after: reply["retry_after_ms"].as_u64().map(|ms| ms.div_ceil(1_000)),
        verdict,
    }
}

async fn resp(connection: &mut MultiplexedConnection, step: &ScriptStep) -> Seen {
    let mut command = redis::cmd("TOLLGATE.CHECK");
    command.arg("shop");
    for (key, value) in step.descriptors[0] {
        command.arg(key).arg(value);
    }
    command.arg("COST").arg(step.cost);
    let mut reply: HashMap<String, redis::Value> = command.query_async(connection).await.unwrap();
    let mut field = |name| reply.remove(name).unwrap_or(redis::Value::Nil);
    Seen {
        verdict: redis::from_redis_value(field("verdict")).unwrap(),
        remaining: redis::from_redis_value(field("remaining")).unwrap(),
        is_soft: Some(field("soft") == redis::Value::Boolean(true)),
        retry_after: redis::from_redis_value::<Option<u64>>(field("retry_after_ms"))
            .unwrap()
            .map(|ms| ms.div_ceil(1_000)),
    }
}

async fn authz(address: SocketAddr, step: &ScriptStep) -> Seen {
    let head = head(address, "/v1/authz", step).await;
    let is_refused = head.starts_with("HTTP/1.1 429");
    let verdict = find(&head, "x-tollgate-verdict");
    assert_eq!(verdict, Some(if is_refused { "deny" } else { "allow" }), "{head}");
    by_headers(is_refused, |name| find(&head, name))
}

async fn gateway(address: SocketAddr, step: &ScriptStep) -> Seen {
    let head = head(address, "/", step).await;
    by_headers(head.starts_with("HTTP/1.1 429"), |name| find(&head, name))
}

/// The head of the answer to a request with the entries in its headers, and with what its answer is
/// to cost.
async fn head(address: SocketAddr, path: &str, step: &ScriptStep) -> String {
    let headers = step.descriptors.iter().copied().flatten();
    let headers: String = headers.map(|(key, value)| format!("x-{key}: {value}\r\n")).collect();
    let cost = step.cost;
    let asked =
        format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-cost: {cost}\r\n{headers}\r\n");
    let answer = http::raw(address, asked.as_bytes()).await;
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 429") || head.starts_with("HTTP/1.1 200"), "{head}");
    head.to_owned()
}

fn find<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// An API whose answers cost what is asked for; where it is.
pub(super) async fn api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
            let head = String::from_utf8(head).unwrap();
            let cost = find(&head, "x-cost").unwrap_or("0");
            let answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\nx-cost: {cost}\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

/// The layer with the rules and the mapping of the servers.
/// Makes an override on a server.
pub(super) async fn bend(server: &Server, key: &str, value: &str, limit: &str) {
    let body = format!(
        r#"{{"domain":"shop","descriptor":{{"{key}":"{value}"}},"limit":{limit},"expires_in_s":3600,"reason":"parity","who":"script"}}"#
    );
    let head = "PUT /v1/overrides HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json";
    let length = body.len();
    let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
    let (status, answer) = http::request(server.addresses.admin, &request).await;
    assert_eq!(status, 200, "{answer}");
}

/// The same for a limiter of one's own.
fn override_table() -> OverrideTable {
    let mut table = OverrideTable::default();
    for (key, value, limit) in OVERRIDES {
        let effect = match *limit {
            r#""deny""# => OverrideEffect::Deny,
            r#""unlimited""# => OverrideEffect::Unlimited,
            count => OverrideEffect::Limit(count.parse().unwrap()),
        };
        let entry = OverrideEntry { rule: None, effect, until: Time::MAX };
        table.insert("shop", &[Entry { key, value }], entry);
    }
    table
}

fn layer(mode: ServerMode) -> TollgateLayer {
    let rules = tollgate_rules::SourceFile { name: "rules.yaml".into(), text: super::RULES.into() };
    let rules = tollgate_rules::load(vec![rules], &tollgate_rules::Options::default()).unwrap().rules;
    let environment = [("TOLLGATE_GATEWAY", "127.0.0.1:0"), ("TOLLGATE_UPSTREAM", "http://127.0.0.1:1")];
    let environment: HashMap<String, String> =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let file = ConfigFile::parse("tollgate.yaml", super::SETTINGS).unwrap();
    let (settings, _) = Settings::resolve(&Flags::default(), &environment, Some(&file)).unwrap();
    let limiter = Limiter::with(rules, MemoryStore::default(), SystemClock::new(), NoSink);
    let limiter = limiter.with_all_shadow(mode == ServerMode::Shadow);
    limiter.replace_overrides(override_table());
    TollgateLayer::new(Arc::new(limiter), settings.mapping.unwrap().mapping)
}

async fn tower(layer: &TollgateLayer, step: &ScriptStep) -> Seen {
    let service = layer.layer(service_fn(|request: Request<()>| async move {
        let mut response = Response::new(http_body_util::Empty::<Bytes>::new());
        response.headers_mut().extend(request.headers().get("x-cost").map(|cost| (COST, cost.clone())));
        Ok::<_, Infallible>(response)
    }));
    let mut request = Request::new(());
    request.headers_mut().insert(COST, step.cost.into());
    for (key, value) in step.descriptors.iter().copied().flatten() {
        let name: HeaderName = format!("x-{key}").parse().unwrap();
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let response = service.oneshot(request).await.unwrap();
    let headers: &HeaderMap = response.headers();
    by_headers(response.status() == 429, |name| headers.get(name).map(|value| value.to_str().unwrap()))
}

const COST: HeaderName = HeaderName::from_static("x-cost");
