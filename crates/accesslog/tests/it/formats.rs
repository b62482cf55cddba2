//! One request, as each server would have logged it.

use std::sync::Arc;

use tollgate_accesslog::{LineParser, LogFormat, Parsed};
use tollgate_core::{Micros, Time};

/// 2026-01-02T03:04:05Z.
const SECOND: u64 = 1_767_323_045;

/// What a test wants to know about a line.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    us: u64,
    address: String,
    method: String,
    target: String,
    host: String,
    status: u16,
    duration: Option<Micros>,
    agent: String,
}

/// The request of most samples: a login of 250 ms that was denied.
fn login(us: u64) -> Said {
    Said {
        us,
        address: "192.0.2.1".into(),
        method: "POST".into(),
        target: "/login?next=/cart".into(),
        host: String::new(),
        status: 429,
        duration: None,
        agent: "curl/8.1".into(),
    }
}

fn parser(format: &str) -> LineParser {
    LineParser::new(Arc::new(LogFormat::parse(format).unwrap()))
}

fn read(parser: &mut LineParser, line: &str) -> Said {
    let Parsed::Request(line) = parser.parse(line.as_bytes()) else { panic!("not understood: {line}") };
    let agent = line.headers.iter().find(|(name, _)| name == "user-agent");
    Said {
        us: line.time.get(),
        address: line.address.as_deref().unwrap_or_default().to_owned(),
        method: line.method.to_string(),
        target: String::from_utf8_lossy(&line.target).into_owned(),
        host: line.host.as_deref().unwrap_or_default().to_owned(),
        status: line.status.unwrap_or_default(),
        duration: line.duration,
        agent: agent.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default(),
    }
}

const COMBINED: &str = r#"192.0.2.1 - ann [02/Jan/2026:03:04:05 +0000] "POST /login?next=/cart HTTP/1.1" 429 162 "https://shop.example/" "curl/8.1""#;

