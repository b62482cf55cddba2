//! The figures of the guide, held against the code.

use std::time::Duration;

use tollgate_server::bounds;

const OPERATING: &str = include_str!("../../../../docs/guide/operating.md");

/// The second cell of the row that begins with `what`.
fn figure(what: &str) -> &'static str {
    let row = OPERATING.lines().find(|line| line.starts_with(&format!("| {what} |")));
    row.and_then(|row| row.split('|').nth(2)).unwrap_or_else(|| panic!("no row '{what}'")).trim()
}

fn grouped(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs())
}

fn kibibytes(bytes: impl TryInto<usize>) -> String {
    format!("{} KiB", bytes.try_into().unwrap_or(0) >> 10)
}

fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes >> 20)
}

#[test]
fn the_bounds_in_the_guide_are_those_of_the_code() {
    assert_eq!(bounds::GRPC_MESSAGE_MAX, bounds::JSON_BODY_MAX, "they share a row");
    assert_eq!(
        (bounds::RESPONSE_LARGE, bounds::LOOK_EVERY),
        (64 << 10, Duration::from_secs(5)),
        "rows name them"
    );
    let ping =
        format!("pinged every {}, {} to answer", seconds(bounds::PING_EVERY), seconds(bounds::PING_WAIT_MAX));
    let rows = [
        ("connections, all listeners together", grouped(bounds::CONNECTIONS_MAX)),
        (
            "addresses whose new connections are counted, where `levels` limits them",
            format!("{}, in 3 MB", grouped(bounds::ADDRESSES_MAX)),
        ),
        (
            "refused connections that are told why at a time, and for how long",
            format!("{}, {}", grouped(bounds::REFUSALS_MAX), seconds(bounds::REFUSAL_WAIT_MAX)),
        ),
        ("time to say something sensible", seconds(bounds::OPENING_MAX)),
        ("time for a whole body", seconds(bounds::BODY_WAIT_MAX)),
        ("an idle HTTP/1.1 connection", seconds(bounds::HTTP_IDLE_MAX)),
        ("a silent gRPC connection", ping),
        ("calls at a time on one connection", grouped(usize::try_from(bounds::STREAMS_MAX).unwrap())),
        ("a gRPC message, a JSON body", mebibytes(bounds::GRPC_MESSAGE_MAX)),
        ("bodies that are not yet whole, together", mebibytes(bounds::BODIES_MAX)),
        ("descriptors in a request", grouped(bounds::DESCRIPTORS_MAX)),
        ("bytes of a domain or key", grouped(bounds::KEY_MAX)),
        ("bytes of a value", grouped(bounds::VALUE_MAX)),
        ("time for a caller to read an answer", seconds(bounds::BODY_WAIT_MAX)),
        ("what a caller must read of it in 5 s", kibibytes(bounds::READ_LEAST)),
        ("a part of a long answer to a batch, or over RESP", kibibytes(bounds::RESPONSE_PART)),
        ("answers of 64 KiB and more that wait to be read, together", mebibytes(bounds::RESPONSES_MAX)),
        ("gRPC answers that wait for one connection's window", mebibytes(bounds::CONNECTION_RESPONSES_MAX)),
        ("calls of health and reflection at a time on one connection", grouped(bounds::SIDE_CALLS_MAX)),
        ("requests in a batch", grouped(bounds::BATCH_MAX)),
        ("overrides at a time", grouped(bounds::OVERRIDES_MAX)),
        ("changes of overrides that are remembered", grouped(bounds::AUDIT_MAX)),
        ("calls in flight after SIGTERM", seconds(bounds::DRAIN_MAX)),
    ];
    hold("| what | most |", &rows);
}

/// Every row of the table with this head has the figure of the code, and every figure has a row.
fn hold(head: &str, rows: &[(&str, String)]) {
    for (what, expected) in rows {
        assert_eq!(figure(what), expected, "{what}");
    }
    let bounds = OPERATING.split("## Bounds").nth(1).unwrap();
    let table = bounds.split("\n\n").find(|part| part.starts_with(head)).expect("the table is there");
    let shown: Vec<&str> = table.lines().skip(2).filter_map(|row| row.split(" | ").next()).collect();
    for row in shown {
        let what = row.trim_start_matches("| ");
        assert!(rows.iter().any(|(own, _)| *own == what), "nothing holds the figure of '{what}'");
    }
}

