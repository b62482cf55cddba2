//! Charges that the answer decides, with every kind of limit.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tollgate_core::{Descriptor, Entry, Micros, Request, Time};
use tollgate_http::{
    Action, Admission, AdmissionControl, ChargeTerms, Fact, LimiterChecker, Mapping, MappingDescriptor,
    MeteredBody, ResponseCost, ResponseSettings, StatusSet,
};
use tollgate_limiter::{Event, EventSink, Limiter, ManualClock, MemoryStore};
use tollgate_rules::{Options, SourceFile};

/// Counts requests.
#[derive(Default)]
struct RequestCounter(AtomicUsize);

impl EventSink for RequestCounter {
    fn offer(&self, event: Event<'_>) {
        self.0.fetch_add(usize::from(event.is_request), Ordering::SeqCst);
    }
}

type TestChecker = LimiterChecker<MemoryStore, ManualClock, Arc<RequestCounter>>;

/// Keys of the same value, each with a limit and terms of its own.
struct Scene {
    checker: Arc<TestChecker>,
    control: AdmissionControl,
    requests: Arc<RequestCounter>,
}

const START: Time = Time::from_secs(1_700_000_000);

fn rules(limits: &[&str]) -> tollgate_core::RuleSet {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    for (index, limit) in limits.iter().enumerate() {
        let (limit, shadow) = match limit.strip_prefix("shadow ") {
            Some(limit) => (limit, "    shadow_mode: true\n"),
            None => (*limit, ""),
        };
        text += &format!("  - key: k{index}\n{shadow}    rate_limit: {{ unit: hour, {limit} }}\n");
    }
    let source = SourceFile { name: "rules.yaml".into(), text };
    tollgate_rules::load(vec![source], &Options::default()).expect("the rules are right").rules
}

fn mapping(terms: impl IntoIterator<Item = ChargeTerms>) -> Mapping {
    let descriptors = terms.into_iter().enumerate().map(|(index, terms)| {
        MappingDescriptor::new(vec![Action::new(format!("k{index}"), Fact::Text("x".into()))], terms)
    });
    Mapping::new("d", descriptors.collect()).expect("the mapping is right")
}

impl Scene {
    fn new(limits: &[(&str, ChargeTerms)]) -> Self {
        let requests = Arc::new(RequestCounter::default());
        let texts: Vec<&str> = limits.iter().map(|(limit, _)| *limit).collect();
        let clock = ManualClock::at(START);
        let limiter = Limiter::with(rules(&texts), MemoryStore::default(), clock, Arc::clone(&requests));
        let checker = LimiterChecker { limiter: Arc::new(limiter), responses: ResponseSettings::default() };
        let mapping = mapping(limits.iter().map(|(_, terms)| terms.clone()));
        let control = AdmissionControl::new(mapping, Duration::from_secs(60));
        Self { checker: Arc::new(checker), control, requests }
    }

    async fn admit(&self) -> Admission<TestChecker> {
        let headers = HeaderMap::new();
        let facts = crate::mapping::bare_facts(&headers);
        self.control
            .admit(&self.checker, &facts)
            .await
            .unwrap_or_else(|_| panic!("nothing is denied by the mapping"))
    }

    /// A request that is answered with `status` if it passes; the verdict.
    async fn ask(&self, status: u16) -> &'static str {
        let mut admission = self.admit().await;
        if admission.problem.is_none() {
            assert!(admission.answered(status, &HeaderMap::new()).is_none(), "the head decides");
        }
        match admission.headers.iter().any(|(name, _)| name == "x-ratelimit-soft") {
            true => "soft",
            false => admission.verdict.word(),
        }
    }

    /// What is taken of limit number `index`.
    fn used(&self, index: usize) -> u64 {
        let key = format!("k{index}");
        let entries = [Entry { key: &key, value: "x" }];
        let descriptors = [Descriptor::new(&entries)];
        let reply = self.checker.limiter.peek(&Request::new("d", &descriptors).with_cost(0)).at_once();
        reply.decisions[0].used
    }
}

fn statuses(texts: &[&str]) -> StatusSet {
    StatusSet::parse(texts).unwrap()
}

fn on(texts: &[&str]) -> ChargeTerms {
    ChargeTerms::OnResponse { status: Some(statuses(texts)), cost: ResponseCost::One }
}

fn refund_on(texts: &[&str]) -> ChargeTerms {
    ChargeTerms::RefundOn(statuses(texts))
}

