//! `tollgate replay` as people type it, on a real log.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tollgate_testkit::nasa_log;

/// Rules by address in a folder of their own.
fn rules(limit: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: {limit}\n");
    fs::write(folder.path().join("rules.yaml"), text).expect("it can be written");
    folder
}

/// Replays what is fed to standard input.
fn replay(rules: &tempfile::TempDir, args: &[&str], log: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["replay", "--rules"]).arg(rules.path()).args(args).arg("-");
    feed(command, log)
}

fn feed(mut command: Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A command that has seen enough closes its end.
        drop(stdin.write_all(&input));
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it was written");
    output
}

fn json(output: &Output) -> Value {
    let complaint = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).expect(&complaint)
}

/// What a few lines of Python count on the NASA log, line by line in words.
fn brute_force(mode: &str) -> Vec<Vec<String>> {
    let mut python = Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/replay_count.py")).arg(mode);
    let counted = feed(python, nasa_log().as_bytes());
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    let counted = String::from_utf8(counted.stdout).expect("it prints text");
    counted.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

#[test]
fn every_algorithm_denies_what_a_brute_force_count_denies() {
    let log = nasa_log();
    let counted = brute_force("algorithms");
    let (requests, counted) = counted.split_first().expect("it counts requests");
    assert!(requests[1].parse::<u64>().expect("a number") > 30_000, "it is the real log");
    assert_eq!(counted.len(), 6);
    for line in counted {
        let [algorithm, denied, delayed, _] = &**line else { panic!("four words: {line:?}") };
        let rules = rules(&format!("{{ algorithm: {algorithm}, requests_per_unit: 10, unit: minute }}"));
        let report = json(&replay(&rules, &["--format", "json"], log.as_bytes()));
        assert_eq!(report["requests"].to_string(), requests[1]);
        assert_eq!(report["denied"].to_string(), *denied, "{algorithm}");
        assert_eq!(report["delayed"].to_string(), *delayed, "{algorithm}");
    }
    // The same side by side, whichever of them the rule has.
    let rules = rules("{ algorithm: sliding_log, requests_per_unit: 10, unit: minute }");
    let report = json(&replay(&rules, &["--format", "json", "--algorithms"], log.as_bytes()));
    let rows = report["algorithms"].as_array().expect("a list");
    let side_by_side: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let name = row["algorithm"].as_str().expect("a name").to_owned();
            [name]
                .into_iter()
                .chain(["denied", "delayed", "keys_denied"].map(|key| row[key].to_string()))
                .collect()
        })
        .collect();
    assert_eq!(side_by_side, counted);
}

#[test]
fn limits_are_suggested_as_a_brute_force_count_finds_them() {
    let counted = brute_force("suggest");
    let (peaks, limits) = counted.split_first().expect("it counts peaks");
    let rules = rules("{ name: r, algorithm: sliding_log, requests_per_unit: 10, unit: minute }");
    let log = nasa_log();
    let report = json(&replay(&rules, &["--format", "json", "--suggest", "0.1%"], log.as_bytes()));
    let found = &report["suggest"][0];
    assert_eq!(["p50", "p90", "p99", "max"].map(|rank| found["peak"][rank].to_string()), **peaks);
    let rows = found["limits"].as_array().expect("a list");
    let row = |row: &Value| ["limit", "keys", "requests"].map(|key| row[key].to_string()).to_vec();
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), limits);
    let requests = report["requests"].as_u64().expect("a number");
    let fits = |row: &&Vec<String>| row[2].parse::<u64>().expect("a number") * 1_000 <= requests;
    let smallest = limits.iter().find(fits).expect("one fits");
    assert_eq!(found["smallest"].to_string(), smallest[0]);
    assert!(rows.iter().any(|row| row["is_own"] == true && row["requests"] == report["denied"]));
    let text = replay(&rules, &["--suggest", "0.1%"], log.as_bytes());
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(
        text.contains("the smallest of these that denies up to 0.1%") && text.contains("the rule now"),
        "{text}"
    );
}

#[test]
fn a_key_is_explained_as_a_brute_force_count_finds_it() {
    let counted = brute_force("explain");
    let [key, requests, denied, from, to, episodes] = &*counted[0] else { panic!("six words: {counted:?}") };
    let rules = rules("{ name: r, algorithm: sliding_log, requests_per_unit: 10, unit: minute }");
    let log = nasa_log();
    let name = format!("remote_address={key}");
    // By its whole name, or by its value.
    for asked in [&name, key] {
        let report = json(&replay(&rules, &["--format", "json", "--explain", asked], log.as_bytes()));
        let [story] = &**report["explain"].as_array().expect("a list") else { panic!("one: {report}") };
        assert_eq!(story["key"], *name);
        let told =
            ["requests", "denied", "from", "to", "episode_count"].map(|field| story[field].to_string());
        assert_eq!(told.each_ref(), [requests, denied, from, to, episodes]);
        assert_eq!((&story["peak"], &story["limit"]), (&10.into(), &10.into()));
        let routes = story["routes"].as_array().expect("a list");
        assert!(!routes.is_empty() && routes.iter().all(|row| row["requests"].as_u64() > Some(0)));
    }
    let text = replay(&rules, &["--explain", key], log.as_bytes());
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(
        text.contains(&format!("{name} under gateway/r")) && text.contains("what it asked for"),
        "{text}"
    );
    let unknown = replay(&rules, &["--explain", "nobody\u{1b}[2J"], log.as_bytes());
    let complaint = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        complaint.contains("no rule met a request of the key nobody") && !complaint.contains("\u{1b}[2J")
    );
}

