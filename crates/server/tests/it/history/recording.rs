//! What is counted: by every interface, under which names, with which outcome.

use serde_json::json;

use super::{RULES, asked, row, top, v1};
use crate::resp::support::{Caller, command};
use crate::support::http::{get_with, post, request};
use crate::support::wire::ask_one;
use crate::support::{Server, Setup};

#[tokio::test]
async fn every_interface_counts() {
    let server = Setup::new(&[("rules.yaml", RULES)])
        .env("TOLLGATE_RESP", "127.0.0.1:0")
        .file(
            "mapping:\n  domain: shop\n  trusted_proxies: [127.0.0.1]\n  descriptors:\n    \
             - [path: { templates: [\"/users/{id}\"] }]\n",
        )
        .start()
        .await;
    let grpc = &mut server.client().await;
    ask_one(grpc, "shop", &[("user_id", "grpc")]).await;
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user_id","value":"json"}]}]}"#;
    post(server.addresses.http, "/json", body).await;
    v1(&server, "/v1/check", r#"{"domain":"shop","descriptors":[{"user_id":"v1"}]}"#, 1).await;
    let mut resp = Caller::new(&server).await;
    for line in ["TOLLGATE.CHECK shop user_id resp", "CL.THROTTLE brought 1 1 60"] {
        resp.send(&command(line)).await;
        resp.hear(5).await;
    }
    for path in ["/users/42", "/users/7?page=2", "/users/7"] {
        let header = format!("x-forwarded-uri: {path}\r\nx-forwarded-method: GET");
        assert_eq!(get_with(server.addresses.http, "/v1/authz", &header).await.0, 200);
    }
    let keys = top(&server, "key").await;
    let expected = [
        row("path=/users/{id}", 3, 0),
        row("brought", 1, 0),
        row("user_id=grpc", 1, 0),
        row("user_id=json", 1, 0),
        row("user_id=resp", 1, 0),
        row("user_id=v1", 1, 0),
    ];
    assert_eq!(keys, expected);
    assert_eq!(top(&server, "route").await, [row("/users/{id}", 3, 0)]);
    let rules = [row("per_user", 4, 0), row("per_path", 3, 0), row("throttle", 1, 0)];
    assert_eq!(top(&server, "rule").await, rules);
    let summary = asked(&server, "/v1/history/summary?last=1h").await;
    assert_eq!((&summary["total"], &summary["allowed"]), (&json!(8), &json!(8)));
}

#[tokio::test]
async fn a_key_belongs_to_its_rule_and_a_rule_to_its_domain() {
    let rules = |domain: &str, label: &str| {
        format!(
            "domain: {domain}\ndescriptors:\n  - key: user_id\n    rate_limit: \
             {{ name: {label}, requests_per_unit: 1, unit: year }}\n"
        )
    };
    let files =
        [("a", "shared"), ("b", "shared"), ("c", "alone")].map(|(domain, label)| rules(domain, label));
    let [a, b, c] = files.each_ref().map(String::as_str);
    let server = Setup::new(&[("a.yaml", a), ("b.yaml", b), ("c.yaml", c)]).start().await;
    for (domain, times) in [("a", 3), ("b", 2), ("c", 1)] {
        let body = format!(r#"{{"domain":"{domain}","descriptors":[{{"user_id":"x"}}]}}"#);
        v1(&server, "/v1/check", &body, times).await;
    }
    let rows = async |query: &str| asked(&server, &format!("/v1/history/top?{query}")).await["rows"].clone();
    let [a, b, c] = [("a", "shared", 3, 2), ("b", "shared", 2, 1), ("c", "alone", 1, 0)];
    let rule = |(domain, name, total, denied)| json!({"name": name, "domain": domain, "total": total, "denied": denied});
    assert_eq!(rows("by=rule").await, json!([a, b, c].map(rule)));
    let key = |(domain, rule, total, denied)| json!({"name": "user_id=x", "domain": domain, "rule": rule, "total": total, "denied": denied});
    assert_eq!(rows("by=key").await, json!([a, b, c].map(key)), "no row is a sum over rules");
    assert_eq!(rows("by=key&domain=b").await, json!([key(b)]));
    assert_eq!(rows("by=key&rule=shared").await, json!([key(a), key(b)]));
    let curves = asked(&server, "/v1/history/series?by=key&name=user_id=x&outcome=denied").await;
    let domains: Vec<_> = curves["series"].as_array().unwrap().iter().map(|curve| &curve["domain"]).collect();
    assert_eq!(domains, ["a", "b"]);
    let query = "/prometheus/api/v1/query?query=sum(tollgate_key_decisions_total{domain=\"b\"})";
    let sum = asked(&server, &query.replace('"', "%22")).await;
    assert_eq!(sum["data"]["result"][0]["value"][1], "2");
    let domains = asked(&server, "/prometheus/api/v1/label/domain/values").await;
    assert_eq!(domains["data"], json!(["a", "b", "c"]));
}

#[tokio::test]
async fn every_outcome_is_told_apart_and_what_is_no_traffic_is_not_counted() {
    let server = Server::with(RULES).await;
    let body = |key: &str| format!(r#"{{"domain":"shop","descriptors":[{{"{key}":"x"}}]}}"#);
    assert_eq!(v1(&server, "/v1/check", &body("user_id"), 3).await, [200, 200, 429]);
    v1(&server, "/v1/peek", &body("user_id"), 2).await;
    v1(&server, "/v1/refund", &body("user_id"), 1).await;
    v1(&server, "/v1/check", r#"{"domain":"shop","descriptors":[{"user_id":"x"}],"cost":0}"#, 1).await;
    v1(&server, "/v1/report", &body("user_id"), 1).await;
    v1(&server, "/v1/check", &body("dark"), 2).await;
    v1(&server, "/v1/check", &body("slow"), 2).await;
    v1(&server, "/v1/check", &body("kind"), 2).await;
    v1(&server, "/v1/check", &body("unknown"), 1).await;
    let summary = asked(&server, "/v1/history/summary").await;
    // Allowed: two checks and a report of a user, one of each other kind, and what no rule knows.
    let told = ["total", "allowed", "soft", "delayed", "denied", "shadow_denied", "degraded"]
        .map(|name| summary[name].as_u64().unwrap());
    assert_eq!(told, [11, 7, 1, 1, 1, 1, 0]);
    let rules = asked(&server, "/v1/history/series?by=rule&name=in_the_dark").await;
    let outcomes: Vec<_> = rules["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|curve| (&curve["outcome"], &curve["total"]))
        .collect();
    assert_eq!(outcomes, [(&json!("allowed"), &json!(1)), (&json!("shadow_denied"), &json!(1))]);
}

#[tokio::test]
async fn routes_come_from_the_entries_that_settings_name_by_template() {
    let file = "history: { route_keys: [page, path], templates: [\"/users/{id}\", \"/files/{*rest}\"] }";
    let server = Setup::new(&[("rules.yaml", RULES)]).file(file).start().await;
    let descriptors = [
        r#"[{"path":"/users/1"}]"#,
        r#"[{"user_id":"a"},{"path":"/users/2?x=y"}]"#,
        r#"[{"path":"/files/a/b"}]"#,
        r#"[{"page":"start","path":"/users/3"}]"#,
        r#"[{"path":"//cart/./list"}]"#,
        r#"[{"route":"/users/4"}]"#,
    ];
    for descriptors in descriptors {
        let body = format!(r#"{{"domain":"shop","descriptors":{descriptors}}}"#);
        v1(&server, "/v1/check", &body, 1).await;
    }
    let expected =
        [row("/users/{id}", 2, 0), row("/cart/list", 1, 0), row("/files/{*rest}", 1, 0), row("start", 1, 0)];
    assert_eq!(top(&server, "route").await, expected);
    let all = asked(&server, "/v1/history/top?by=route").await;
    assert_eq!(all["other"], json!({"total": 1, "denied": 0}), "what has no route is among the others");
}

#[tokio::test]
async fn keys_are_hashed_or_left_out_if_settings_say_so() {
    for (keys, names) in [("hashed", 1), ("off", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let server = Setup::new(&[("rules.yaml", RULES)])
            .data(folder.path())
            .env("TOLLGATE_HISTORY_KEYS", keys)
            .env("TOLLGATE_HISTORY_SALT", "salt")
            .start()
            .await;
        v1(&server, "/v1/check", r#"{"domain":"shop","descriptors":[{"user_id":"secret"}]}"#, 2).await;
        let found = top(&server, "key").await;
        assert_eq!(found.len(), names, "{found:?}");
        assert!(found.iter().all(|(name, total, _)| name.len() == 32 && *total == 2), "{found:?}");
        assert_eq!(top(&server, "rule").await, [row("per_user", 2, 0)]);
        server.stop().unwrap();
        let file = std::fs::read(folder.path().join("history.redb")).unwrap();
        assert!(!file.windows(6).any(|bytes| bytes == b"secret"), "{keys}");
    }
}

#[tokio::test]
async fn more_names_than_the_cap_are_others_and_no_total_is_wrong() {
    let file = "history: { max_routes: 2 }";
    let server = Setup::new(&[("rules.yaml", RULES)]).file(file).start().await;
    for (path, times) in [("/often", 3), ("/less", 2), ("/made-up-1", 1), ("/made-up-2", 1)] {
        let body = format!(r#"{{"domain":"shop","descriptors":[{{"path":"{path}"}}]}}"#);
        v1(&server, "/v1/check", &body, times).await;
    }
    assert_eq!(top(&server, "route").await, [row("/often", 3, 0), row("/less", 2, 0)]);
    let all = asked(&server, "/v1/history/top?by=route").await;
    assert_eq!(all["other"]["total"], 2);
}

/// An API key that a mapping counts by is a secret.
#[tokio::test]
async fn what_clients_send_as_secrets_is_hashed_unless_it_is_shown() {
    let header = |name: &str, key: &str, more: &str| {
        format!("    - [request_headers: {{ header_name: {name}, descriptor_key: {key}{more} }}]\n")
    };
    let rules = "
domain: edge
descriptors:
  - key: api_key
    rate_limit: { name: by_key, requests_per_unit: 1000, unit: year }
  - key: plan
    rate_limit: { name: by_plan, requests_per_unit: 1000, unit: year }
";
    let file = "mapping:\n  domain: edge\n  trusted_proxies: [127.0.0.1]\n  descriptors:\n".to_owned()
        + &header("X-Api-Key", "api_key", ", missing: key")
        + &header("X-Plan", "plan", ", show: true");
    let server = Setup::new(&[("rules.yaml", rules)]).file(&file).start().await;
    for headers in ["x-api-key: hunter2\r\nx-plan: gold\r\n", "x-api-key: hunter2\r\nx-plan: gold\r\n", ""] {
        let asked = format!("GET /v1/authz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{headers}\r\n");
        assert_eq!(request(server.addresses.http, &asked).await.0, 200);
    }
    // The key is the same secret however a request comes.
    let body = r#"{"domain":"edge","descriptors":[{"api_key":"hunter2"}]}"#;
    assert_eq!(v1(&server, "/v1/check", body, 1).await, [200]);
    let mut keys = top(&server, "key").await;
    keys.sort();
    let hash = tollgate_history::Label::hashed("hunter2", "");
    assert_eq!(
        keys,
        [row("api_key=(missing)", 1, 0), row(&format!("api_key={hash}"), 3, 0), row("plan=gold", 2, 0)]
    );
    // Whoever wants it erased knows the key, and not its hash.
    for (name, forgotten) in [("api_key=hunter", 0), ("api_key=hunter2", 1), ("api_key=hunter2", 0)] {
        let head = format!(
            "DELETE /v1/history/keys?name={name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        );
        let told = request(server.addresses.admin, &head).await;
        assert_eq!(told, (200, format!("{{\"forgotten\":{forgotten}}}")), "{name}");
    }
}
