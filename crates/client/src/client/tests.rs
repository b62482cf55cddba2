//! The client over a server that plays a script, on tokio's clock, which stands still but for sleeps.

use std::collections::VecDeque;

use proptest::prelude::*;
use tollgate_core::{Descriptor, Entry, Micros};

use super::*;
use crate::reply::ReplyOrigin;
use crate::settings::WhenUnreachable;
use crate::transport::Sending;

/// What the server does with one attempt.
#[derive(Debug, Clone)]
enum Play {
    /// A status, `Retry-After` and a body.
    Answer(u16, Option<u64>, String),
    /// A refusal with these fields, which may be odd.
    Refusal(u16, Vec<(&'static str, String)>),
    /// No connection.
    Refuse,
    /// The connection breaks after the request was sent.
    Break,
    /// Nothing ever comes.
    Hang,
}

/// Plays its script, the last line for ever, and notes when it was asked.
#[derive(Clone)]
struct Script {
    plays: Arc<Mutex<VecDeque<Play>>>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl SendRequest for Script {
    fn send(&self, _: http::Request<Full<Bytes>>) -> Sending {
        self.asked.lock().push(Instant::now());
        let mut plays = self.plays.lock();
        let play = if plays.len() > 1 { plays.pop_front() } else { plays.front().cloned() };
        Box::pin(async move {
            // Others get their turn before it is answered.
            tokio::task::yield_now().await;
            let broken = |never_sent| Err(SendFailure { never_sent, source: "broken".into() });
            match play.unwrap() {
                Play::Refuse => broken(true),
                Play::Refusal(status, fields) => {
                    let fields =
                        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
                    let (headers, status) = (fields.collect(), StatusCode::from_u16(status).unwrap());
                    Ok(RawReply { status, headers, body: Bytes::new(), trailers: HeaderMap::new() })
                }
                Play::Break => broken(false),
                Play::Hang => std::future::pending().await,
                Play::Answer(status, retry_after, body) => {
                    let mut headers = HeaderMap::new();
                    if let Some(seconds) = retry_after {
                        headers.insert(http::header::RETRY_AFTER, seconds.into());
                    }
                    let status = StatusCode::from_u16(status).unwrap();
                    Ok(RawReply { status, headers, body: body.into(), trailers: HeaderMap::new() })
                }
            }
        })
    }
}

impl Script {
    fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

fn allow() -> Play {
    Play::Answer(200, None, r#"{"verdict":"allow","decisions":[]}"#.into())
}

fn delay(wait_ms: u64) -> Play {
    Play::Answer(200, None, format!(r#"{{"verdict":"delay","wait_ms":{wait_ms},"decisions":[]}}"#))
}

fn deny(retry_after_ms: u64) -> Play {
    let body = format!(r#"{{"verdict":"deny","retry_after_ms":{retry_after_ms},"decisions":[]}}"#);
    Play::Answer(429, Some(retry_after_ms.div_ceil(1_000)), body)
}

fn busy(retry_after_s: u64) -> Play {
    Play::Answer(503, Some(retry_after_s), r#"{"detail":"no rules are loaded yet"}"#.into())
}

fn client(plays: &[Play], settings: ClientSettings) -> (Client, Script) {
    let plays = plays.iter().cloned().collect();
    let script = Script { plays: Arc::new(Mutex::new(plays)), asked: Arc::default() };
    let (url, sender) = ("http://server".to_owned(), Box::new(script.clone()));
    let server = Server { url, protocol: Protocol::Http, tls: None, sender };
    (Client::over(server, settings), script)
}

fn patient() -> ClientSettings {
    ClientSettings { timeout: Duration::from_secs(10), ..ClientSettings::default() }
}

const ENTRIES: &[Entry<'_>] = &[Entry { key: "user", value: "42" }];
const DESCRIPTORS: &[Descriptor<'_>] = &[Descriptor::new(ENTRIES)];
const REQUEST: Request<'_> = Request::new("shop", DESCRIPTORS);

async fn pass(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_denied_is_not_asked_again_before_its_time() {
    let (client, server) = client(&[deny(1_500), allow()], patient());
    assert!(client.check(&REQUEST).await.unwrap().verdict.is_deny());
    pass(1_499).await;
    let remembered = client.check(&REQUEST).await.unwrap();
    assert_eq!(remembered.verdict, Verdict::Deny { retry_after: Some(Micros::from_millis(1)) });
    assert_eq!((remembered.origin, server.count()), (ReplyOrigin::Memory, 1));
    pass(1).await;
    assert_eq!(client.check(&REQUEST).await.unwrap().verdict, Verdict::Allow);
    assert_eq!(server.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_cost_is_another_question_and_a_peek_is_always_asked() {
    let (client, server) = client(&[deny(60_000)], patient());
    assert!(client.check(&REQUEST).await.unwrap().verdict.is_deny());
    for other in [REQUEST.with_cost(2), Request::new("other", DESCRIPTORS)] {
        assert_eq!(client.check(&other).await.unwrap().origin, ReplyOrigin::Server);
    }
    assert_eq!(client.peek(&REQUEST).await.unwrap().origin, ReplyOrigin::Server);
    assert_eq!(client.report(&REQUEST).await.unwrap().origin, ReplyOrigin::Server);
    assert_eq!(client.check(&REQUEST).await.unwrap().origin, ReplyOrigin::Memory);
    assert_eq!(server.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_refund_makes_it_ask_again_even_if_the_refund_is_lost() {
    for outcome in [allow(), Play::Break, Play::Hang] {
        let (client, server) = client(&[deny(60_000), outcome, allow()], patient());
        assert!(client.check(&REQUEST).await.unwrap().verdict.is_deny());
        drop(client.refund(&REQUEST).await);
        assert_eq!(client.check(&REQUEST).await.unwrap().verdict, Verdict::Allow);
        assert_eq!(server.count(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_twice_that_may_have_been_decided_but_a_peek() {
    let (client, server) = client(&[Play::Break], patient());
    assert!(matches!(client.check(&REQUEST).await, Err(Error::Unreachable { .. })));
    assert!(client.report(&REQUEST).await.is_err() && client.refund(&REQUEST).await.is_err());
    assert_eq!(server.count(), 3);
    assert!(client.peek(&REQUEST).await.is_err());
    assert_eq!(server.count(), 3 + 1 + 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_arrived_is_made_again_with_growing_waits() {
    let (client, server) = client(&[Play::Refuse], patient());
    assert!(matches!(client.check(&REQUEST).await, Err(Error::Unreachable { .. })));
    let asked = server.asked.lock().clone();
    assert_eq!(asked.len(), 4);
    for (retry, pair) in asked.windows(2).enumerate() {
        // Tokio's timer rounds up to whole milliseconds.
        let most = client.shared.settings.backoff.ceiling(u32::try_from(retry).unwrap());
        assert!(
            pair[1] - pair[0] <= most + Duration::from_millis(1),
            "retry {retry}: {:?}",
            pair[1] - pair[0]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_caller_chooses_what_stands_in_for_a_server_that_is_away() {
    for play in [Play::Refuse, Play::Break, Play::Hang, busy(60)] {
        let deny = WhenUnreachable::Deny { retry_after: Duration::from_secs(3) };
        let denial = Verdict::Deny { retry_after: Some(Micros::from_secs(3)) };
        for (choice, verdict) in [(WhenUnreachable::Allow, Verdict::Allow), (deny, denial)] {
            let settings = ClientSettings { when_unreachable: choice, ..ClientSettings::default() };
            let (client, _) = client(std::slice::from_ref(&play), settings);
            let reply = client.check(&REQUEST).await.unwrap();
            assert_eq!((reply.verdict, reply.origin), (verdict, ReplyOrigin::Unreachable), "{play:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_no_longer_than_its_timeout() {
    for play in [Play::Hang, Play::Refuse, busy(0)] {
        let settings = ClientSettings { timeout: Duration::from_millis(30), ..ClientSettings::default() };
        let (client, _) = client(std::slice::from_ref(&play), settings);
        let start = Instant::now();
        assert!(client.check(&REQUEST).await.is_err());
        assert!(start.elapsed() <= Duration::from_millis(31), "{play:?} {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_quiet_is_left_alone_by_all_calls() {
    let (client, server) = client(&[busy(2), allow()], ClientSettings::default());
    let start = Instant::now();
    for _ in 0..100 {
        assert!(matches!(client.check(&REQUEST).await, Err(Error::Unavailable { status: 503, .. })));
    }
    assert_eq!((server.count(), start.elapsed()), (1, Duration::ZERO));
    pass(1_500).await;
    // Now the rest of the time fits into the timeout, and is waited for.
    assert_eq!(client.check(&REQUEST).await.unwrap().verdict, Verdict::Allow);
    assert!(start.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_the_end_of_quiet_come_spread_out() {
    const CALLS: usize = 50;
    let (client, server) = client(&[busy(2), allow()], ClientSettings::default());
    let start = Instant::now();
    assert!(client.check(&REQUEST).await.is_err());
    pass(1_600).await;
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.check(&REQUEST).await.unwrap().verdict })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Verdict::Allow);
    }
    let asked: Vec<Duration> = server.asked.lock().iter().skip(1).map(|at| *at - start).collect();
    let base = client.shared.settings.backoff.base;
    assert!(asked.iter().all(|at| (Duration::from_secs(2)..=Duration::from_secs(2) + base).contains(at)));
    let instants: std::collections::HashSet<_> = asked.iter().collect();
    assert!(asked.len() == CALLS && instants.len() > 5, "{asked:?}");
}

/// By every status that says so, and in every form that a time has; what cannot be read is waited for by back-off
/// alone, which is 20 ms at most at first.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_decided_is_made_again_when_the_server_says() {
    let after = |text: &str| vec![("retry-after", text.to_owned())];
    let at = |until: &str, now: &str| vec![("retry-after", until.to_owned()), ("date", now.to_owned())];
    let cases = [
        (after("3"), Some(3)),
        (after("0"), Some(0)),
        (at("Sun, 06 Nov 1994 08:49:40 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(3)),
        (at("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:40 GMT"), Some(0)),
        // This clock is past that date.
        (after("Sun, 06 Nov 1994 08:49:40 GMT"), Some(0)),
        (after("-3"), Some(0)),
        (after("3 s"), Some(0)),
        (after(""), Some(0)),
        (Vec::new(), Some(0)),
        // Longer than the call may take, and longer than anybody means.
        (after("11"), None),
        (after("99999999999999999999"), None),
        (after("Sat, 06 Nov 2094 08:49:40 GMT"), None),
    ];
    for status in [503, 429, 408] {
        for (fields, expected) in &cases {
            let (client, server) = client(&[Play::Refusal(status, fields.clone()), allow()], patient());
            let start = Instant::now();
            let answered = client.check(&REQUEST).await;
            let Some(told) = expected.map(Duration::from_secs) else {
                assert!(answered.is_err(), "{status} {fields:?}");
                assert_eq!((server.count(), start.elapsed()), (1, Duration::ZERO), "{status} {fields:?}");
                // A day later it is asked again, whatever was said.
                pass(86_400_000).await;
                assert!(client.check(&REQUEST).await.is_ok(), "{status} {fields:?}");
                continue;
            };
            assert_eq!(answered.unwrap().verdict, Verdict::Allow, "{status} {fields:?}");
            let took = start.elapsed();
            assert!(
                took >= told && took <= told + Duration::from_millis(22),
                "{status} {fields:?}: {took:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_quiet_that_was_asked_for_holds() {
    // Whichever of the two is answered last.
    for told in [[60, 1], [1, 60]] {
        let (client, server) = client(&[busy(told[0]), busy(told[1]), allow()], ClientSettings::default());
        let other = REQUEST.with_cost(2);
        let (one, two) = tokio::join!(client.check(&REQUEST), client.check(&other));
        assert!(one.is_err() && two.is_err() && server.count() == 2);
        pass(5_000).await;
        assert!(client.check(&REQUEST).await.is_err(), "{told:?}");
        assert_eq!(server.count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_without_the_servers_store_is_not_remembered() {
    let decision = r#"{"descriptor":0,"rule":"r","algorithm":"fixed_window","verdict":"deny","limit":1,"remaining":0,
        "retry_after_ms":60000,"reset_after_ms":60000,"shadow":false,"soft":false,"degraded":true}"#;
    let body = format!(r#"{{"verdict":"deny","retry_after_ms":60000,"binding":0,"decisions":[{decision}]}}"#);
    let (client, server) = client(&[Play::Answer(429, Some(60), body), allow()], patient());
    assert!(client.check(&REQUEST).await.unwrap().verdict.is_deny());
    assert_eq!(client.check(&REQUEST).await.unwrap().verdict, Verdict::Allow);
    assert_eq!(server.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_rejects_is_an_error_whatever_stands_in() {
    let settings = ClientSettings { when_unreachable: WhenUnreachable::Allow, ..ClientSettings::default() };
    let body = r#"{"detail":"the key is too long","pointer":"/descriptors/0","fix":"send less"}"#;
    let (client, server) = client(&[Play::Answer(400, None, body.into())], settings);
    let error = client.check(&REQUEST).await.unwrap_err().to_string();
    let said =
        "http://server does not take the request (400): the key is too long at /descriptors/0; send less";
    assert_eq!((error.as_str(), server.count()), (said, 1));
    let empty = client.check(&Request::new("", DESCRIPTORS)).await.unwrap_err().to_string();
    assert_eq!(empty, "the request has no domain");
    assert!(client.check(&Request::new("shop", &[])).await.is_err());
    assert_eq!(server.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_429_is_no_denial() {
    let plays = [Play::Answer(429, Some(3), "slow down".into()), allow()];
    let (client, server) = client(&plays, patient());
    let start = Instant::now();
    assert_eq!(client.check(&REQUEST).await.unwrap().verdict, Verdict::Allow);
    assert!(start.elapsed() >= Duration::from_secs(3) && server.count() == 2);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_waited_out_or_handed_on() {
    let (client, _) = client(&[delay(700)], patient());
    let start = Instant::now();
    let reply = client.until_allowed(&REQUEST, Duration::from_secs(1)).await.unwrap();
    assert_eq!((reply.verdict, start.elapsed()), (Verdict::Allow, Duration::from_millis(700)));
    let reply = client.until_allowed(&REQUEST, Duration::from_millis(699)).await.unwrap();
    assert_eq!(reply.verdict, Verdict::Delay { wait: Micros::from_millis(700) });
    assert_eq!(start.elapsed(), Duration::from_millis(700));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is told, nobody is asked before the time, and nobody waits beyond the limit.
    #[test]
    fn waiting_never_comes_too_early_nor_takes_too_long(
        told in prop::collection::vec(0_u64..3_000, 0..6), max_wait_ms in 0_u64..6_000,
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let plays: Vec<Play> = told.iter().map(|ms| deny(*ms)).chain([allow()]).collect();
            let (client, server) = client(&plays, patient());
            let start = Instant::now();
            let reply = client.until_allowed(&REQUEST, Duration::from_millis(max_wait_ms)).await.unwrap();
            assert!(start.elapsed() <= Duration::from_millis(max_wait_ms + 1));
            let asked = server.asked.lock().clone();
            for (pair, told) in asked.windows(2).zip(&told) {
                assert!(pair[1] - pair[0] >= Duration::from_millis(*told), "{asked:?} {told:?}");
            }
            assert_eq!(reply.verdict.is_deny(), asked.len() <= told.len());
        });
    }
}

#[test]
fn an_address_is_checked_at_once() {
    let said = |url: &str| Client::http(url).unwrap_err().to_string();
    assert!(said("127.0.0.1:8080").contains("it has no http:// before it"), "{}", said("127.0.0.1:8080"));
    assert!(said("ftp://host").contains("neither http nor https"));
    assert!(said("http://host?x=1").contains("it has a query"));
    assert!(said("http://host#x").contains("it has a fragment"));
    for url in ["http://host:99999", "http://[::1]:65536/", "http://host:0"] {
        assert!(said(url).contains("its port is not from 1 to 65535"), "{url}");
    }
    for url in [
        "http://host",
        "http://host:1/",
        "https://user@host:65535/limits/",
        "http://[::1]",
        "http://[::1]:8080",
    ] {
        assert!(Client::http(url).is_ok(), "{url}");
    }
    assert!(said("http:// host").starts_with("\"http:// host\" is no address of a server: "));
}
