//! Check, peek, report and refund, single and in batches.

use serde_json::Value;

use super::{RULES, costing, one, post, short};
use crate::support::Server;

#[tokio::test]
async fn a_check_takes_from_all_limits_or_from_none() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    for (cost, status, told) in [
        (2, 200, "allow burst 1, sustained 3"),
        // Too much for one of them is charged by neither.
        (2, 429, "deny burst 1, sustained 3"),
        (1, 200, "allow burst 0, sustained 2"),
        (0, 200, "allow burst 0, sustained 2"),
        (1, 429, "deny burst 0, sustained 2"),
    ] {
        let (came, reply) = post(http, "/v1/check", &costing("user_id", "42", cost)).await;
        assert_eq!((came, short(&reply).as_str()), (status, told), "cost {cost}: {reply}");
    }
    let (_, other) = post(http, "/v1/check", &one("user_id", "43")).await;
    assert_eq!(short(&other), "allow burst 2, sustained 4");
    // What is left is not used up.
    let (_, refused) = post(http, "/v1/check", &costing("user_id", "43", 3)).await;
    let told = refused["detail"].as_str().unwrap();
    assert!(
        told.starts_with("the limit 'burst' of 3 per 1h has 2 left and this takes 3; try again in "),
        "{told}"
    );
}

#[tokio::test]
async fn a_peek_answers_as_a_check_would_and_takes_nothing() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    for _ in 0..5 {
        let (status, reply) = post(http, "/v1/peek", &costing("team", "a", 2)).await;
        assert_eq!((status, short(&reply).as_str()), (200, "allow team 0"));
        let (status, reply) = post(http, "/v1/peek", &costing("team", "a", 3)).await;
        assert_eq!((status, short(&reply).as_str()), (429, "deny team 2"));
        assert_eq!(reply["retry_after_ms"], Value::Null, "three never fit into two");
    }
    let (status, reply) = post(http, "/v1/check", &costing("team", "a", 2)).await;
    assert_eq!((status, short(&reply).as_str()), (200, "allow team 0"));
    assert_eq!(server.counter("ratelimit.service.rate_limit.shop.team.total_hits").await, 2);
}

#[tokio::test]
async fn a_report_takes_what_does_not_fit_and_a_refund_gives_it_back() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    // Seven of five: two more are owed to the bucket.
    let (status, reported) = post(http, "/v1/report", &costing("user_id", "42", 7)).await;
    assert_eq!((status, short(&reported).as_str()), (200, "allow burst 0, sustained 0"), "{reported}");
    assert_eq!(post(http, "/v1/check", &one("user_id", "42")).await.0, 429);
    let (status, back) = post(http, "/v1/refund", &costing("user_id", "42", 6)).await;
    assert_eq!((status, short(&back).as_str()), (200, "allow burst 2, sustained 4"), "{back}");
    // Never above full.
    let (_, back) = post(http, "/v1/refund", &costing("user_id", "42", 100)).await;
    assert_eq!(short(&back), "allow burst 3, sustained 5");
}

#[tokio::test]
async fn a_wait_is_told_in_milliseconds_and_a_refusal_tells_the_message() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    assert_eq!(short(&post(http, "/v1/check", &one("queue", "a")).await.1), "allow queue 1");
    let (status, waits) = post(http, "/v1/check", &one("queue", "a")).await;
    assert_eq!((status, &waits["verdict"]), (200, &"delay".into()));
    let wait = waits["wait_ms"].as_u64().unwrap();
    assert!((3_540_000..=3_600_000).contains(&wait), "{waits}");
    assert_eq!(waits["decisions"][0]["wait_ms"], wait);
    assert_eq!(waits.get("retry_after_ms"), None);

    post(http, "/v1/check", &costing("team", "a", 2)).await;
    let (status, refused) = post(http, "/v1/check", &one("team", "a")).await;
    assert_eq!((status, &refused["status"]), (429, &429.into()));
    assert_eq!((&refused["detail"], &refused["binding"]), (&"ask your admin".into(), &0.into()));
    assert_eq!(refused["decisions"][0]["message"], "ask your admin");
    assert_eq!(refused["violated-policies"], serde_json::json!(["team"]));
}

#[tokio::test]
async fn a_rule_in_the_shadow_decides_and_refuses_nobody() {
    let server = Server::with(RULES).await;
    for verdict in ["allow", "deny"] {
        let (status, reply) = post(server.addresses.http, "/v1/check", &one("trial", "a")).await;
        assert_eq!((status, &reply["verdict"]), (200, &"allow".into()));
        let decision = &reply["decisions"][0];
        assert_eq!((&decision["verdict"], &decision["shadow"]), (&verdict.into(), &true.into()), "{reply}");
    }
}

