//! The headers and the body that callers get where Tollgate may tell them.

use crate::http::Answer;
use crate::world::{TELL, World};

const DAY_S: u64 = 86_400;

/// The seconds until a retry, which are those of a day less what the test has taken.
fn retry_s(answer: &Answer) -> u64 {
    let seconds = answer.number("retry-after");
    assert!((DAY_S - 60..=DAY_S).contains(&seconds), "{answer:?}");
    seconds
}

#[test]
fn a_caller_behind_envoy_is_told_the_same_as_any_other() {
    let world = World::new("telling-all", &[(TELL, "all")]);
    let first = world.get("/", &[("x-both", "alice")]);
    assert_eq!((first.status, first.body.as_str()), (200, "hello"));
    let told = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-retry-after", "ratelimit-policy"];
    let expected =
        [Some("2"), Some("1"), Some("0"), Some("\"burst\";q=2;w=86400, \"sustained\";q=100;w=31536000")];
    assert_eq!(told.map(|name| first.header(name)), expected);
    assert!(
        first
            .header("ratelimit")
            .is_some_and(|left| left.starts_with("\"burst\";r=1;t=86400, \"sustained\";r=99;t=")),
        "{first:?}"
    );
    assert_eq!((first.header("retry-after"), first.header("content-type")), (None, None));

    world.get("/", &[("x-both", "alice")]);
    let refused = world.get("/", &[("x-both", "alice")]);
    assert_eq!(refused.status, 429);
    let seconds = retry_s(&refused);
    assert_eq!(refused.number("x-ratelimit-retry-after"), seconds);
    assert_eq!(told.map(|name| refused.header(name))[..2], [Some("2"), Some("0")]);
    assert_eq!(refused.header("ratelimit-policy"), Some("\"burst\";q=2;w=86400"));
    assert_eq!(refused.header("ratelimit"), Some(format!("\"burst\";r=0;t={seconds}").as_str()));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.number("content-length"), u64::try_from(refused.body.len()).unwrap());
    let (before, milliseconds) = refused.body.rsplit_once(':').unwrap();
    let problem = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"slow down, please","violated-policies":["burst"],"retry_after_ms""#;
    assert_eq!(before, problem);
    let milliseconds: u64 = milliseconds.trim_end_matches('}').parse().unwrap();
    assert_eq!(milliseconds.div_ceil(1_000), seconds);
}

#[test]
fn a_soft_allowance_and_a_wait_are_told_through_envoy_too() {
    let world = World::new("telling-soft", &[(TELL, "all")]);
    let told = |answer: &Answer| (answer.status, answer.header("x-ratelimit-soft").map(str::to_owned));
    for soft in [None, None, Some("true")] {
        let answer = world.get("/", &[("x-soft", "alice")]);
        assert_eq!(told(&answer), (200, soft.map(str::to_owned)), "{answer:?}");
    }
    assert_eq!(told(&world.get("/", &[("x-soft", "alice")])), (429, None));
    world.get("/", &[("x-report", "a")]);
    let waits = world.get("/", &[("x-report", "a")]);
    assert_eq!(waits.status, 200);
    assert!((3_540_000..=3_600_000).contains(&waits.number("x-ratelimit-wait-ms")), "{waits:?}");
}

#[test]
fn with_headers_alone_a_refusal_has_no_body() {
    let world = World::new("telling-headers", &[(TELL, "headers")]);
    for _ in 0..2 {
        world.get("/", &[("x-both", "alice")]);
    }
    let refused = world.get("/", &[("x-both", "alice")]);
    assert_eq!((refused.status, refused.body.as_str()), (429, ""));
    assert_eq!(refused.header("content-type"), None);
    retry_s(&refused);
}

#[test]
fn nothing_is_told_about_what_is_in_the_shadow() {
    let world = World::new("telling-shadow", &[(TELL, "all")]);
    for _ in 0..2 {
        let answer = world.get("/", &[("x-trial", "alice")]);
        assert_eq!(answer.status, 200);
        assert_eq!((answer.header("x-ratelimit-limit"), answer.header("ratelimit")), (None, None));
    }
}

#[test]
fn a_grpc_caller_behind_envoy_is_told_in_its_status() {
    let world = World::new("telling-grpc", &[(TELL, "all")]);
    let ask = || world.get("/", &[("x-both", "alice"), ("content-type", "application/grpc")]);
    ask();
    ask();
    let refused = ask();
    assert_eq!((refused.status, refused.body.as_str()), (200, ""), "{refused:?}");
    assert_eq!(refused.header("content-type"), Some("application/grpc"));
    assert_eq!(refused.header("grpc-status"), Some("14"), "UNAVAILABLE, as Envoy has it");
    assert!(
        refused.header("grpc-message").is_some_and(|told| told.contains("slow down, please")),
        "{refused:?}"
    );
    retry_s(&refused);
}