#[test]
fn a_share_that_is_exceeded_fails_and_one_that_is_not_does_not() {
    let log = "h - - [02/Jan/2026:03:04:05 +0000] \"GET / HTTP/1.1\" 200 1\n".repeat(4);
    let rules = rules("{ requests_per_unit: 3, unit: minute }");
    let exit = |share: &str| replay(&rules, &["--fail-if-denied", share], log.as_bytes()).status.code();
    assert_eq!(
        (exit("25%"), exit("24.9%"), exit("25"), exit("125%")),
        (Some(0), Some(1), Some(64), Some(64))
    );
}

#[test]
fn what_a_log_says_cannot_command_the_terminal() {
    let line = |address: &str, path: &str| {
        format!("{address} - - [02/Jan/2026:03:04:05 +0000] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    let log =
        line("h", "/\u{1b}[2J").repeat(3) + &line("\u{1b}]0;x\u{7}", "/").repeat(3) + "\u{1b}[31mno line\n";
    let output = replay(&rules("{ requests_per_unit: 1, unit: minute }"), &[], log.as_bytes());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("no line") && text.contains("most affected keys"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
}

#[test]
fn packed_logs_and_formats_by_hand_are_read_and_mistakes_are_told() {
    let rules = rules("{ requests_per_unit: 1, unit: minute }");
    let log = "h - - [02/Jan/2026:03:04:05 +0000] \"GET / HTTP/1.1\" 200 1\n".repeat(2);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(log.as_bytes()).expect("memory");
    let packed = packer.finish().expect("memory");
    assert_eq!(json(&replay(&rules, &["--format", "json"], &packed))["denied"], 1);
    let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packer.write_all(log.as_bytes()).expect("memory");
    let packed = packer.finish().expect("memory");
    assert_eq!(json(&replay(&rules, &["--format", "json"], &packed))["denied"], 1);
    let packed =
        ruzstd::encoding::compress_to_vec(log.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    // Two frames, one after the other.
    let twice = json(&replay(&rules, &["--format", "json"], &packed.repeat(2)));
    assert_eq!((&twice["requests"], &twice["denied"]), (&4.into(), &3.into()));

    let own = ["--format", "json", "--log-format", "$msec $remote_addr $request_method $request_uri $status"];
    let report = json(&replay(&rules, &own, b"1767323045.678 192.0.2.1 GET / 200\n"));
    assert_eq!((&report["requests"], &report["from"]), (&1.into(), &1_767_323_045.into()));

    let told = |args: &[&str], log: &[u8]| {
        let output = replay(&rules, args, log);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (exit, text) = told(&[], b"what is this\n");
    assert!(exit == Some(1) && text.contains("no line of the logs is understood"), "{exit:?} {text}");
    let (exit, text) = told(&["--log-format", "combimed"], b"");
    assert!(exit == Some(64) && text.contains("unknown log format 'combimed'"), "{exit:?} {text}");
    let (exit, text) = told(&["--mapping", "nowhere.yaml"], b"");
    assert!(exit == Some(64) && text.contains("nowhere.yaml"), "{exit:?} {text}");
    let (exit, text) = told(&["nowhere.log"], b"");
    assert!(exit == Some(1) && text.contains("cannot read nowhere.log"), "{exit:?} {text}");
}

#[test]
fn a_mapping_of_the_settings_turns_lines_into_its_descriptors() {
    let rules = rules("{ requests_per_unit: 1, unit: minute }");
    let settings = "mapping:\n  domain: gateway\n  descriptors:\n    - - { request_header: { header_name: User-Agent, \
                    descriptor_key: remote_address, show: true } }\n";
    let beside = tempfile::tempdir().expect("a folder");
    let path = beside.path().join("tollgate.yaml");
    fs::write(&path, settings).expect("it can be written");
    let line = |agent: &str| {
        format!("h - - [02/Jan/2026:03:04:05 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"{agent}\"\n")
    };
    let log = line("curl/8.1").repeat(2) + &line("Mozilla/5.0");
    let args = ["--format", "json", "--mapping", path.to_str().expect("a name")];
    let report = json(&replay(&rules, &args, log.as_bytes()));
    assert_eq!(
        (&report["denied"], &report["keys"][0]["key"]),
        (&1.into(), &"remote_address=curl/8.1".into())
    );
}