#[test]
fn the_bounds_of_the_gateway_in_the_guide_are_those_of_the_code() {
    use tollgate_gateway::bounds as own;
    assert_eq!(own::ANSWER_PIECE_MAX, 16 << 10, "a row names it");
    let count = |number: u32| grouped(usize::try_from(number).unwrap());
    let both = |bytes: usize, span| {
        let bytes = if bytes < 1 << 20 { kibibytes(bytes) } else { mebibytes(bytes) };
        format!("{bytes}, {}", seconds(span))
    };
    let windows = format!(
        "{}, {}",
        mebibytes(own::CONNECTION_WINDOW.try_into().unwrap()),
        kibibytes(own::STREAM_WINDOW)
    );
    let kept = |most: usize, span| format!("{}, {}", grouped(most), seconds(span));
    let ping =
        format!("pinged every {}, {} to answer", seconds(own::PING_EVERY), seconds(own::PING_WAIT_MAX));
    let (after, times, every) =
        (seconds(own::TUNNEL_PROBE_AFTER), own::TUNNEL_PROBES, seconds(own::TUNNEL_PROBE_EVERY));
    let rows = [
        ("bytes of a request's head", kibibytes(own::HEAD_MAX)),
        ("fields in a head", grouped(own::FIELDS_MAX)),
        ("time for a head, from its first byte", seconds(own::HEAD_WAIT_MAX)),
        ("a connection without a request", seconds(own::KEEP_ALIVE_MAX)),
        ("time in which a client takes nothing of its answer", seconds(own::WRITE_WAIT_MAX)),
        ("what is read of a body after a denial", both(own::DRAIN_BYTES, own::DRAIN_WAIT_MAX)),
        ("what is read after the last answer on a connection", both(own::LINGER_BYTES, own::LINGER_MAX)),
        ("requests at a time on one HTTP/2 connection", count(own::STREAMS_MAX)),
        ("streams that a client opened and reset before they were looked at", grouped(own::RESETS_MAX)),
        ("streams that were reset for what a client sent on them", grouped(own::LOCAL_RESETS_MAX)),
        ("bytes on the way of one HTTP/2 connection, and of one request", windows),
        ("a silent HTTP/2 connection to a client", ping),
        ("time for the API to say `100 Continue`", seconds(own::CONTINUE_WAIT_MAX)),
        ("routes", grouped(own::ROUTES_MAX)),
        ("upstreams of a group", grouped(own::GROUP_MAX)),
        (
            "time between two health checks, and for one",
            format!("at least {} ms", own::CHECK_MIN.as_millis()),
        ),
        ("upstreams that are tried for a connection", grouped(own::CONNECT_TRIES_MAX)),
        ("ejection of an upstream", seconds(own::EJECTION_MAX)),
        ("bytes of the head of an upstream's answer", kibibytes(own::UPSTREAM_HEAD_MAX)),
        (
            "connections without a request that a thread keeps to an upstream, and for how long",
            kept(own::POOL_IDLE_MAX, own::POOL_IDLE_TIME),
        ),
        (
            "the same where answers of the upstream say `Keep-Alive: timeout=N`",
            format!(
                "{} s less, {} s at most",
                own::POOL_IDLE_MARGIN.as_secs(),
                own::POOL_IDLE_TIME_MAX.as_secs()
            ),
        ),
        (
            "HTTP/2 connections of a thread to an upstream, and for how long without a request",
            kept(own::SHARED_MAX, own::SHARED_IDLE_TIME),
        ),
        ("requests at a time on one HTTP/2 connection to an upstream", grouped(own::UPSTREAM_STREAMS_MAX)),
        ("lines of the access log that wait to be written", grouped(own::ACCESS_LOG_LINES_MAX)),
        ("bytes of a text in the access log", grouped(own::ACCESS_LOG_TEXT_MAX)),
        (
            "silence of a tunnel before TCP asks whether its ends are there",
            format!("{after}, then {times} times every {every}"),
        ),
        ("tunnels after SIGTERM", seconds(own::TUNNEL_DRAIN)),
    ];
    hold("| what, at the gateway | most |", &rows);
}
