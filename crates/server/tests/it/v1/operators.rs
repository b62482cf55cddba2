//! `/v1/keys` and `/v1/rules` of the admin listener, and the documents.

use serde_json::{Value, json};

use super::{RULES, costing, one, post, send, short};
use crate::support::http::get_with;
use crate::support::{Server, Setup};

#[tokio::test]
async fn a_key_can_be_looked_at_and_forgotten() {
    let server = Server::with(RULES).await;
    let (http, admin) = (server.addresses.http, server.addresses.admin);
    post(http, "/v1/check", &costing("user_id", "42", 3)).await;
    let (status, key) = send(admin, "GET /v1/keys?domain=shop&user_id=42").await;
    assert_eq!(status, 200);
    let told = |key: &Value| -> Vec<Value> {
        let names = ["rule", "path", "limit", "used", "remaining", "next", "shadow"];
        let of = |counter: &Value| names.map(|name| counter[name].clone()).into_iter().collect();
        key["counters"].as_array().unwrap().iter().map(of).collect()
    };
    let taken = [
        json!(["burst", "shop.user_id[0]", 3, 3, 0, "deny", false]),
        json!(["sustained", "shop.user_id[1]", 5, 3, 2, "allow", false]),
    ];
    assert_eq!(told(&key), taken, "{key}");
    let next = key["counters"][0]["next_after_ms"].as_u64().unwrap();
    assert!((3_540_000..=3_600_000).contains(&next), "{key}");
    // The same by the body of a check, and looking changes nothing.
    let (_, again) = post(admin, "/v1/keys", &costing("user_id", "42", 7)).await;
    assert_eq!(told(&again), taken);

    assert_eq!(send(admin, "DELETE /v1/keys?domain=shop&user_id=42").await, (200, json!({ "forgotten": 2 })));
    assert_eq!(send(admin, "DELETE /v1/keys?domain=shop&user_id=42").await, (200, json!({ "forgotten": 0 })));
    assert_eq!(short(&post(http, "/v1/check", &one("user_id", "42")).await.1), "allow burst 2, sustained 4");
    assert_eq!(post(admin, "/v1/keys/reset", &one("user_id", "42")).await, (200, json!({ "forgotten": 2 })));
    assert_eq!(short(&post(http, "/v1/peek", &one("user_id", "42")).await.1), "allow burst 2, sustained 4");
}

#[tokio::test]
async fn a_key_that_no_rule_meets_has_no_counters() {
    let server = Server::with(RULES).await;
    let answer = send(server.addresses.admin, "GET /v1/keys?domain=shop&colour=red").await;
    assert_eq!(answer, (200, json!({ "counters": [] })));
}

/// What `tollgate explain` says, on the counters as they are; asking changes none of them.
#[tokio::test]
async fn a_request_is_explained_with_the_state_of_its_counters() {
    let server = Server::with(RULES).await;
    let (http, admin) = (server.addresses.http, server.addresses.admin);
    post(http, "/v1/check", &costing("user_id", "42", 3)).await;
    let (status, denied) = post(http, "/v1/check", &one("user_id", "42")).await;
    assert_eq!(status, 429);
    for _ in 0..2 {
        let (status, story) = post(admin, "/v1/explain", &one("user_id", "42")).await;
        assert_eq!(status, 200, "{story}");
        assert_eq!(
            (&story["verdict"], &story["binding"], &story["outcome"]),
            (&"deny".into(), &"burst".into(), &"denied".into())
        );
        let limits = story["descriptors"][0]["limits"].as_array().unwrap();
        let used: Vec<Value> = limits
            .iter()
            .map(|own| json!([own["rule"], own["decision"]["used"], own["decision"]["verdict"]]))
            .collect();
        assert_eq!(used, [json!(["burst", 3, "deny"]), json!(["sustained", 3, "allow"])]);
        assert_eq!(story["descriptors"][0]["levels"][0]["chosen"], "user_id");
    }
    // What a denial names can be asked as it is; the counters are those of a key that nobody used.
    let named = denied["violated-policies"][0].as_str().unwrap();
    let (status, story) = post(admin, "/v1/explain", &json!({ "rule": named }).to_string()).await;
    assert_eq!((status, &story["verdict"]), (200, &"allow".into()), "{story}");
    assert_eq!(story["descriptors"][0]["limits"][0]["rule"], named);
    let by_path = json!({ "rule": "shop.user_id[1]", "domain": "shop" }).to_string();
    assert_eq!(post(admin, "/v1/explain", &by_path).await.0, 200);
    let (_, misspelt) = post(admin, "/v1/explain", &one("user_idd", "42")).await;
    assert_eq!(misspelt["descriptors"][0]["nearest_key"], "user_id");
    for (body, pointer) in [
        (json!({ "rule": "none" }).to_string(), "/rule"),
        (json!({ "rule": "burst", "domain": "other" }).to_string(), "/rule"),
        (json!({ "domain": "shop" }).to_string(), "/descriptors"),
        ("[]".to_owned(), ""),
    ] {
        let (status, problem) = post(admin, "/v1/explain", &body).await;
        assert_eq!((status, &problem["pointer"]), (400, &pointer.into()), "{problem}");
    }
    assert_ne!(post(http, "/v1/explain", &one("user_id", "42")).await.0, 200, "it is for operators");
}

