//! What an HTTP caller gets to see of every kind of rule.

use crate::patience::unix_seconds;
use crate::world::World;

const YEAR: u64 = 31_536_000;
const DAY: u64 = 86_400;

/// The seconds until a window of that length ends, now or a moment ago.
fn reset_of(window: u64, before: u64) -> std::ops::RangeInclusive<u64> {
    let left = |now: u64| window - now % window;
    left(unix_seconds())..=left(before)
}

#[test]
fn requests_pass_up_to_the_limit_and_then_get_429_with_exact_headers() {
    let world = World::new("limit", &[]);
    for (status, remaining) in [(200, 1), (200, 0), (429, 0), (429, 0)] {
        let before = unix_seconds();
        let answer = world.get("/", &[("x-user", "alice")]);
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), Some("2, 2;w=31536000;name=\"per_user\""));
        assert_eq!(answer.number("x-ratelimit-remaining"), remaining);
        let reset = answer.number("x-ratelimit-reset");
        assert!(reset_of(YEAR, before).contains(&reset), "{answer:?}");
        let is_limited = status == 429;
        assert_eq!(answer.header("x-envoy-ratelimited"), is_limited.then_some("true"));
        assert_eq!(answer.body, if is_limited { "" } else { "hello" });
        assert_eq!(answer.header("ratelimit-limit"), None, "only if asked for");
    }
    assert_eq!(world.statuses(3, &[("x-user", "bob")]), [200, 200, 429], "bob is not alice");
}

#[test]
fn what_no_rule_is_about_passes_and_says_nothing() {
    let world = World::new("no-rule", &[]);
    for headers in [&[("x-nobody", "asks")][..], &[], &[("x-plan", "gold"), ("x-member", "a")]] {
        let answer = world.get("/", headers);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit"), None, "{answer:?}");
    }
}

#[test]
fn headers_of_our_own_come_with_every_answer_if_asked_for() {
    let settings = [("LIMIT_RESPONSE_HEADERS_ENABLED", "true"), ("LIMIT_RESET_HEADER", "X-Again-In")];
    let world = World::new("headers", &settings);
    for (status, remaining) in [(200, 1), (200, 0), (429, 0)] {
        let before = unix_seconds();
        let answer = world.get("/", &[("x-user", "alice")]);
        assert_eq!(answer.status, status);
        assert_eq!(answer.number("ratelimit-limit"), 2);
        assert_eq!(answer.number("ratelimit-remaining"), remaining);
        assert!(reset_of(YEAR, before).contains(&answer.number("x-again-in")), "{answer:?}");
    }
}

#[test]
fn paths_and_addresses_are_limited_too() {
    let world = World::new("actions", &[]);
    // One counter for all that match `/path/*`.
    let paths = ["/path/a", "/path/b", "/path/c"].map(|path| world.get(path, &[]).status);
    assert_eq!(paths, [200, 200, 429]);
    let addresses = ["/address/a", "/address/b"].map(|path| world.get(path, &[]).status);
    assert_eq!(addresses, [200, 429]);
}

#[test]
fn a_limit_of_zero_bans_and_an_unlimited_rule_never_limits() {
    let world = World::new("ban", &[]);
    assert_eq!(world.statuses(2, &[("x-user", "banned")]), [429, 429]);
    assert_eq!(world.statuses(5, &[("x-user", "partner")]), [200; 5]);
    assert_eq!(world.get("/", &[("x-user", "partner")]).header("x-ratelimit-limit"), None);
}

#[test]
fn a_rule_in_the_shadow_counts_and_never_refuses() {
    let world = World::new("shadow", &[]);
    for remaining in [0, 0, 0] {
        let answer = world.get("/", &[("x-trial", "a")]);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("1, 1;w=31536000;name=\"trial\""));
        assert_eq!(answer.number("x-ratelimit-remaining"), remaining);
    }
}

#[test]
fn in_global_shadow_mode_nothing_is_refused() {
    let world = World::new("global-shadow", &[("SHADOW_MODE", "true")]);
    assert_eq!(world.statuses(4, &[("x-user", "alice")]), [200; 4]);
    assert_eq!(world.get("/", &[("x-user", "alice")]).number("x-ratelimit-remaining"), 0);
}

