//! The same at known instants, on a clock that goes where it is told: what is
//! rounded, and what chance may add.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use tollgate_core::{Descriptor, Entry, Request, Time};
use tollgate_http::CallerView;
use tollgate_limiter::{Limiter, ManualClock, MemoryStore, NoSink};
use tollgate_rules::SourceFile;
use tollgate_settings::{Flags, ReplySettings, Settings};

use crate::support::golden;

const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limit: { name: burst, algorithm: sliding_log, requests_per_unit: 1, unit: minute }
";

/// A limiter on a clock of ours, and the settings of a server.
struct Desk {
    limiter: Limiter<MemoryStore, ManualClock, NoSink>,
    answers: ReplySettings,
}

impl Desk {
    fn new(environment: &[(&str, &str)]) -> Self {
        let source = SourceFile { name: "rules.yaml".into(), text: RULES.into() };
        let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default()).unwrap();
        let store = MemoryStore::default();
        let limiter = Limiter::with(loaded.rules, store, ManualClock::at(Time::from_secs(1_000_000)), NoSink);
        let environment: HashMap<String, String> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (settings, _) = Settings::resolve(&Flags::default(), &environment, None).unwrap();
        Self { limiter, answers: settings.replies }
    }

    /// What is told about a request so many microseconds after the start:
    /// headers, and the body of a refusal.
    fn told_at(&self, after_us: u64) -> (Vec<(String, String)>, String) {
        self.limiter.clock().set(Time::new(1_000_000_000_000 + after_us));
        let entries = [Entry::from(("user_id", "42"))];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("shop", &descriptors);
        let reply = self.limiter.check(&request).at_once();
        let view = CallerView::new(&self.answers.responses, &request, &reply);
        let headers = view.headers::<tollgate_http::response::ResponseHeaders>().into_iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let body = match reply.verdict.is_deny() {
            true => String::from_utf8(view.problem(429).to_bytes()).unwrap(),
            false => String::new(),
        };
        (headers.collect(), body)
    }
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    &headers.iter().find(|(own, _)| own == name).unwrap().1
}

#[test]
fn seconds_are_rounded_up_and_milliseconds_too() {
    let desk = Desk::new(&[]);
    let mut text = String::new();
    for after_us in [0, 1, 999, 1_000, 1_001, 48_160_000, 59_000_000, 59_000_001, 59_999_999, 60_000_000] {
        let (headers, body) = desk.told_at(after_us);
        writeln!(text, "# after {after_us} µs").unwrap();
        for (name, value) in headers {
            writeln!(text, "{name}: {value}").unwrap();
        }
        writeln!(text, "{body}\n").unwrap();
    }
    golden::check("told_exact", &text.replace("\n\n\n", "\n\n"));
}

#[test]
fn chance_only_adds_and_leaves_the_exact_time_alone() {
    let desk = Desk::new(&[("TOLLGATE_RETRY_AFTER_JITTER", "10s")]);
    let (headers, _) = desk.told_at(0);
    assert!(headers.iter().all(|(name, _)| name != "retry-after"), "{headers:?}");
    let mut seen = BTreeSet::new();
    for _ in 0..1_000 {
        let (headers, body) = desk.told_at(48_160_000);
        let seconds: u64 = value(&headers, "retry-after").parse().unwrap();
        assert!((12..=22).contains(&seconds), "{headers:?}");
        assert_eq!(value(&headers, "x-ratelimit-retry-after"), seconds.to_string());
        assert_eq!(value(&headers, "ratelimit"), "\"burst\";r=0;t=12", "no later than Retry-After");
        assert!(body.contains("\"retry_after_ms\":11840}"), "{body}");
        assert!(body.contains(&format!("try again in {seconds} s")), "{body}");
        seen.insert(seconds);
    }
    // Each of eleven is missed by a thousand with a chance of 10^-41.
    assert_eq!(seen, (12..=22).collect());
}