#[tokio::test]
async fn what_names_no_key_is_told_how_to() {
    let server = Server::with(RULES).await;
    let admin = server.addresses.admin;
    for (line, pointer, fix) in [
        ("GET /v1/keys", "/domain", "send the domain of a rule file"),
        ("GET /v1/keys?domain=&a=b", "/domain", "send the domain of a rule file"),
        ("GET /v1/keys?domain=shop", "", "send ?domain=NAME&key=value"),
        ("DELETE /v1/keys?domain=shop", "", "send ?domain=NAME&key=value"),
    ] {
        let (status, problem) = send(admin, line).await;
        assert_eq!((status, &problem["pointer"]), (400, &pointer.into()), "{line}: {problem}");
        assert!(problem["fix"].as_str().unwrap().starts_with(fix), "{line}: {problem}");
    }
    let (status, problem) = post(admin, "/v1/keys", "[]").await;
    assert_eq!((status, &problem["detail"]), (400, &"a batch is not taken here".into()));
}

#[tokio::test]
async fn callers_of_the_limiter_can_neither_look_nor_reset() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_ADMIN_TOKEN", "sesame").start().await;
    for line in
        ["GET /v1/keys?domain=shop&user_id=42", "DELETE /v1/keys?domain=shop&user_id=42", "GET /v1/rules"]
    {
        assert_eq!(send(server.addresses.http, line).await.0, 404, "{line}");
        assert_eq!(send(server.addresses.admin, line).await.0, 401, "{line}");
    }
    let shown = get_with(server.addresses.admin, "/v1/rules", "authorization: Bearer sesame").await;
    assert_eq!(shown.0, 200);
}

#[tokio::test]
async fn the_rules_in_force_are_told_with_all_their_numbers() {
    let server = Server::with(RULES).await;
    let (status, told) = send(server.addresses.admin, "GET /v1/rules").await;
    assert_eq!(status, 200);
    assert_eq!((&told["status"]["loaded"], &told["status"]["domains"]), (&true.into(), &1.into()));
    assert_eq!(told["status"]["errors"], json!([]));
    let team = json!({
        "name": "team", "path": "shop.team", "algorithm": "sliding_log", "requests_per_unit": 2, "unit": "hour",
        "unit_multiplier": 1, "window_ms": 3_600_000, "capacity": 2, "soft_percent": 0, "count_rejected": false,
        "over_limit": "deny", "mode": "enforce", "message": "ask your admin", "domain": "shop", "levels": [{ "key": "team" }],
    });
    let rules = told["rules"].as_array().unwrap();
    assert_eq!(rules.iter().find(|rule| rule["name"] == "team"), Some(&team));
    let names: Vec<&str> = rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["burst", "sustained", "team", "project", "queue", "trial"]);
    let queue = rules.iter().find(|rule| rule["name"] == "queue").unwrap();
    assert_eq!((&queue["burst"], &queue["algorithm"]), (&1.into(), &"leaky_bucket".into()));
}

#[tokio::test]
async fn each_listener_describes_its_own_paths() {
    let server = Server::with(RULES).await;
    for (address, paths) in [
        (
            server.addresses.http,
            &["/v1/check", "/v1/defer", "/v1/deferred/{id}", "/v1/peek", "/v1/refund", "/v1/report"][..],
        ),
        (server.addresses.admin, &["/v1/keys", "/v1/keys/reset", "/v1/rules"]),
    ] {
        let (status, document) = send(address, "GET /v1/openapi.json").await;
        assert_eq!((status, &document["openapi"]), (200, &"3.1.0".into()));
        let mut told: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        told.sort();
        for path in paths {
            assert!(told.iter().any(|own| own == path), "{path} is not in {told:?}");
        }
        // Every reference leads somewhere.
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer} is not in the document");
        }
    }
}