#[test]
fn a_rule_that_replaces_another_is_the_only_one_to_count() {
    let world = World::new("replaces", &[]);
    let both = [("x-user", "alice"), ("x-vip", "alice")];
    assert_eq!(world.get("/", &both).header("x-ratelimit-limit"), Some("4, 4;w=31536000;name=\"per_vip\""));
    assert_eq!(world.statuses(4, &both), [200, 200, 200, 429]);
    // Those were not counted by the replaced rule.
    assert_eq!(world.statuses(3, &[("x-user", "alice")]), [200, 200, 429]);
}

#[test]
fn in_quota_mode_one_quota_that_is_left_is_enough() {
    let world = World::new("quota", &[]);
    let both = [("x-project", "a"), ("x-team", "a")];
    assert_eq!(world.statuses(5, &both), [200, 200, 200, 429, 429]);
    // A rule that is no quota refuses all the same.
    let three = [("x-project", "b"), ("x-team", "b"), ("x-user", "banned")];
    assert_eq!(world.statuses(1, &three), [429]);
}

#[test]
fn dynamic_metadata_reaches_envoy_if_asked_for() {
    let world = World::new("metadata", &[("RESPONSE_DYNAMIC_METADATA", "true")]);
    let answer = world.get("/", &[("x-plan", "free"), ("x-member", "alice")]);
    let metadata = answer.header("x-metadata").map(str::to_owned).unwrap_or_default();
    for part in [
        r#""domain":"shop""#,
        r#""descriptors":[{"entries":["plan=free","member=alice"]}]"#,
        // The rule's own; not that of the node above it.
        r#""tier":"free member""#,
        r#""limits":{"a_year":1}"#,
    ] {
        assert!(metadata.contains(part), "{part} is missing: {answer:?}");
    }
    assert!(!metadata.contains("grey"), "{answer:?}");
    let without = World::new("no-metadata", &[]).get("/", &[("x-plan", "free"), ("x-member", "alice")]);
    assert_eq!(without.header("x-metadata"), None);
}

#[test]
fn a_leaky_bucket_tells_how_long_to_hold_a_request() {
    let world = World::new("leaky", &[]);
    let hour_ms = 3_600_000;
    let first = world.get("/", &[("x-report", "a")]);
    assert_eq!((first.status, first.header("x-ratelimit-wait-ms")), (200, None));
    for place in [1, 2] {
        let answer = world.get("/", &[("x-report", "a")]);
        assert_eq!(answer.status, 200);
        let (wait, full) = (answer.number("x-ratelimit-wait-ms"), place * hour_ms);
        // It shrinks while the test runs, but not by a minute.
        assert!((full - 60_000..=full).contains(&wait), "{answer:?}");
        let metadata = answer.header("x-metadata").unwrap_or_default();
        assert_eq!(metadata, format!("{{\"wait_ms\":{wait}}}"));
    }
    let last = world.get("/", &[("x-report", "a")]);
    assert_eq!((last.status, last.header("x-ratelimit-wait-ms")), (429, None));
}

#[test]
fn a_request_costs_what_envoy_says_and_may_give_back() {
    let world = World::new("hits", &[]);
    let spend = |amount: &str| {
        let answer = world.get("/tokens/", &[("x-spend", "alice"), ("x-amount", amount)]);
        (answer.status, answer.number("x-ratelimit-remaining"))
    };
    assert_eq!(spend("60"), (200, 40));
    assert_eq!(spend("41").0, 429);
    assert_eq!(spend("40"), (200, 0), "what was refused has cost nothing");
    let back = world.get("/tokens/", &[("x-back", "alice"), ("x-amount", "70")]);
    assert_eq!(back.status, 200);
    assert_eq!(spend("70"), (200, 0));
    assert_eq!(spend("1").0, 429);
}

#[test]
fn several_limits_on_one_descriptor_show_the_one_that_is_closest() {
    let world = World::new("several", &[]);
    let first = world.get("/", &[("x-both", "alice")]);
    assert_eq!(first.header("x-ratelimit-limit"), Some("2, 2;w=86400;name=\"burst\""));
    assert_eq!(world.statuses(2, &[("x-both", "alice")]), [200, 429]);
}

#[test]
fn a_limit_that_envoy_brings_along_holds() {
    let world = World::new("override", &[]);
    let before = unix_seconds();
    let first = world.get("/", &[("x-contract", "alice")]);
    assert_eq!(first.header("x-ratelimit-limit"), Some("3, 3;w=86400"));
    assert!(reset_of(DAY, before).contains(&first.number("x-ratelimit-reset")), "{first:?}");
    assert_eq!(world.get("/", &[("x-contract", "bob")]).number("x-ratelimit-remaining"), 2);
}
