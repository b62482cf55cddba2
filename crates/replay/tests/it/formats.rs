//! The same small log in every format, with the same answers.

use tollgate_accesslog::{FORMAT_NAMES, LogFormat};
use tollgate_replay::{LogSource, Replay};

use crate::{by_address, settings};

/// Three requests to /login, ten seconds apart, the last of them answered with 429; `MM` is the
/// minute and `SS` the second.
const LINES: [(&str, &str); 17] = [
    (
        "combined",
        r#"192.0.2.1 - ann [02/Jan/2026:03:MM:SS +0000] "POST /login?next=/cart HTTP/1.1" CODE 162 "https://shop.example/" "curl/8.1""#,
    ),
    ("common", r#"192.0.2.1 - ann [02/Jan/2026:04:MM:SS +0100] "POST /login?next=/cart HTTP/1.1" CODE 162"#),
    (
        "vhost_combined",
        r#"shop.example:443 192.0.2.1 - - [02/Jan/2026:03:MM:SS +0000] "POST /login HTTP/1.1" CODE 162 "-" "curl/8.1""#,
    ),
    (
        "traefik",
        r#"192.0.2.1 - - [02/Jan/2026:03:MM:SS +0000] "POST /login HTTP/1.1" CODE 162 "-" "curl/8.1" 190 "shop@docker" "http://127.0.0.1:80" 250ms"#,
    ),
    (
        "envoy",
        r#"[2026-01-02T03:MM:SS.000Z] "POST /login HTTP/2" CODE RL 0 18 250 - "192.0.2.1,10.0.0.1" "curl/8.1" "3f2b" "shop.example" "-""#,
    ),
    (
        "istio",
        r#"[2026-01-02T03:MM:SS.000Z] "POST /login HTTP/2" CODE RL request_rate_limited - "-" 0 18 250 - "198.51.100.9" "curl/8.1" "3f2b" "shop.example" "-" outbound|80||shop - 10.0.0.2:443 192.0.2.1:59292 shop.example default"#,
    ),
    (
        "haproxy",
        r#"192.0.2.1:14853 [02/Jan/2026:03:MM:SS.000] https-in~ shop/web1 10/0/0/240/250 CODE 739 - - PR-- 1/1/0/0/0 0/0 {curl/8.1} "POST /login HTTP/1.1""#,
    ),
    (
        "alb",
        r#"https 2026-01-02T03:MM:SS.250000Z app/shop/490d 192.0.2.1:44740 10.0.0.1:80 0.000 0.250 0.000 CODE CODE 34 366 "POST https://shop.example:443/login HTTP/1.1" "curl/8.1" TLS_AES TLSv1.3 arn:aws:x "Root=1" "shop.example" "-" 0 2026-01-02T03:04:05.428000Z "forward" "-" "-""#,
    ),
    ("w3c", "2026-01-02 03:MM:SS POST /login next=/cart 192.0.2.1 CODE 0"),
    (
        "cloudfront",
        "2026-01-02\t03:MM:SS\tCDG50-P2\t703\t192.0.2.1\tPOST\td1.cloudfront.example\t/login\tCODE\t-\tcurl/8.1\tnext=/cart\t-\tError\tid==\tshop.example\thttps\t62\t0.000\t-\tTLSv1.3",
    ),
    (
        "envoy-json",
        r#"{":authority":"shop.example","downstream_remote_address":"192.0.2.1:59292","duration":250,"method":"POST","path":"/login?next=/cart","response_code":CODE,"start_time":"2026-01-02T03:MM:SS.000Z"}"#,
    ),
    (
        "traefik-json",
        r#"{"ClientHost":"192.0.2.1","DownstreamStatus":CODE,"Duration":250000000,"RequestMethod":"POST","RequestPath":"/login?next=/cart","StartUTC":"2026-01-02T03:MM:SS.000Z"}"#,
    ),
    (
        "caddy",
        r#"{"level":"info","ts":"2026-01-02T03:MM:SS.250Z","request":{"remote_ip":"192.0.2.1","method":"POST","uri":"/login?next=/cart"},"duration":0.25,"status":CODE}"#,
    ),
    (
        r#"$remote_addr [$time_iso8601] "$request" $status $request_time"#,
        r#"192.0.2.1 [2026-01-02T03:MM:SS+00:00] "POST /login HTTP/1.1" CODE 0.000"#,
    ),
    (r#"%h %t \"%r\" %>s"#, r#"192.0.2.1 [02/Jan/2026:03:MM:SS +0000] "POST /login HTTP/1.1" CODE"#),
    (
        "%START_TIME% %DOWNSTREAM_REMOTE_ADDRESS% %REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE%",
        "2026-01-02T03:MM:SS.000Z 192.0.2.1:59292 POST /login CODE",
    ),
    (
        "json:time=at,address=ip,target=uri,status=code",
        r#"{"at":"2026-01-02T03:MM:SSZ","ip":"192.0.2.1","uri":"/login","code":CODE}"#,
    ),
];

#[test]
fn every_format_gives_the_answers_that_were_computed_by_hand() {
    for name in FORMAT_NAMES {
        assert!(LINES.iter().any(|(format, _)| *format == name), "{name} has no log here");
    }
    // Two a minute: of the requests at 5 s, 15 s and 25 s the third is denied. By the fourth, 61 s after
    // the first, that one is over.
    let rules = by_address("{ algorithm: sliding_log, requests_per_unit: 2, unit: minute }");
    for (format, line) in LINES {
        let line = |minute: &str, second: &str, code: &str| {
            line.replace("MM", minute).replace("SS", second).replace("CODE", code) + "\n"
        };
        let mut log = [("05", "200"), ("15", "200"), ("25", "429")]
            .map(|(second, code)| line("04", second, code))
            .concat();
        log += &line("05", "06", "200");
        if format == "w3c" {
            log = format!(
                "#Fields: date time cs-method cs-uri-stem cs-uri-query c-ip sc-status time-taken\n{log}"
            );
        }
        let source = LogSource {
            name: "log".into(),
            lines: Box::new(std::io::Cursor::new(log.into_bytes())),
            format: Some(LogFormat::parse(format).unwrap()),
        };
        let report = Replay::run(&settings(rules.clone()), vec![source], &mut |_| ()).unwrap();
        assert_eq!((report.lines, report.requests, report.denied), (4, 4, 1), "{format}");
        assert_eq!((report.from, report.to), (1_767_323_045, 1_767_323_106), "{format}");
        assert_eq!(report.already_429, 1, "{format}");
        assert_eq!(
            (&*report.keys[0].key, report.keys[0].denied),
            ("remote_address=192.0.2.1", 1),
            "{format}"
        );
        assert_eq!((&*report.routes[0].route, report.routes[0].requests), ("/login", 4), "{format}");
    }
}