fn costs(cost: ResponseCost) -> ChargeTerms {
    ChargeTerms::OnResponse { status: None, cost }
}

/// Limits of 2 by every algorithm. A leaky bucket has nothing left while one is in it.
const ALGORITHMS: [(&str, usize); 7] = [
    ("requests_per_unit: 2", 2),
    ("algorithm: fixed_window, requests_per_unit: 2", 2),
    ("algorithm: sliding_log, requests_per_unit: 2", 2),
    ("algorithm: sliding_counter, requests_per_unit: 2", 2),
    ("algorithm: sliding_buckets, requests_per_unit: 2", 2),
    ("algorithm: token_bucket, requests_per_unit: 2", 2),
    ("algorithm: leaky_bucket, requests_per_unit: 2, burst: 1", 1),
];

#[tokio::test]
async fn only_failed_logins_count_by_every_algorithm() {
    for (limit, passes) in ALGORITHMS {
        for extra in ["", ", postpaid: true"] {
            let limit = format!("{limit}{extra}");
            let scene = Scene::new(&[(&limit, on(&["401", "403"]))]);
            for _ in 0..5 {
                assert_eq!(scene.ask(200).await, "allow", "{limit}");
            }
            assert_eq!(scene.used(0), 0, "{limit}");
            for status in [401, 403].into_iter().take(passes) {
                assert_eq!(scene.ask(status).await, "allow", "{limit}");
            }
            // A denied request has no answer, and so counts nowhere, even where rejected ones do.
            for _ in 0..3 {
                assert_eq!(scene.ask(401).await, "deny", "{limit}");
            }
            assert_eq!(scene.used(0), u64::try_from(passes).unwrap(), "{limit}");
            assert_eq!(
                scene.requests.0.load(Ordering::SeqCst),
                5 + passes + 3,
                "each is one request: {limit}"
            );
        }
    }
}

#[tokio::test]
async fn what_was_taken_is_given_back_by_every_algorithm() {
    for (limit, passes) in ALGORITHMS {
        let scene = Scene::new(&[(limit, refund_on(&["5xx"]))]);
        for _ in 0..5 {
            assert_eq!(scene.ask(502).await, "allow", "{limit}");
            assert_eq!(scene.used(0), 0, "{limit}");
        }
        for _ in 0..passes {
            assert_eq!(scene.ask(404).await, "allow", "{limit}");
        }
        assert_eq!(scene.ask(404).await, "deny", "{limit}");
    }
}

#[tokio::test]
async fn shadow_and_soft_limits_do_what_they_do_elsewhere() {
    let shadow = Scene::new(&[("shadow algorithm: sliding_log, requests_per_unit: 1", on(&["401"]))]);
    for used in 1..=3 {
        assert_eq!(shadow.ask(401).await, "allow");
        assert_eq!(shadow.used(0), used, "what came out so is counted whoever would have denied it");
    }
    // Nothing was taken from a limit that would have denied, so that nothing is given back.
    let shadow = Scene::new(&[("shadow algorithm: sliding_log, requests_per_unit: 1", refund_on(&["5xx"]))]);
    for status in [200, 500] {
        assert_eq!(shadow.ask(status).await, "allow");
        assert_eq!(shadow.used(0), 1, "{status}");
    }
    let soft = "algorithm: sliding_log, requests_per_unit: 2, throttle: { soft: { exceed: 50% } }";
    let soft = Scene::new(&[(soft, on(&["401"]))]);
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(soft.ask(401).await);
    }
    assert_eq!(seen, ["allow", "allow", "soft", "deny"]);
}

#[tokio::test]
async fn several_kinds_in_one_request() {
    let scene = Scene::new(&[
        ("algorithm: token_bucket, requests_per_unit: 4", ChargeTerms::AtOnce),
        ("algorithm: sliding_log, requests_per_unit: 2", refund_on(&["5xx"])),
        ("algorithm: sliding_log, requests_per_unit: 1", on(&["401"])),
    ]);
    let used = || [0, 1, 2].map(|index| scene.used(index));
    for (status, verdict, expected) in [
        (200, "allow", [1, 1, 0]),
        (503, "allow", [2, 1, 0]),
        (401, "allow", [3, 2, 1]),
        // The second and the third are used up, and none is charged for what they deny.
        (200, "deny", [3, 2, 1]),
        (401, "deny", [3, 2, 1]),
    ] {
        assert_eq!(scene.ask(status).await, verdict, "{status}");
        assert_eq!(used(), expected, "{status}");
    }
    scene.checker.limiter.clock().advance(Micros::from_secs(7_200));
    assert_eq!(scene.ask(200).await, "allow");
    assert_eq!(used(), [1, 1, 0]);
}

