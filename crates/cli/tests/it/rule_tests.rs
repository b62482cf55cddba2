//! Rule tests for harnesses, and again after a change; rules from standard input.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::golden::{fixtures, run};

/// The binary, fed with `input`: its exit code and standard output.
pub(crate) fn fed(args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(args)
        .current_dir(fixtures())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo has built the binary");
    child.stdin.take().expect("it is piped").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("only text is printed"))
}

#[test]
fn rules_are_checked_from_standard_input_alone_and_beside_files() {
    let rules = fs::read(fixtures().join("warning.yaml")).unwrap();
    let (code, text) = fed(&["check", "-"], &rules);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(" --> <stdin>:"), "{text}");
    assert!(text.ends_with("ok: 1 file, 1 domain, 1 rule, 1 warning\n"), "{text}");
    let (code, text) = fed(&["check", "-", "good", "-"], &rules);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("domain 'shop' is defined twice"), "{text}");
    let (code, text) = fed(&["check", "-"], b"domain: \xff\n");
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("not UTF-8 text"), "{text}");
    let (code, text) = fed(&["check", "-", "--format", "json"], b"domian: shop\n");
    assert_eq!(code, Some(1), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["problems"][0]["file"], "<stdin>");
}

/// The YAML below each line that is not ok, read by somebody else's parser.
#[test]
fn what_is_said_about_a_failure_is_yaml() {
    let output = run(&["test", "good", "failing.test.yaml", "bad_tests", "--format", "tap"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let count = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count();
    let plan = count("ok ") + count("not ok ");
    assert!(text.contains(&format!("\n1..{plan}\n")), "{text}");
    let blocks: Vec<&str> =
        text.split("\n  ---\n").skip(1).map(|rest| rest.split("\n  ...\n").next().unwrap()).collect();
    assert_eq!(blocks.len(), count("not ok "));
    for block in blocks {
        let read: serde_json::Value = serde_saphyr::from_str(block).unwrap();
        assert!(read["message"].is_string() && read["line"].is_number(), "{read}");
        assert!(["why", "problems"].iter().any(|key| read[*key].is_string()), "{read}");
    }
}

#[test]
fn a_change_runs_the_tests_again() {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let rules = "domain: a\ndescriptors:\n  - { key: k, rate_limit: { requests_per_unit: 1, unit: day } }\n";
    save("a.yaml", rules);
    let steps = "[{ at: 0s, times: 2, request: { domain: a, descriptors: [{ k: v }] }, expect: allow }]";
    save("a.test.yaml", &format!("rules: a.yaml\ntests:\n  - name: twice\n    steps: {steps}\n"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["test", "a.test.yaml", "--watch"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |line: &str| assert!(lines.any(|came| came == line), "the output ends before '{line}'");
    let mut watching = || assert!(told.any(|line| line == "watching 2 files; Ctrl-C ends it"));
    until("failed: 1 file, 1 test, 0 passed, 1 failed");
    watching();
    save("a.yaml", &rules.replace("requests_per_unit: 1", "requests_per_unit: 2"));
    until("ok: 1 file, 1 test, all passed");
    watching();
    save("a.yaml", "domain: a\ndescriptor: []\n");
    until("failed: 1 file, no tests, 1 file not run");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A rule test that is recorded passes as it is, and says what came of each line.
#[test]
fn what_is_recorded_passes_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let rules = "domain: gateway
descriptors:
  - key: remote_address
    rate_limit: { name: per-address, algorithm: sliding_log, requests_per_unit: 2, unit: minute }
  - key: path
    descriptors:
      - key: remote_address
        rate_limit: { name: shaped, algorithm: leaky_bucket, requests_per_unit: 1, unit: second, burst: 5 }
";
    fs::write(path("rules.yaml"), rules).unwrap();
    let line = |address: &str, second: u32, target: &str| {
        format!("{address} - - [02/Jan/2026:03:04:{second:02} +0000] \"GET {target} HTTP/1.1\" 200 17\n")
    };
    let log = line("192.0.2.1", 5, "/a")
        + &line("192.0.2.1", 4, "/a")
        + &line("192.0.2.1", 6, "/\u{fc}\\x22: #'")
        + &line("2001:db8::1", 7, "/a")
        + "nonsense\n"
        + &line("192.0.2.1", 30, "/a");
    fs::write(path("access.log"), &log).unwrap();
    let record = |extra: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["test", "rules.yaml", "--record", "access.log"])
            .args(extra)
            .current_dir(folder.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, test) = record(&[]);
    assert_eq!(code, Some(0), "{test}");
    let expected: Vec<&str> =
        test.lines().filter_map(|line| line.split_once("expect: ")).map(|(_, rest)| rest).collect();
    assert_eq!(
        expected,
        [
            "allow }",
            "allow }",
            "deny, retry_after: 58s, rule: per-address }",
            "allow }",
            "deny, retry_after: 34s, rule: per-address }"
        ],
        "{test}"
    );
    assert!(test.contains("start: 2026-01-02T03:04:04Z"), "{test}");
    for (lines, requests) in [("100", 5), ("2-3", 2)] {
        let (code, test) = record(&["--lines", lines]);
        assert_eq!((code, test.matches("at: ").count()), (Some(0), requests), "{test}");
        fs::write(path("recorded.test.yaml"), &test).unwrap();
        let ran = run(&["test", &path("recorded.test.yaml")]);
        assert!(ran.status.success(), "{test}{}", String::from_utf8_lossy(&ran.stdout));
    }
    let (code, told) = record(&["--lines", "5-5"]);
    assert!(code == Some(1) && told.contains("none of these lines of access.log is understood"), "{told}");
    let (code, told) = record(&["--lines", "9-5"]);
    assert!(code == Some(64) && told.contains("'9-5' are no lines"), "{told}");
}
