//! Every operation with a real Tollgate server, over both protocols.

use std::time::Duration;

use tollgate_client::{Client, Error, MisspeltName, ReplyOrigin};
use tollgate_core::{
    Algorithm, Descriptor, Entry, Limit, Micros, Operation, Override, Request, Shape, Unit, Verdict,
};

use crate::support::{ServerSetup, TestServer, ask, eventually};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { name: burst, requests_per_unit: 3, unit: hour, algorithm: sliding_log }
  - key: report
    rate_limit: { requests_per_unit: 1, unit: hour, algorithm: leaky_bucket, burst: 2 }
  - key: watched
    rate_limit: { requests_per_unit: 1, unit: hour, algorithm: fixed_window }
    shadow_mode: true
  - key: banned
    rate_limit: { requests_per_unit: 0, unit: day, message: go away }
  - key: login
    rate_limit: { requests_per_unit: 1, unit: day, penalty: { after: 1, within: 1h, block: 2h }, deny: [evil] }
  - key: tokens
    rate_limit: { requests_per_unit: 10, unit: day, algorithm: token_bucket, postpaid: true }
";

#[tokio::test]
async fn check_peek_report_and_refund_do_over_both_protocols_what_they_say() {
    let server = TestServer::with(RULES).await;
    for (client, user) in [(server.http_client(), "over http"), (server.grpc_client(), "over grpc")] {
        let left = async |cost, operation: &str| {
            let asked = ask("shop", user, cost, async |request| match operation {
                "check" => client.check(request).await,
                "peek" => client.peek(request).await,
                "report" => client.report(request).await,
                _ => client.refund(request).await,
            });
            let reply = asked.await.unwrap();
            (reply.verdict.word(), reply.decisions[0].remaining)
        };
        assert_eq!(left(1, "check").await, ("allow", 2), "{user}");
        assert_eq!(left(1, "peek").await, ("allow", 1), "{user}");
        assert_eq!(left(3, "peek").await, ("deny", 2), "{user}");
        assert_eq!(left(0, "peek").await, ("allow", 2), "{user}");
        assert_eq!(left(0, "check").await, ("allow", 2), "{user}");
        assert_eq!(left(0, "report").await, ("allow", 2), "{user}");
        assert_eq!(left(1, "report").await, ("allow", 1), "{user}");
        assert_eq!(left(5, "report").await.1, 0, "{user}");
        assert_eq!(left(1, "check").await, ("deny", 0), "{user}");
        assert_eq!(left(7, "refund").await, ("allow", 3), "{user}");
        assert_eq!(left(1, "check").await, ("allow", 2), "{user}");
    }
}

#[tokio::test]
async fn a_reply_over_http_has_everything_in_types() {
    let server = TestServer::with(RULES).await;
    let client = server.http_client();
    let user = [Entry::from(("user", "42"))];
    let watched = [Entry::from(("watched", "x"))];
    let descriptors = [Descriptor::new(&watched).with_cost(2), Descriptor::new(&user)];
    let reply = client.check(&Request::new("shop", &descriptors)).await.unwrap();
    assert_eq!((reply.verdict, reply.origin, reply.binding), (Verdict::Allow, ReplyOrigin::Server, Some(1)));
    let [shadow, burst] = &reply.decisions[..] else { panic!("{reply:?}") };
    assert!(shadow.shadow && shadow.verdict.is_deny() && shadow.algorithm == Some(Algorithm::FixedWindow));
    assert_eq!((burst.descriptor, burst.rule.as_deref()), (1, Some("burst")));
    assert_eq!((burst.limit, burst.remaining, burst.algorithm), (3, 2, Some(Algorithm::SlidingLog)));
    assert!(burst.reset_after <= Micros::from_secs(3_600) && burst.reset_after > Micros::from_secs(3_500));

    let banned = [Entry::from(("banned", "x"))];
    let reply = client.check(&Request::new("shop", &[Descriptor::new(&banned)])).await.unwrap();
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: None });
    assert_eq!(reply.binding().unwrap().message.as_deref(), Some("go away"));

    let reply = ask("shpo", "42", 1, async |request| client.check(request).await).await.unwrap();
    let misspelt = MisspeltName { name: "shpo".into(), nearest: Some("shop".into()) };
    assert_eq!((reply.verdict, reply.unknown), (Verdict::Allow, Some(misspelt)));
}