#[tokio::test]
async fn a_client_that_goes_away_before_the_answer_is_a_499() {
    for (terms, used) in [
        (on(&["401"]), 0),
        (on(&["499"]), 1),
        (on(&["4xx"]), 1),
        (refund_on(&["5xx"]), 1),
        (refund_on(&["499"]), 0),
        (costs(ResponseCost::json("n", 7).unwrap()), 7),
        (ChargeTerms::AtOnce, 1),
    ] {
        let scene = Scene::new(&[("algorithm: sliding_log, requests_per_unit: 10", terms.clone())]);
        let mut admission = scene.admit().await;
        admission.turn().await;
        drop(admission);
        assert_eq!(scene.used(0), used, "{terms:?}");
    }
}

#[tokio::test]
async fn whoever_leaves_while_it_is_held_pays_nothing() {
    let scene = Scene::new(&[
        ("algorithm: leaky_bucket, requests_per_unit: 3600, burst: 5", ChargeTerms::AtOnce),
        ("algorithm: sliding_log, requests_per_unit: 9", refund_on(&["4xx"])),
        ("algorithm: sliding_log, requests_per_unit: 9", on(&["499", "200"])),
    ]);
    assert_eq!(scene.ask(200).await, "allow");
    let before = [0, 1, 2].map(|index| scene.used(index));
    let held = scene.admit().await;
    assert_eq!(held.verdict.word(), "delay");
    drop(held);
    assert_eq!([0, 1, 2].map(|index| scene.used(index)), before);
    // One that waits is charged like any other.
    tokio::time::pause();
    let mut held = scene.admit().await;
    held.turn().await;
    assert!(held.answered(200, &HeaderMap::new()).is_none());
    assert_eq!([1, 2].map(|index| scene.used(index)), [2, 2]);
}

#[tokio::test]
async fn an_answer_is_charged_by_the_mapping_that_let_its_request_in_and_by_the_rules_of_its_end() {
    let mut scene = Scene::new(&[("algorithm: sliding_log, requests_per_unit: 2", on(&["401"]))]);
    let mut admission = scene.admit().await;
    scene.control = scene.control.clone().with_mapping(mapping([on(&["403"])]));
    scene.checker.limiter.replace_rules(rules(&["algorithm: sliding_log, requests_per_unit: 5"]));
    assert!(admission.answered(401, &HeaderMap::new()).is_none());
    assert_eq!(scene.used(0), 1);
    assert_eq!(scene.ask(401).await, "allow");
    assert_eq!(scene.used(0), 1, "the new mapping counts other answers");
}

#[tokio::test]
async fn a_clock_that_steps_is_followed() {
    for (seconds, verdict) in [(1_700_007_200, "allow"), (1_699_992_800, "deny")] {
        let scene = Scene::new(&[("algorithm: sliding_log, requests_per_unit: 2", on(&["401"]))]);
        assert_eq!(scene.ask(401).await, "allow");
        let mut open = scene.admit().await;
        assert!(open.answered(401, &HeaderMap::new()).is_none());
        scene.checker.limiter.clock().set(Time::from_secs(seconds));
        assert_eq!(scene.ask(401).await, verdict, "{seconds}");
    }
}

/// A body of these frames.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    fields.iter().map(pair).collect()
}

