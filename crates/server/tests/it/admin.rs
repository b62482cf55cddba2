//! The admin pages, their token, and the Prometheus listener of its own.

use crate::support::http::{get, get_with};
use crate::support::wire::ask_one;
use crate::support::{Server, Setup};

const RULES: &str = "
domain: z
descriptors:
  - key: b
    value: x
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 3 }
  - key: a
    quota_mode: true
    rate_limit: { unit: second, requests_per_unit: 1 }
    descriptors:
      - key: deep
        rate_limit: { unit: day, requests_per_unit: 7 }
  - key: staff
    rate_limit: { unlimited: true, name: staff }
";

#[tokio::test]
async fn the_rules_in_force_are_listed_one_a_line_and_sorted() {
    let server = Server::with(RULES).await;
    let expected = "\
z.a.deep: unit=DAY requests_per_unit=7, shadow_mode: false, quota_mode: false
z.a: unit=SECOND requests_per_unit=1, shadow_mode: false, quota_mode: true
z.b_x: unit=HOUR requests_per_unit=3, shadow_mode: true, quota_mode: false
z.staff: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, unlimited: true, name: staff
";
    assert_eq!(get(server.addresses.admin, "/rlconfig").await, (200, expected.to_owned()));
    let (_, listed) = get(server.addresses.admin, "/v1/rules").await;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["unlimited"], serde_json::json!([{ "name": "staff", "path": "z.staff" }]));
}

#[tokio::test]
async fn pages_are_listed_and_what_is_none_is_said_to_be_none() {
    let server = Server::with(RULES).await;
    let (status, list) = get(server.addresses.admin, "/").await;
    assert_eq!(status, 200);
    for page in ["/metrics: ", "/rlconfig: ", "/stats: "] {
        assert!(list.contains(page), "{list}");
        let path = page.trim_end_matches(": ");
        assert_eq!(get(server.addresses.admin, path).await.0, 200);
    }
    assert_eq!(get(server.addresses.admin, "/nothing").await.0, 404);
    assert_eq!(get(server.addresses.http, "/metrics").await.0, 404, "callers do not see the pages");
}

#[tokio::test]
async fn stats_are_the_dotted_counters() {
    let server = Server::with(RULES).await;
    ask_one(&mut server.client().await, "z", &[("b", "x")]).await;
    assert_eq!(server.counter("ratelimit.service.rate_limit.z.b_x.total_hits").await, 1);
    let (_, page) = get(server.addresses.admin, "/stats").await;
    let names: Vec<&str> = page.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[tokio::test]
async fn with_a_token_every_page_demands_it() {
    let server =
        Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_ADMIN_TOKEN", "open sesame").start().await;
    let admin = server.addresses.admin;
    for page in ["/", "/rlconfig", "/stats", "/metrics", "/nothing"] {
        let (status, text) = get(admin, page).await;
        assert_eq!(status, 401);
        assert!(text.contains("TOLLGATE_ADMIN_TOKEN") && !text.contains("sesame"), "{text}");
        assert_eq!(get_with(admin, page, "authorization: Bearer open sesamE").await.0, 401);
        assert_ne!(get_with(admin, page, "authorization: Bearer open sesame").await.0, 401);
    }
}

#[tokio::test]
async fn prometheus_has_a_listener_of_its_own_with_one_page() {
    let server = Setup::new(&[("rules.yaml", RULES)])
        .env("USE_STATSD", "false")
        .env("USE_PROMETHEUS", "true")
        .env("PROMETHEUS_ADDR", "127.0.0.1:0")
        .env("PROMETHEUS_PATH", "/own")
        .start()
        .await;
    let own = server.addresses.prometheus.expect("it listens");
    let (status, page) = get(own, "/own").await;
    assert_eq!(status, 200);
    assert!(page.contains("ratelimit_service_config_load_success 1"), "{page}");
    for other in ["/", "/metrics", "/rlconfig", "/stats"] {
        assert_eq!(get(own, other).await.0, 404);
    }
}
