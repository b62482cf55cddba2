//! The admin pages, their token, and the Prometheus listener of its own.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::http::{self, get, get_with};
use crate::support::wire::ask_one;
use crate::support::{Server, Setup, eventually, replace_file};

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
    for page in ["/", "/rlconfig", "/stats", "/metrics", "/v1/explain", "/nothing"] {
        let (status, text) = get(admin, page).await;
        assert_eq!(status, 401);
        assert!(text.contains("TOLLGATE_ADMIN_TOKEN") && !text.contains("sesame"), "{text}");
        assert_eq!(get_with(admin, page, "authorization: Bearer open sesamE").await.0, 401);
        assert_ne!(get_with(admin, page, "authorization: Bearer open sesame").await.0, 401);
    }
}

/// A page that an operator visits must not reset his counters.
#[tokio::test]
async fn other_web_sites_get_nothing_and_change_nothing() {
    let server =
        Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_ADMIN_HOSTS", "tollgate.example").start().await;
    let admin = server.addresses.admin;
    let body = r#"{"domain":"z","descriptors":[{"b":"x"}]}"#;
    let reset = |headers: &str| {
        let length = body.len();
        format!(
            "POST /v1/keys/reset HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let json = "host: localhost\r\ncontent-type: application/json\r\n";
    for (headers, status) in [
        (json.to_owned(), 200),
        ("host: localhost\r\ncontent-type: text/plain\r\n".to_owned(), 415),
        ("host: localhost\r\n".to_owned(), 415),
        (json.replace("localhost", "evil.example"), 403),
        (json.replace("localhost", "tollgate.example"), 200),
        (json.to_owned() + "origin: http://evil.example\r\n", 403),
        (json.to_owned() + "origin: http://localhost\r\n", 200),
        (json.to_owned() + "sec-fetch-site: cross-site\r\n", 403),
    ] {
        assert_eq!(http::request(admin, &reset(&headers)).await.0, status, "{headers}");
    }
    let explain = |headers: &str| reset(headers).replace("/v1/keys/reset", "/v1/explain");
    for (headers, status) in [
        (json.to_owned(), 200),
        ("host: localhost\r\n".to_owned(), 415),
        (json.replace("localhost", "evil.example"), 403),
        (json.to_owned() + "origin: http://evil.example\r\n", 403),
        (json.to_owned() + "sec-fetch-site: cross-site\r\n", 403),
    ] {
        assert_eq!(http::request(admin, &explain(&headers)).await.0, status, "{headers}");
    }
    for line in ["GET /v1/keys?domain=z&b=x", "DELETE /v1/keys?domain=z&b=x", "GET /metrics", "GET /"] {
        let asked = format!("{line} HTTP/1.1\r\nhost: rebound.example:6070\r\nconnection: close\r\n\r\n");
        let (status, text) = http::request(admin, &asked).await;
        assert_eq!((status, text.contains("TOLLGATE_ADMIN_HOSTS")), (403, true), "{line}: {text}");
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

const TOKEN: &str = "open sesame";

fn sign_in_request(admin: std::net::SocketAddr, token: &str) -> String {
    let body = format!("{{\"token\":\"{token}\"}}");
    let length = body.len();
    format!(
        "POST /v1/session HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn sign_in(admin: std::net::SocketAddr, token: &str) -> (u16, String) {
    let answer = http::raw(admin, sign_in_request(admin, token).as_bytes()).await;
    (answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0), answer)
}

#[tokio::test]
async fn a_browser_signs_in_once_and_out_again() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_ADMIN_TOKEN", TOKEN).start().await;
    let admin = server.addresses.admin;
    let (status, page) = get_with(admin, "/", "accept: text/html").await;
    assert_eq!(status, 200, "the page itself holds no secrets: {page}");
    assert_eq!(get_with(admin, "/v1/rules", "cookie: tollgate_session=guessed").await.0, 401);
    assert_eq!(sign_in(admin, "open sesamE").await.0, 403);
    let (status, answer) = sign_in(admin, TOKEN).await;
    assert_eq!(status, 204, "{answer}");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains("sesame"), "{cookie}");
    let shown = format!("cookie: other=1; {}", cookie.split(';').next().unwrap());
    assert_eq!(get_with(admin, "/v1/rules", &shown).await.0, 200);
    let out = format!("DELETE /v1/session HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n{shown}\r\n\r\n");
    assert!(http::raw(admin, out.as_bytes()).await.contains(" 204 "));
    assert_eq!(get_with(admin, "/v1/rules", &shown).await.0, 401, "the session is over");
}

#[tokio::test]
async fn attempts_to_sign_in_are_limited() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_ADMIN_TOKEN", TOKEN).start().await;
    let admin = server.addresses.admin;
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(sign_in(admin, "guess").await.0);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 10, "{statuses:?}");
    let (status, answer) = sign_in(admin, TOKEN).await;
    assert_eq!(status, 429, "not even the token helps now: {answer}");
    assert!(answer.contains("retry-after: "), "{answer}");
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = elsewhere.connect(admin).await.unwrap();
    stream.write_all(sign_in_request(admin, TOKEN).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "who guesses elsewhere keeps nobody out: {answer}");
}