fn trailers(fields: &[(&'static str, &'static str)]) -> Frame<Bytes> {
    Frame::trailers(headers(fields))
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

/// What is charged on these terms for an answer with this head and body, of which `seen` frames pass
/// before it is dropped.
async fn charged(
    terms: &ChargeTerms,
    head: &[(&'static str, &'static str)],
    frames: Vec<Frame<Bytes>>,
    seen: usize,
) -> u64 {
    let scene = Scene::new(&[("algorithm: fixed_window, requests_per_unit: 1000000", terms.clone())]);
    let mut admission = scene.admit().await;
    let meter = admission.answered(200, &headers(head));
    let shown: Vec<Option<Bytes>> = frames.iter().map(|frame| frame.data_ref().cloned()).collect();
    let mut body = MeteredBody::new(Frames(frames.into()), meter);
    let mut passed = Vec::new();
    while passed.len() < seen {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(Ok(frame)) = frame else { break };
        passed.push(frame.into_data().ok());
    }
    assert_eq!(passed, shown[..passed.len()], "not a byte is changed");
    drop(body);
    scene.used(0)
}

const ALL: usize = usize::MAX;

#[tokio::test]
async fn a_cost_is_read_in_the_head_or_the_trailers() {
    let name = HeaderName::from_static("x-cost");
    let terms = costs(ResponseCost::Header { name, default: 3 });
    assert_eq!(charged(&terms, &[("x-cost", "17")], vec![data("a")], 0).await, 17);
    assert_eq!(charged(&terms, &[("x-cost", " 17 ")], vec![], ALL).await, 17);
    assert_eq!(charged(&terms, &[("x-cost", "0")], vec![data("a")], ALL).await, 0);
    assert_eq!(charged(&terms, &[], vec![data("a"), trailers(&[("x-cost", "9")])], ALL).await, 9);
    assert_eq!(
        charged(&terms, &[], vec![data("a"), trailers(&[("x-cost", "9")])], 1).await,
        3,
        "it broke off"
    );
    assert_eq!(
        charged(&terms, &[("x-cost", "1.5")], vec![data("a")], ALL).await,
        2,
        "rounded up, as in JSON"
    );
    for wrong in ["", "-1", "many", ".5"] {
        assert_eq!(charged(&terms, &[("x-cost", wrong)], vec![data("a")], ALL).await, 3, "{wrong}");
    }
}

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const EVENTS: [(&str, &str); 1] = [("content-type", "text/event-stream")];

#[tokio::test]
async fn a_cost_is_read_in_json_while_it_passes() {
    let terms = costs(ResponseCost::json("usage.total_tokens", 3).unwrap());
    let whole =
        || vec![data(r#"{"id":1,"usa"#), data(r#"ge":{"total_tok"#), data(r#"ens":4"#), data(r#"2}}"#)];
    assert_eq!(charged(&terms, &JSON, whole(), ALL).await, 42);
    assert_eq!(charged(&terms, &JSON, whole(), 4).await, 42);
    for seen in 0..4 {
        assert_eq!(charged(&terms, &JSON, whole(), seen).await, 3, "nothing was seen in {seen}");
    }
    let gzip = [("content-type", "application/json"), ("content-encoding", "gzip")];
    assert_eq!(charged(&terms, &gzip, whole(), ALL).await, 3, "it cannot be read");
    assert_eq!(charged(&terms, &[("content-type", "text/html")], whole(), ALL).await, 3);
    assert_eq!(charged(&terms, &JSON, vec![], ALL).await, 3, "as for HEAD, there is no body");
}

#[tokio::test]
async fn the_last_event_counts_and_a_stream_that_breaks_off_is_charged_for_what_was_seen() {
    let terms = costs(ResponseCost::json("usage.total_tokens", 3).unwrap());
    let events = || {
        vec![
            data("data: {\"text\":\"a\"}\n\n"),
            data("data: {\"usage\":{\"total_tokens\":5}}\n\n"),
            data("data: {\"usage\":{\"total_tokens\":8}}\n\n"),
            data("data: [DONE]\n\n"),
        ]
    };
    for (seen, cost) in [(0, 3), (1, 3), (2, 5), (3, 8), (ALL, 8)] {
        assert_eq!(charged(&terms, &EVENTS, events(), seen).await, cost, "{seen}");
    }
}

#[tokio::test]
async fn answers_of_grpc_count_by_their_own_status() {
    let failed = on(&["401", "5xx"]);
    let grpc = [("content-type", "application/grpc")];
    let ended = |status: &'static str| vec![data("m"), trailers(&[("grpc-status", status)])];
    for (status, cost) in [("0", 0), ("16", 1), ("13", 1), ("14", 1), ("7", 0), ("99", 1), ("x", 1)] {
        assert_eq!(charged(&failed, &grpc, ended(status), ALL).await, cost, "{status}");
    }
    assert_eq!(charged(&failed, &grpc, vec![data("m")], ALL).await, 1, "no status is an unknown error");
    assert_eq!(charged(&failed, &grpc, ended("0"), 1).await, 0, "cancelled");
    assert_eq!(charged(&on(&["499"]), &grpc, ended("0"), 1).await, 1, "cancelled");
    let at_once = [("content-type", "application/grpc"), ("grpc-status", "16")];
    assert_eq!(charged(&failed, &at_once, vec![], ALL).await, 1);
    assert_eq!(charged(&failed, &[("content-type", "application/grpc-web")], ended("16"), ALL).await, 0);
}