#[tokio::test]
async fn both_protocols_tell_the_same_verdicts_of_one_server() {
    let server = ServerSetup::new(RULES).env("TOLLGATE_TELL_THROUGH_ENVOY", "all").start().await;
    server.until_decides().await;
    let (http, grpc) = (server.http_client(), server.grpc_client());
    for (key, cost) in [
        ("user", 1),
        ("user", 3),
        ("report", 1),
        ("watched", 1),
        ("banned", 1),
        ("tokens", 0),
        ("tokens", 30),
    ] {
        let mut told = Vec::new();
        for client in [&http, &grpc] {
            // Each protocol has a counter of its own.
            let value = format!("{key} {cost} {}", told.len());
            let entries = [Entry { key, value: &value }];
            let descriptors = [Descriptor::new(&entries)];
            let request = Request::new("shop", &descriptors).with_cost(cost);
            let mut words = Vec::new();
            for _ in 0..4 {
                let reply = client.check(&request).await.unwrap();
                let span = match reply.verdict {
                    Verdict::Allow => None,
                    Verdict::Delay { wait } => Some(wait.as_secs_ceil()),
                    Verdict::Deny { retry_after } => retry_after.map(Micros::as_secs_ceil),
                };
                // Both are within a minute of the same whole hour or day.
                words.push((reply.verdict.word(), span.map(|seconds| seconds.div_ceil(60)), reply.origin));
            }
            let refunded = client.refund(&request).await.unwrap();
            words.push((refunded.verdict.word(), None, ReplyOrigin::Server));
            words.push((client.check(&request).await.unwrap().verdict.word(), None, ReplyOrigin::Server));
            told.push(words);
        }
        assert_eq!(told[0], told[1], "{key} at {cost}");
    }
}

#[tokio::test]
async fn what_grpc_has_no_way_to_ask_is_said_before_it_is_sent() {
    let client = Client::grpc("http://127.0.0.1:1").unwrap();
    let user = [Entry::from(("user", "42"))];
    let refund = [Descriptor::new(&user), Descriptor::new(&user).as_refund()];
    let error = client.peek(&Request::new("shop", &refund)).await.unwrap_err();
    assert_eq!(error.to_string(), "a refund in a peek cannot be sent over gRPC; ask for it alone");
    let peek = [Descriptor { operation: Some(Operation::Peek), ..Descriptor::new(&user) }];
    let error = client.check(&Request::new("shop", &peek)).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

/// A report with a refund beside it, a limit of the caller's own, a shadow limit and a queue: what `/v1`
/// promises of each operation holds over gRPC as well.
#[tokio::test]
async fn peek_and_report_over_grpc_meet_every_kind_of_limit() {
    let server = TestServer::with(RULES).await;
    let client = server.grpc_client();
    let user = [Entry::from(("user", "42"))];
    let mixed = [Descriptor::new(&user).with_cost(3), Descriptor::new(&user).as_refund()];
    let reply = client.report(&Request::new("shop", &mixed)).await.unwrap();
    assert_eq!(reply.decisions.iter().map(|one| one.remaining).collect::<Vec<_>>(), [0, 1]);

    let limit = Limit::new(2, Unit::Day.length(), Shape::FixedWindow).unwrap();
    let brought = Override { limit, unit: Unit::Day };
    let own = [Descriptor::new(&user).with_limit(&brought)];
    let own = Request::new("shop", &own).with_cost(2);
    assert_eq!(client.peek(&own).await.unwrap().decisions[0].remaining, 0);
    assert_eq!(client.report(&own).await.unwrap().decisions[0].remaining, 0);
    assert!(client.peek(&own).await.unwrap().verdict.is_deny());

    for (key, first, then) in
        [("watched", "allow", "allow"), ("report", "allow", "delay"), ("tokens", "allow", "allow")]
    {
        let entries = [Entry { key, value: "x" }];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("shop", &descriptors);
        let mut words = Vec::new();
        for _ in 0..2 {
            words.push(client.peek(&request).await.unwrap().verdict.word());
        }
        client.report(&request).await.unwrap();
        words.push(client.peek(&request).await.unwrap().verdict.word());
        assert_eq!(words, [first, first, then], "{key}");
    }
}

#[tokio::test]
async fn a_denial_over_grpc_is_remembered_only_if_its_time_is_told() {
    for (tells, origin) in
        [("off", ReplyOrigin::Server), ("headers", ReplyOrigin::Memory), ("all", ReplyOrigin::Memory)]
    {
        let server = ServerSetup::new(RULES).env("TOLLGATE_TELL_THROUGH_ENVOY", tells).start().await;
        server.until_decides().await;
        let client = server.grpc_client();
        let check = async || ask("shop", "42", 2, async |request| client.check(request).await).await.unwrap();
        assert_eq!(check().await.verdict, Verdict::Allow);
        assert_eq!(check().await.origin, ReplyOrigin::Server);
        let again = check().await;
        assert!(again.verdict.is_deny());
        assert_eq!(again.origin, origin, "{tells}");
    }
}

#[tokio::test]
async fn what_the_server_does_not_take_is_an_error_with_its_words() {
    let server = TestServer::with(RULES).await;
    let long = "x".repeat(100_000);
    let error = ask("shop", &long, 1, async |request| server.http_client().check(request).await).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Rejected { status: 400, .. }), "{error}");
    assert!(error.to_string().contains(" at /descriptors/0/entries/0/value; "), "{error}");
    let error = ask("shop", &long, 1, async |request| server.grpc_client().check(request).await).await;
    assert!(matches!(error, Err(Error::Rejected { status: 3, .. })), "{error:?}");
}

