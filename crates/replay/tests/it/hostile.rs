//! Logs that somebody wrote to do harm.

use tollgate_replay::{ReplaySettings, Share};

use crate::{by_address, line, replay, settings};

fn everything() -> ReplaySettings {
    let rules = by_address("{ algorithm: sliding_log, requests_per_unit: 2, unit: minute }");
    let share: Share = "0.1%".parse().unwrap();
    ReplaySettings {
        algorithms: true,
        suggest: Some(share),
        explain: Some("192.0.2.1".into()),
        ..settings(rules)
    }
}

#[test]
fn megabyte_lines_are_one_line_each_and_the_rest_is_read() {
    let good = line(0, 0, "192.0.2.1", "/");
    let long_path = line(0, 1, "192.0.2.1", &format!("/{}", "x".repeat(1 << 20)));
    let endless = "y".repeat(6 << 20);
    let log = [&*good, &long_path, &endless, "\n", &good.repeat(2)].concat();
    let report = replay(&everything(), &[log]);
    assert_eq!((report.lines, report.requests, report.not_understood), (5, 4, 1));
    assert_eq!(report.denied, 2);
    assert!(report.routes.iter().all(|row| row.route.len() <= 256), "what is kept of a path is short");
    assert!(report.examples_not_understood.iter().all(|line| line.len() <= 200));
}

#[test]
fn bytes_that_are_no_text_are_no_harm() {
    let good = line(0, 0, "192.0.2.1", "/a\0b");
    let report = replay(&everything(), &[format!("\0\0\0\n\0{good}{good}\0")]);
    assert_eq!((report.lines, report.requests, report.not_understood), (4, 2, 2));
    assert_eq!(report.routes[0].requests, 2);
}

#[test]
fn dates_that_are_wrong_are_told_and_make_nobody_late() {
    let good = |second| line(0, second, "192.0.2.1", "/");
    let dated = |date: &str| good(0).replace("02/Jan/2026", date);
    let wrong =
        ["32/Jan/2026", "02/Foo/2026", "00/00/0000", "02/Jan/1960", "-2/Jan/2026"].map(dated).concat();
    // The year 2099 in the middle of the log, and 1999 at its end.
    let log = good(0) + &wrong + &dated("02/Jan/2099") + &good(1).repeat(200) + &dated("02/Jan/1999");
    let report = replay(&everything(), &[log]);
    assert_eq!((report.lines, report.requests, report.not_understood), (208, 203, 5));
    assert_eq!(report.late, 0, "all of it is sorted");
    assert_eq!(report.denied, 199, "two of those of 2026 pass, and those of 1999 and 2099");
}

#[test]
fn a_million_keys_are_counted_and_told_apart_up_to_the_bound() {
    use std::fmt::Write as _;
    let keys = 1_100_000_u32;
    let mut log = String::new();
    for key in 0..keys {
        let address = std::net::Ipv4Addr::from(key + (10 << 24));
        let second = key / 20_000;
        writeln!(log, "{address} - - [02/Jan/2026:03:04:{second:02} +0000] \"GET / HTTP/1.1\" 200 1")
            .unwrap();
    }
    let report = replay(&settings(by_address("{ requests_per_unit: 1, unit: minute }")), &[log]);
    assert_eq!((report.requests, report.rules[0].requests), (keys.into(), keys.into()));
    assert_eq!((report.denied, report.rules[0].keys), (0, 1 << 20));
    assert!(report.keys_beyond_bound);
}