/// Name, line and what it says.
fn samples() -> Vec<(&'static str, String, Said)> {
    let whole = SECOND * 1_000_000;
    let fine = whole + 678_000;
    let duration = Some(Micros::from_millis(250));
    let shop = || "shop.example".to_owned();
    vec![
        ("combined", COMBINED.to_owned(), login(whole)),
        (
            "common",
            r#"192.0.2.1 - ann [02/Jan/2026:04:04:05 +0100] "POST /login?next=/cart HTTP/1.1" 429 162"#.into(),
            Said { agent: String::new(), ..login(whole) },
        ),
        (
            "vhost_combined",
            format!("shop.example:443 {COMBINED}"),
            Said { host: shop(), ..login(whole) },
        ),
        (
            "traefik",
            format!(r#"{COMBINED} 190 "shop@docker" "http://127.0.0.1:80" 250ms"#),
            Said { duration, ..login(whole) },
        ),
        (
            "envoy",
            r#"[2026-01-02T03:04:05.678Z] "POST /login?next=/cart HTTP/2" 429 RL 0 18 250 - "192.0.2.1,10.0.0.1" "curl/8.1" "3f2b" "shop.example" "-""#.into(),
            Said { host: shop(), duration, ..login(fine) },
        ),
        (
            "istio",
            r#"[2026-01-02T03:04:05.678Z] "POST /login?next=/cart HTTP/2" 429 RL request_rate_limited - "-" 0 18 250 - "198.51.100.9" "curl/8.1" "3f2b" "shop.example" "-" outbound|80||shop - 10.0.0.2:443 192.0.2.1:59292 shop.example default"#.into(),
            Said { host: shop(), duration, ..login(fine) },
        ),
        (
            "haproxy",
            r#"192.0.2.1:14853 [02/Jan/2026:03:04:05.678] https-in~ shop/web1 10/0/0/240/250 429 739 - - PR-- 1/1/0/0/0 0/0 {curl/8.1} "POST /login?next=/cart HTTP/1.1""#.into(),
            Said { agent: String::new(), ..login(fine) },
        ),
        (
            "alb",
            r#"https 2026-01-02T03:04:05.678000Z app/shop/490d 192.0.2.1:44740 10.0.0.1:80 0.000 0.250 0.000 429 429 34 366 "POST https://shop.example:443/login?next=/cart HTTP/1.1" "curl/8.1" TLS_AES TLSv1.3 arn:aws:x "Root=1" "shop.example" "-" 0 2026-01-02T03:04:05.428000Z "forward" "-" "-""#.into(),
            Said { target: "https://shop.example:443/login?next=/cart".into(), duration, ..login(fine) },
        ),
        (
            "cloudfront",
            "2026-01-02\t03:04:05\tCDG50-P2\t703\t192.0.2.1\tPOST\td1.cloudfront.example\t/login\t429\t-\tcurl/8.1\tnext=/cart\t-\tError\tid==\tshop.example\thttps\t62\t0.250\t-\tTLSv1.3".into(),
            Said { host: shop(), duration, ..login(whole) },
        ),
        (
            "envoy-json",
            r#"2026-01-02T04:04:06.000000000+01:00 stdout F {":authority":"shop.example","downstream_remote_address":"192.0.2.1:59292","duration":250,"method":"POST","path":"/login?next=/cart","response_code":429,"start_time":"2026-01-02T03:04:05.678Z","user-agent":"curl/8.1","x-forwarded-for":null}"#.into(),
            Said { host: shop(), duration, ..login(fine) },
        ),
        (
            "traefik-json",
            r#"{"ClientAddr":"192.0.2.1:39496","ClientHost":"192.0.2.1","DownstreamStatus":429,"Duration":250000000,"RequestHost":"shop.example","RequestMethod":"POST","RequestPath":"/login?next=/cart","StartUTC":"2026-01-02T03:04:05.678Z","request_User-Agent":"curl/8.1"}"#.into(),
            Said { host: shop(), duration, ..login(fine) },
        ),
        (
            "caddy",
            r#"{"level":"info","ts":1767323045.678,"request":{"remote_ip":"192.0.2.1","method":"POST","host":"shop.example","uri":"/login?next=/cart","headers":{"User-Agent":["curl/8.1"]}},"duration":0.25,"status":429}"#.into(),
            Said { host: shop(), duration, ..login(fine) },
        ),
    ]
}

#[test]
fn every_format_says_what_happened() {
    for (name, line, said) in samples() {
        assert_eq!(read(&mut parser(name), &line), said, "{name}");
    }
}

#[test]
fn servers_write_some_fields_in_other_ways_too() {
    let (name, line, said) = samples().pop().unwrap();
    // So short that a float is usually written with an exponent.
    let quick = line.replace("\"duration\":0.25", "\"duration\":0.000002701");
    let duration = Some(Micros::new(2));
    assert_eq!(read(&mut parser(name), &quick), Said { duration, ..said });
    // The path as Envoy Gateway names it.
    let (name, line, said) = samples().into_iter().find(|(name, ..)| *name == "envoy-json").unwrap();
    let gateway = line.replace("\"path\":", "\"x-envoy-origin-path\":");
    assert_ne!(gateway, line);
    assert_eq!(read(&mut parser(name), &gateway), said);
}

#[test]
fn every_format_is_recognised_by_its_lines() {
    for (name, line, _) in samples() {
        let lines = ["what is this", &line, &line].map(str::as_bytes);
        let found = LogFormat::detect(lines).unwrap();
        // A log of CloudFront is one of W3C.
        let expected = if name == "cloudfront" { "w3c" } else { name };
        assert_eq!(found.name(), expected, "{line}");
    }
    assert!(LogFormat::detect([&b"what is this"[..], b""]).is_none());
    assert!(LogFormat::detect([]).is_none());
}

#[test]
fn every_format_is_read_behind_what_a_container_or_syslog_writes() {
    for (name, line, said) in samples().into_iter().filter(|(name, ..)| *name != "cloudfront") {
        if !line.contains(" stdout F ") {
            let prefixed = format!("2026-01-02T03:04:06.123456789Z stdout F {line}");
            assert_eq!(read(&mut parser(name), &prefixed), said, "{name}");
        }
        let plain = line.split(" stdout F ").last().unwrap();
        let prefixed = format!("Jan  2 03:04:05 lb1 server[71]: {plain}");
        assert_eq!(read(&mut parser(name), &prefixed), said, "{name} behind syslog");
    }
}

#[test]
fn format_strings_of_operators_are_compiled() {
    let whole = SECOND * 1_000_000;
    let duration = Some(Micros::from_millis(250));
    for (format, line, said) in [
        (
            r#"$remote_addr $host [$time_iso8601] $request_method $request_uri $status rt=$request_time ua="$http_user_agent""#,
            r#"192.0.2.1 shop.example [2026-01-02T03:04:05+00:00] POST /login?next=/cart 429 rt=0.250 ua="curl/8.1""#,
            Said { host: "shop.example".into(), duration, ..login(whole) },
        ),
        (
            r#"%{c}a %{%Y-%m-%dT%H:%M:%S%z}t %m %U %q %>s %D \"%{User-Agent}i\""#,
            r#"192.0.2.1 2026-01-02T03:04:05+0000 POST /login ?next=/cart 429 250000 "curl/8.1""#,
            Said { duration, ..login(whole) },
        ),
        (
            r#"%START_TIME(%s.%3f)% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE% "%REQ(USER-AGENT)%""#,
            r#"1767323045.678 192.0.2.1 POST /login?next=/cart 429 "curl/8.1""#,
            login(whole + 678_000),
        ),
        (
            "json: time=at, address=client.ip, request=line, status=code, duration=took:ms, header.User-Agent=ua",
            r#"{"at":"2026-01-02T03:04:05Z","client":{"ip":"192.0.2.1"},"line":"POST /login?next=/cart HTTP/1.1","code":"429","took":250.0,"ua":"curl/8.1"}"#,
            Said { duration, ..login(whole) },
        ),
    ] {
        assert_eq!(read(&mut parser(format), line), said, "{format}");
    }
    for text in ["", "combimed", "json:time=ts", "json:target=t", "json:time=ts,path=x", "json:x"] {
        let error = LogFormat::parse(text).unwrap_err().to_string();
        assert!(error.len() > 40, "it says what to write: {error}");
    }
}

#[test]
fn columns_are_those_that_the_log_names_last() {
    let mut parser = parser("w3c");
    assert_eq!(parser.parse(b"#Software: Microsoft Internet Information Services 10.0"), Parsed::Comment);
    assert_eq!(
        parser.parse(b"#Fields: date time cs-method cs-uri-stem cs-uri-query c-ip sc-status time-taken\r\n"),
        Parsed::Comment
    );
    let iis = read(&mut parser, "2026-01-02 03:04:05 POST /login next=/cart 192.0.2.1 429 250\r\n");
    let duration = Some(Micros::from_millis(250));
    assert_eq!(iis, Said { duration, agent: String::new(), ..login(SECOND * 1_000_000) });
    assert_eq!(parser.parse(b"#Fields: time date c-ip cs-uri-stem"), Parsed::Comment);
    assert_eq!(
        parser.parse(b"03:04:05 2026-01-02 192.0.2.1 /"),
        Parsed::NotUnderstood,
        "the date comes first"
    );
}

#[test]
fn a_time_says_whether_it_is_of_a_whole_second_and_of_the_end() {
    let whole = |format: &str, line: &str| {
        let mut parser = parser(format);
        let Parsed::Request(line) = parser.parse(line.as_bytes()) else { panic!("{line}") };
        (line.whole_second, line.time.since(Time::from_secs(SECOND)))
    };
    for (name, line, said) in samples() {
        let part = Micros::new(said.us - SECOND * 1_000_000);
        assert_eq!(whole(name, &line), (part == Micros::ZERO, part), "{name}");
    }
    let ends = |format: &str| LogFormat::parse(format).unwrap().is_written_at_end();
    assert!(ends("alb") && ends("w3c") && ends("caddy") && ends("$msec $request"));
    assert!(!ends("envoy") && !ends("haproxy") && !ends("traefik-json") && !ends(r#"%t "%r" %D"#));
}
