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
    for (what, expected) in &rows {
        assert_eq!(figure(what), expected, "{what}");
    }
    let table = OPERATING.split("## Bounds").nth(1).and_then(|rest| rest.split("\n\n").nth(2)).unwrap();
    let shown: Vec<&str> = table.lines().skip(2).filter_map(|row| row.split(" | ").next()).collect();
    for row in shown {
        let what = row.trim_start_matches("| ");
        assert!(rows.iter().any(|(own, _)| *own == what), "nothing holds the figure of '{what}'");
    }
}
