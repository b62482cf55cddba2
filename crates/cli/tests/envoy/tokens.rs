//! The example for language models: costs that are known when the answer has ended.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fs;
use std::path::Path;

use crate::envoy::Envoy;
use crate::http;
use crate::patience::until;
use crate::tollgate::Tollgate;
use crate::upstream;

const CONFIG: &str = include_str!("../../../../deploy/envoy/tokens.yaml");
const RULES: &str = include_str!("../../../../examples/envoy-tokens.yaml");
/// What is left after one answer of 700 tokens, with what comes back while a test runs.
const LEFT: u64 = 400;

/// The example with ports that are free, and a server that may take its time.
fn start(test: &str, rules: &str) -> (Envoy, Tollgate) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envoy").join(test);
    // What an earlier run left; there is none the first time.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(folder.join("rules")).unwrap();
    fs::write(folder.join("rules/rules.yaml"), rules).unwrap();
    let tollgate = Tollgate::start(&folder.join("rules"), &[], "127.0.0.1:0");
    let port = |port: u16| format!("port_value: {port} ");
    let mut config = CONFIG.to_owned();
    for (from, to) in [(9901, 0), (10000, 0), (8081, tollgate.grpc.port()), (9000, upstream::start().port())]
    {
        assert!(config.contains(&port(from)), "the example has lost port {from}");
        config = config.replace(&port(from), &port(to));
    }
    assert!(config.contains("timeout: 0.25s"));
    (Envoy::start_with(&folder, &config.replace("timeout: 0.25s", "timeout: 10s")), tollgate)
}

/// Asks the model; if it answers, waits until at most `left` tokens are left.
fn chat(envoy: &Envoy, tollgate: &Tollgate, user: &str, left: u64) -> u16 {
    let answer = http::get(envoy.front, "/v1/chat/completions", &[("x-user", user)]).unwrap();
    if answer.status == 200 {
        assert!(answer.body.contains("[DONE]"), "{answer:?}");
        let body = format!(r#"{{"domain":"models","descriptors":[{{"user":"{user}"}}],"cost":0}}"#);
        until("the answer is charged", || {
            let told = http::post(tollgate.http, "/v1/peek", &body).unwrap().body;
            let (_, rest) = told.split_once(r#""remaining":"#)?;
            (rest.split(',').next()?.parse::<u64>().ok()? <= left).then_some(())
        });
    }
    answer.status
}

#[test]
fn a_model_is_limited_by_the_tokens_of_answers_that_have_ended() {
    let (envoy, tollgate) = start("tokens", RULES);
    assert_eq!(chat(&envoy, &tollgate, "alice", LEFT), 200);
    assert_eq!(chat(&envoy, &tollgate, "alice", 0), 200, "300 are left, so that it may begin");
    assert_eq!(chat(&envoy, &tollgate, "alice", 0), 429, "and now there is debt");
    assert_eq!(chat(&envoy, &tollgate, "bob", LEFT), 200);
    assert!(!tollgate.said("postpaid"), "nothing to warn of");
}

#[test]
fn without_postpaid_nobody_is_limited_and_the_log_says_so_once() {
    let (envoy, tollgate) = start("tokens-prepaid", &RULES.replace(", postpaid: true", ""));
    assert_eq!(chat(&envoy, &tollgate, "alice", LEFT), 200);
    for _ in 0..3 {
        assert_eq!(chat(&envoy, &tollgate, "alice", LEFT), 200, "the charge does not fit and is not counted");
    }
    until("a warning", || tollgate.said("rule tokens at models.user gets checks of cost 0").then_some(()));
    assert_eq!(tollgate.count("write postpaid: true"), 1);
}
