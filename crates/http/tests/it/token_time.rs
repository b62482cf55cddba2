//! Tokens are judged by the calendar, limits by the limiter's clock, also while they differ.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use tollgate_core::{Micros, Outcome, Time};
use tollgate_http::request::token::{KeyFile, KeyForm, TokenSpec};
use tollgate_http::{
    Action, AdmissionControl, Fact, LimiterChecker, Mapping, ResponseSettings, TokenSource, TokenVerifier,
};
use tollgate_limiter::{Clock, Limiter, ManualClock, MemoryStore, NoSink};
use tollgate_rules::{Options, SourceFile, load};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const START: Time = Time::from_secs(1_700_000_000);
const DAY: Micros = Micros::from_secs(86_400);
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { algorithm: sliding_log, requests_per_unit: 1, unit: hour }
";

/// A clock that need not show what the calendar says.
struct SteppedClock {
    now: ManualClock,
    calendar: ManualClock,
}

impl Clock for SteppedClock {
    fn now(&self) -> Time {
        self.now.now()
    }

    fn calendar(&self) -> Time {
        self.calendar.now()
    }
}

type SteppedChecker = LimiterChecker<MemoryStore, SteppedClock, NoSink>;

fn checker() -> Arc<SteppedChecker> {
    let source = SourceFile { name: "rules.yaml".into(), text: RULES.into() };
    let rules = load(vec![source], &Options::default()).expect("the rules are right").rules;
    let clock = SteppedClock { now: ManualClock::at(START), calendar: ManualClock::at(START) };
    let limiter = Arc::new(Limiter::with(rules, MemoryStore::default(), clock, NoSink));
    Arc::new(LimiterChecker { limiter, responses: ResponseSettings::default() })
}

fn admission() -> AdmissionControl {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("secret");
    std::fs::write(&path, SECRET).expect("there is room");
    let files = vec![KeyFile { path, form: KeyForm::Secret, algorithms: Vec::new() }];
    let tokens = TokenVerifier::load(TokenSpec { files, ..TokenSpec::default() }).expect("it is a secret");
    let claim = Fact::Claim { path: vec!["sub".to_owned()], source: TokenSource::default() };
    let mapping = Mapping::new("shop", vec![vec![Action::new("user", claim)]]);
    let mapping = mapping.expect("the mapping is right").with_tokens(Arc::new(tokens));
    AdmissionControl::new(mapping, Duration::ZERO)
}

/// A token that is valid from a minute before the start until ten minutes after it.
fn headers() -> HeaderMap {
    let (from, until) = (1_700_000_000 - 60, 1_700_000_000 + 600);
    let claims = format!(r#"{{"sub":"42","nbf":{from},"exp":{until}}}"#);
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", part(r#"{"alg":"HS256"}"#), part(&claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    let token = format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature));
    HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_str(&token).expect("it is plain"))])
}

/// How a request with the token is counted; none if the token made no descriptor.
async fn outcome(admission: &AdmissionControl, checker: &Arc<SteppedChecker>) -> Option<Outcome> {
    let headers = headers();
    let facts = crate::mapping::bare_facts(&headers);
    admission.admit(checker, &facts).await.expect("nothing is demanded").outcome
}

#[tokio::test]
async fn a_clock_that_is_elsewhere_makes_no_valid_token_invalid() {
    for limiters in [START, START + DAY, Time::new(START.get() - DAY.get())] {
        let (admission, checker) = (admission(), checker());
        checker.limiter.clock().now.set(limiters);
        assert_eq!(outcome(&admission, &checker).await, Some(Outcome::Allowed));
        assert_eq!(outcome(&admission, &checker).await, Some(Outcome::Denied), "it is limited, too");
    }
}

#[tokio::test]
async fn a_token_runs_out_and_begins_by_the_calendar() {
    let (admission, checker) = (admission(), checker());
    let cases = [
        (START + Micros::from_secs(599), true),
        (START + Micros::from_secs(600), false),
        // Stepped back, also to before it begins.
        (START, true),
        (Time::new(START.get() - 60_000_000), true),
        (Time::new(START.get() - 60_000_001), false),
        (START, true),
    ];
    for (calendar, is_valid) in cases {
        checker.limiter.clock().calendar.set(calendar);
        assert_eq!(outcome(&admission, &checker).await.is_some(), is_valid, "{calendar:?}");
    }
}