#[tokio::test]
async fn nothing_of_the_admin_listener_runs_scripts_of_others_or_shows_in_a_frame() {
    let server = Server::with(RULES).await;
    for path in ["/", "/v1/rules", "/nothing"] {
        let asked = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\nconnection: close\r\n\r\n"
        );
        let answer = http::raw(server.addresses.admin, asked.as_bytes()).await;
        for header in ["frame-ancestors 'none'", "script-src 'self'", "x-content-type-options: nosniff"] {
            assert!(answer.contains(header), "{path}: {header} in {}", answer.get(..600).unwrap_or(&answer));
        }
        assert!(!answer.to_lowercase().contains("access-control-allow-origin"), "{answer}");
    }
}

#[tokio::test]
async fn what_a_rule_was_and_who_comes_close_to_it_is_told() {
    let limit = |count: u32| {
        format!(
            "domain: z\ndescriptors:\n  - {{ key: a, rate_limit: {{ name: few, unit: year, requests_per_unit: {count} }} }}\n"
        )
    };
    let server =
        Setup::new(&[("rules.yaml", &limit(10))]).env("TOLLGATE_ADMIN_TOKEN", "open sesame").start().await;
    let admin = server.addresses.admin;
    let ask = async |page: &str| {
        let (status, text) = get_with(admin, page, "authorization: Bearer open sesame").await;
        (status, serde_json::from_str::<serde_json::Value>(&text).unwrap())
    };
    let mut client = server.client().await;
    for _ in 0..5 {
        ask_one(&mut client, "z", &[("a", "busy")]).await;
    }
    ask_one(&mut client, "z", &[("a", "calm")]).await;
    replace_file(&server.rules_folder().join("rules.yaml"), limit(4));
    eventually("the new limit is in force", || async {
        ask("/v1/rules/log").await.1["loads"][0]["changed"] == 1
    })
    .await;

    let (_, log) = ask("/v1/rules/log?path=z.a&name=few").await;
    let counts: Vec<&serde_json::Value> =
        log["changes"].as_array().unwrap().iter().map(|own| &own["limit"]["requests_per_unit"]).collect();
    assert_eq!(counts, [10, 4]);
    let (_, usage) = ask("/v1/rules/usage?path=z.a&name=few&last=1h").await;
    assert_eq!((&usage["keys"], &usage["limit"], &usage["p99_percent"]), (&2.into(), &4.into(), &125.into()));
    assert_eq!((&usage["bins"][2], &usage["bins"][10]), (&1.into(), &1.into()), "{usage}");
    let told = (&usage["total"], &usage["denied"], &usage["finding"]["text"], &usage["peaks"]["max"]);
    assert_eq!(told, (&6.into(), &0.into(), &"never denied; p99 of keys at 125 % of it".into(), &5.into()));
    assert_eq!(usage["limits"][1], serde_json::json!({ "limit": 4, "keys": 1, "requests": 1 }), "{usage}");
    let (status, problem) = ask("/v1/rules/usage?path=z.a&name=other").await;
    assert_eq!((status, &problem["pointer"]), (400, &"/name".into()), "{problem}");

    let (_, settings) = ask("/v1/settings").await;
    let token =
        settings["settings"].as_array().unwrap().iter().find(|own| own["name"] == "TOLLGATE_ADMIN_TOKEN");
    assert_eq!(
        (&token.unwrap()["value"], &token.unwrap()["from"]),
        (&"(hidden)".into(), &"environment".into())
    );
    assert!(!settings.to_string().contains("sesame"));
}