#[tokio::test]
async fn what_no_rule_is_about_passes_and_binds_nothing() {
    let server = Server::with(RULES).await;
    let deeper = r#"{"domain":"shop","descriptors":[{"user_id":"x","team":"x"}]}"#.to_owned();
    for body in [deeper, one("nothing", "x"), one("user_id", "x").replace("shop", "elsewhere")] {
        let (status, reply) = post(server.addresses.http, "/v1/check", &body).await;
        assert_eq!(
            (status, &reply["verdict"], reply.get("binding")),
            (200, &"allow".into(), None),
            "{reply}"
        );
        assert_eq!(reply["decisions"], serde_json::json!([]));
    }
}

#[tokio::test]
async fn several_descriptors_have_their_own_costs_and_are_decided_together() {
    let server = Server::with(RULES).await;
    let asked = r#"{"domain":"shop","descriptors":[{"user_id":"42"},{"entries":[{"key":"team","value":"a"}],"cost":2}]}"#;
    let (status, reply) = post(server.addresses.http, "/v1/check", asked).await;
    assert_eq!((status, short(&reply).as_str()), (200, "allow burst 2, sustained 4, team 0"));
    let descriptors: Vec<u64> = reply["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["descriptor"].as_u64().unwrap())
        .collect();
    assert_eq!(descriptors, [0, 0, 1]);
    let (status, reply) = post(server.addresses.http, "/v1/check", asked).await;
    assert_eq!((status, short(&reply).as_str()), (429, "deny burst 2, sustained 4, team 0"));
    assert_eq!(reply["binding"], 2);
}

#[tokio::test]
async fn a_batch_is_answered_in_order_each_on_its_own() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    let batch = format!("[{},{},{}]", costing("project", "a", 2), one("project", "a"), one("project", "b"));
    let shorts = |replies: &Value| -> Vec<String> { replies.as_array().unwrap().iter().map(short).collect() };
    let peeked = ["allow project 0", "allow project 1", "allow project 1"];
    let checked = ["allow project 0", "deny project 0", "allow project 1"];
    let reported = ["allow project 0", "allow project 0", "allow project 0"];
    let refunded = ["allow project 0", "allow project 0", "allow project 1"];
    for (path, told) in
        [("/v1/peek", peeked), ("/v1/check", checked), ("/v1/report", reported), ("/v1/refund", refunded)]
    {
        let (status, replies) = post(http, path, &batch).await;
        assert_eq!((status, shorts(&replies)), (200, told.map(str::to_owned).to_vec()), "{path}");
    }
    assert_eq!(post(http, "/v1/check", "[]").await, (200, serde_json::json!([])));
}

#[tokio::test]
async fn a_batch_with_a_mistake_charges_nothing() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    let batch = format!(r#"[{},{{"domain":"shop","descriptors":[]}}]"#, one("team", "a"));
    let (status, problem) = post(http, "/v1/check", &batch).await;
    assert_eq!((status, &problem["pointer"]), (400, &"/1/descriptors".into()), "{problem}");
    assert_eq!(short(&post(http, "/v1/peek", &costing("team", "a", 0)).await.1), "allow team 2");
}

/// A misspelt name looked like a limit that works.
#[tokio::test]
async fn a_name_that_no_rules_have_is_said_with_the_nearest() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    let of =
        |domain: &str, descriptors: &str| format!(r#"{{"domain":"{domain}","descriptors":[{descriptors}]}}"#);
    let unknown = |reply: &Value| {
        ["reason", "unknown", "nearest"].map(|name| reply[name].as_str().unwrap_or("-").to_owned()).join(" ")
    };
    for (body, told) in [
        (of("shpo", r#"{"user_id":"42"}"#), "unknown_domain shpo shop"),
        (of("warehouse", r#"{"user_id":"42"}"#), "unknown_domain warehouse -"),
        (of("shop", r#"{"usr_id":"42"}"#), "unknown_key usr_id user_id"),
        (of("shop", r#"{"user_id":"42","colour":"red"}"#), "unknown_key colour -"),
        (of("shop", r#"{"user_id":"42"}"#), "- - -"),
        // No rule for both, but the keys are right.
        (of("shop", r#"{"user_id":"42","team":"a"}"#), "- - -"),
        // Something applies, and that is the answer.
        (of("shop", r#"{"usr_id":"42"},{"user_id":"43"}"#), "- - -"),
    ] {
        let (status, reply) = post(http, "/v1/check", &body).await;
        assert_eq!((status, unknown(&reply).as_str()), (200, told), "{body}: {reply}");
    }
}
