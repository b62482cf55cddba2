//! What programs read: JSON parses, XML is well-formed, colours stay on terminals.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::golden::run;

fn json(args: &[&str]) -> (Value, Option<i32>) {
    let output = run(args);
    (serde_json::from_slice(&output.stdout).expect("JSON is printed"), output.status.code())
}

#[test]
fn check_reports_problems_as_json() {
    let (report, code) = json(&["check", "broken", "--format", "json"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["ok"], &report["errors"], &report["warnings"]),
        (&false.into(), &5.into(), &1.into())
    );
    let first = &report["problems"][0];
    assert_eq!(first["file"], "broken/mail.yaml");
    assert_eq!((&first["line"], &first["column"]), (&6.into(), &5.into()));
    assert_eq!(first["help"], "write it once");
    let (report, code) = json(&["check", "good", "--format", "json"]);
    assert_eq!((code, &report["rules"], &report["problems"]), (Some(0), &3.into(), &Value::Array(vec![])));
}

#[test]
fn what_check_cannot_read_is_not_ok() {
    let (report, code) = json(&["check", "good", "nowhere.yaml", "--format", "json"]);
    assert_eq!((code, &report["ok"], &report["errors"]), (Some(64), &false.into(), &1.into()));
    assert_eq!(report["problems"][0]["file"], "nowhere.yaml");
}

#[test]
fn test_reports_failures_and_problems_as_json() {
    let (report, code) = json(&["test", "good", "failing.test.yaml", "bad_tests", "--format", "json"]);
    assert_eq!(code, Some(1));
    assert_eq!((&report["tests"], &report["passed"], &report["failed"]), (&14.into(), &5.into(), &9.into()));
    let failing = report["files"].as_array().unwrap().iter().find(|file| file["file"] == "failing.test.yaml");
    let failure = &failing.unwrap()["tests"][1]["failure"];
    assert_eq!(
        (&failure["step"], &failure["line"], &failure["repetition"]),
        (&1.into(), &8.into(), &2.into())
    );
    assert_eq!(failure["differs"], serde_json::json!(["expect"]));
    assert_eq!(failure["why"]["binding"], "shaped");
    assert_eq!(failure["why"]["wait_us"], 500_000);
    let (report, code) = json(&["test", "no_tests", "--format", "json"]);
    assert_eq!((code, &report["ok"], &report["tests"]), (Some(1), &false.into(), &0.into()));
}

#[test]
fn explain_tells_its_story_as_json() {
    let args = ["explain", "--rules", "explain", "api", "path=/api/x", "address=1", "--format", "json"];
    let (story, code) = json(&args);
    assert_eq!((code, &story["verdict"], &story["binding"]), (Some(0), &"allow".into(), &"api".into()));
    let limit = &story["descriptors"][0]["limits"][0];
    assert_eq!(limit["counter"]["entries"][0]["value"], "/api/*");
    assert_eq!(limit["counter"]["entries"][0]["shared"], true);
    assert_eq!(limit["decision"]["remaining"], 99);
    assert_eq!(story["descriptors"][1]["limits"][0]["mode"], "shadow");
}

#[test]
fn the_junit_report_is_well_formed_whatever_the_files_hold() {
    let output = run(&["test", "good", "failing.test.yaml", "bad_tests", "wrong_bytes", "--format", "junit"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let xml = roxmltree::Document::parse(&text).unwrap();
    let named = |name: &str| xml.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!((named("testsuite"), named("testcase")), (13, 24));
    assert_eq!((named("failure"), named("error")), (9, 10));
    let root = xml.root_element();
    assert_eq!(root.attribute("tests"), Some("24"));
    assert_eq!((root.attribute("failures"), root.attribute("errors")), (Some("9"), Some("10")));
}

#[test]
fn no_colour_gets_into_a_pipe() {
    for args in [&["test", "failing.test.yaml"][..], &["check", "broken"], &["--help"], &["chek"]] {
        let output = run(args);
        let printed = [output.stdout, output.stderr].concat();
        assert!(!printed.is_empty() && !printed.contains(&0x1b), "{args:?}");
    }
}

#[test]
fn a_file_with_the_line_ends_of_windows_is_read() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("windows");
    fs::create_dir_all(&folder).unwrap();
    let save = |name: &str, text: &str| fs::write(folder.join(name), text.replace('\n', "\r\n")).unwrap();
    save(
        "a.yaml",
        "domain: a\ndescriptors:\n  - key: k\n    rate_limit: { unit: hour, requests_per_unit: 1 }\n",
    );
    save(
        "a.test.yaml",
        "\u{feff}rules: a.yaml\ntests:\n  - name: one an hour\n    steps:\n      - at: 0s\n        \
         request: { domain: a, descriptors: [{ k: v }] }\n        expect: allow\n",
    );
    let output = run(&["test", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_step_that_repeats_as_often_as_it_may_ends_soon() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("often");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("a.yaml"),
        "domain: a\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 1000000 }\n",
    )
    .unwrap();
    let test = |times: &str| {
        let steps = format!(
            "[{{ at: 0s, times: {times}, request: {{ domain: a, descriptors: [{{ k: v }}] }}, expect: allow }}]"
        );
        let text = format!("rules: a.yaml\ntests:\n  - name: often\n    steps: {steps}\n");
        fs::write(folder.join("a.test.yaml"), text).unwrap();
        let output = run(&["test", folder.to_str().unwrap()]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(test("1_000_000").0, Some(0));
    for times in ["1000001", "18446744073709551616", "0"] {
        let (code, out) = test(times);
        assert_eq!(code, Some(1));
        assert!(out.contains(&format!("times of '{times}' is out of range")), "{out}");
        assert!(out.contains("write times: N, with N from 1 to 1000000"), "{out}");
    }
}