#[tokio::test]
async fn waiting_for_a_real_limit_ends_when_it_passes() {
    let rules = "
domain: shop
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 20, unit: second, algorithm: token_bucket, burst: 1 }
";
    let server = TestServer::with(rules).await;
    let client = server.http_client();
    for _ in 0..10 {
        let asked = ask("shop", "42", 1, async |request| {
            client.until_allowed(request, Duration::from_secs(30)).await
        });
        assert_eq!(asked.await.unwrap().verdict, Verdict::Allow);
    }
}

#[tokio::test]
async fn new_rules_hold_once_the_denials_are_forgotten() {
    let server = TestServer::with(RULES).await;
    let client = server.http_client();
    let check = async || ask("shop", "42", 3, async |request| client.check(request).await).await.unwrap();
    assert_eq!(check().await.verdict, Verdict::Allow);
    assert!(check().await.verdict.is_deny());
    server.reload(&RULES.replace("requests_per_unit: 3", "requests_per_unit: 300"));
    let peek = async || ask("shop", "42", 3, async |request| client.peek(request).await).await.unwrap();
    eventually("the new rules are in force", async || peek().await.verdict == Verdict::Allow).await;
    assert_eq!(check().await.origin, ReplyOrigin::Memory);
    client.forget_denials("shop");
    assert_eq!(check().await.verdict, Verdict::Allow);
}

#[tokio::test]
async fn both_protocols_tell_why_a_caller_is_denied() {
    let server = ServerSetup::new(RULES).env("TOLLGATE_TELL_THROUGH_ENVOY", "all").start().await;
    server.until_decides().await;
    for (client, value) in [(server.http_client(), "over http"), (server.grpc_client(), "over grpc")] {
        let why = async |key: &str, value: &str| {
            let entries = [Entry { key, value }];
            let descriptors = [Descriptor::new(&entries)];
            let reply = client.check(&Request::new("shop", &descriptors)).await.unwrap();
            (reply.verdict.word(), reply.reason)
        };
        assert_eq!(why("login", "evil").await, ("deny", Some("deny_list".to_owned())), "{value}");
        assert_eq!(why("login", value).await, ("allow", None), "{value}");
        // The first denial is the strike that begins the block.
        why("login", value).await;
        assert_eq!(why("login", value).await, ("deny", Some("penalty".to_owned())), "{value}");
        assert_eq!(why("banned", value).await, ("deny", None), "{value}");
    }
}
