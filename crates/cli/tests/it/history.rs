//! A history from a log, asked in every format.
//!
//! The log is 300 lines of NASA's of 1 August 1995 (Internet Traffic Archive, may be
//! freely redistributed) and one line that is none.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::golden::{fixtures, run};

/// The hours that the excerpt is of.
const FROM: &str = "1995-08-01T06:00:00Z";
const TO: &str = "1995-08-01T06:20:00Z";

/// What a run prints on standard output, if it ends well.
fn printed(args: &[&str]) -> String {
    let output = run(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    assert_eq!(errors, "", "nothing but the answer in a pipe");
    String::from_utf8(output.stdout).expect("only text is printed")
}

fn import(data: &Path) -> String {
    printed(&["history", "import", "history/nasa.txt", "--data", &data.to_string_lossy()])
}

/// Asks a history of the excerpt.
fn ask(args: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_string_lossy().into_owned();
    import(folder.path());
    let all: Vec<&str> = ["history"].iter().chain(args).copied().chain(["--data", &data]).collect();
    printed(&all)
}

fn ask_json(args: &[&str]) -> Value {
    let args: Vec<&str> =
        args.iter().copied().chain(["--from", FROM, "--to", TO, "--format", "json"]).collect();
    serde_json::from_str(&ask(&args)).expect("JSON")
}

fn lines_with(text: &str) -> usize {
    let log = fs::read_to_string(fixtures().join("history/nasa.txt")).expect("the excerpt");
    log.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn a_file_that_cannot_be_read_is_not_told_to_be_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_string_lossy().into_owned();
    let told = |files: &[&str]| {
        let args: Vec<&str> =
            ["history", "import"].iter().chain(files).copied().chain(["--data", &data]).collect();
        let output = run(&args);
        assert_eq!(output.status.code(), Some(64));
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read nowhere.log"));
        String::from_utf8(output.stdout).expect("only text is printed")
    };
    assert_eq!(told(&["nowhere.log"]), "");
    let both = told(&["nowhere.log", "history/nasa.txt"]);
    assert!(both.starts_with("done: 1 file, 301 lines read"), "{both}");
}

#[test]
fn an_import_tells_its_counts_and_a_second_one_counts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = import(folder.path());
    assert!(first.starts_with("done: 1 file, 301 lines read, 300 imported, 1 not understood\n"), "{first}");
    let again = import(folder.path());
    assert!(again.starts_with("done: 1 file, 0 lines read, 0 imported, 0 not understood\n"), "{again}");
    let data = folder.path().to_string_lossy().into_owned();
    let gzipped = folder.path().join("nasa.txt.gz");
    let log = fs::read(fixtures().join("history/nasa.txt")).expect("the excerpt");
    let mut encoder = GzEncoder::new(fs::File::create(&gzipped).expect("a file"), Compression::fast());
    encoder.write_all(&log).expect("a file");
    encoder.finish().expect("a file");
    let gzipped = gzipped.to_string_lossy().into_owned();
    let unpacked = printed(&["history", "import", &gzipped, "--data", &data, "--format", "json"]);
    let counts: Value = serde_json::from_str(&unpacked).expect("JSON");
    assert_eq!(counts["imported"], 0, "the same log, gzipped");
    let summary = printed(&["history", "summary", "--from", "0", "--data", &data, "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&summary).expect("JSON")["total"], 300);
}

#[test]
fn a_gzipped_log_is_unpacked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log.gz");
    let mut encoder = GzEncoder::new(fs::File::create(&path).expect("a file"), Compression::best());
    for n in 0..5 {
        writeln!(encoder, "h - - [01/Jan/2026:00:00:0{n} +0000] \"GET /a?n={n} HTTP/1.1\" 200 1 \"-\" \"x\"")
            .expect("a file");
    }
    encoder.finish().expect("a file");
    let (path, data) = (path.to_string_lossy().into_owned(), folder.path().to_string_lossy().into_owned());
    printed(&["history", "import", &path, "--data", &data]);
    let csv = printed(&[
        "history",
        "top",
        "--from",
        "2026-01-01",
        "--to",
        "2026-01-02",
        "--data",
        &data,
        "--format",
        "csv",
    ]);
    assert_eq!(csv, "domain,rule,name,total,denied\r\n,,/a,5,0\r\n,,(other),0,0\r\n");
}

#[test]
fn a_top_list_has_the_true_counts() {
    let top = ask_json(&["top", "--limit", "3"]);
    let rows = top["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    for row in rows {
        let asked = format!("GET {} ", row["name"].as_str().expect("a name"));
        assert_eq!(row["total"], lines_with(&asked), "{asked}");
    }
    let shown: u64 = rows.iter().filter_map(|row| row["total"].as_u64()).sum();
    assert_eq!(top["other"], json!({"total": 300 - shown, "denied": 0}));
}

#[test]
fn a_series_has_the_shape_of_the_contract_in_both_spellings() {
    let name = "/images/NASA-logosmall.gif";
    let long = ask_json(&["series", "--by", "route", "--name", name]);
    let short = ask_json(&[name]);
    assert_eq!(long, short);
    assert_eq!((&long["step_s"], &long["total"]), (&json!(60), &json!(lines_with(&format!(" {name} ")))));
    let curve = &long["series"][0];
    assert_eq!((&curve["name"], &curve["outcome"]), (&json!(name), &json!("allowed")));
    let points = curve["points"].as_array().expect("points");
    let sum: u64 = points.iter().filter_map(|point| point[1].as_u64()).sum();
    assert_eq!(json!(sum), curve["total"]);
    assert_eq!(points[0][0].as_u64().expect("a time") % 60, 0);
}

#[test]
fn a_summary_has_every_outcome() {
    let summary = ask_json(&["summary"]);
    let keys: Vec<&String> = summary.as_object().expect("an object").keys().collect();
    assert_eq!(keys.len(), 10, "{keys:?}");
    assert_eq!(
        (&summary["total"], &summary["allowed"], &summary["denied"]),
        (&json!(300), &json!(300), &json!(0))
    );
    assert!(summary["peak_minute"].as_u64().expect("a number") >= 15);
}

#[test]
fn people_get_a_curve_and_machines_lines() {
    let drawn = ask(&["--from", FROM, "--to", TO]);
    assert!(drawn.contains('█') && drawn.contains("total 300, allowed 300; a column is 1m"), "{drawn}");
    assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
    let wide = ask(&["series", "--step", "5m", "--from", FROM, "--to", TO]);
    assert!(wide.lines().any(|line| line.chars().count() > 60), "few buckets are drawn wider: {wide}");
    let lines = ask(&["series", "--from", FROM, "--to", TO, "--format", "ndjson"]);
    let counts = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    assert_eq!(counts.filter_map(|line| line["count"].as_u64()).sum::<u64>(), 300);
    let empty = ask(&["--last", "1h"]);
    assert!(empty.contains("the newest count is of 1995-08-01T06:"), "{empty}");
    let misspelt = ask(&["/images/KSC-logosmal.gif", "--from", FROM, "--to", TO]);
    assert!(misspelt.contains("did you mean /images/KSC-logosmall.gif?"), "{misspelt}");
    let ever = ask(&["--from", "0", "--to", TO]);
    assert!(ever.contains("everything, 1995-08-01 06:00 to"), "{ever}");
    let no_rules = ask(&["top", "--by", "rule", "--from", FROM, "--to", TO]);
    assert!(no_rules.contains("other counts are of then: try another --by"), "{no_rules}");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_string_lossy().into_owned();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["history", "top", "--data", &data], 64, "there is no history in"),
        (&["history", "top", "--last", "soon", "--data", &data], 64, "a span is a number with"),
        (&["history", "top", "--last", "1h", "--from", "0"], 64, "cannot be used with"),
        (&["history", "series", "--compare", "x", "--data", &data], 64, "compare with previous_period"),
        (&["history", "import", "nowhere.log", "--data", &data], 64, "cannot read nowhere.log"),
    ];
    for (args, code, words) in cases {
        let output = run(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}

#[test]
fn a_folder_in_use_is_refused_with_who_uses_it() {
    use tollgate_history::tables::{Access, RedbTables};
    let folder = tempfile::tempdir().expect("a folder");
    let held = RedbTables::open(folder.path(), Access::Write).expect("the folder");
    let output = run(&["history", "summary", "--data", &folder.path().to_string_lossy()]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains(&format!("is in use by process {}", std::process::id())), "{errors}");
    drop(held);
}

/// Lines of several formats: a 429 is a denial, templates apply, and standard input is a log as any.
#[test]
fn a_log_of_any_format_counts_with_its_statuses_and_templates() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let save = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    };
    let caddy = r#"{"ts":1767323045.5,"request":{"remote_ip":"192.0.2.1","method":"GET","host":"a","uri":"/users/7?x=1"},"duration":0.5,"status":429}"#;
    let combined = r#"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "GET /users/8 HTTP/1.1" 200 17 "-" "curl""#;
    let logs = [
        save("caddy.log", &format!("{caddy}\n")),
        save("combined.log", &format!("{combined}\n\nnonsense \u{1b}[31m\n")),
    ];
    let config = save("tollgate.yaml", "history: { templates: [\"/users/{id}\"] }\n");
    let text = printed(&["history", "import", &logs[0], &logs[1], "--data", &data, "--config", &config]);
    let expected = "done: 2 files, 4 lines read, 2 imported, 1 not understood\n1 had the status 429 and count as denied\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\nnot understood:\n  nonsense \u{fffd}[31m\n"), "{text}");
    let args =
        ["history", "top", "--from", "2026-01-01", "--to", "2026-02-01", "--data", &data, "--format", "csv"];
    assert_eq!(printed(&args), "domain,rule,name,total,denied\r\n,,/users/{id},2,1\r\n,,(other),0,0\r\n");
}

/// It must not count as imported: with the format it can be.
#[test]
fn a_log_of_which_nothing_is_understood_is_an_error_and_leaves_no_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let log = folder.path().join("odd.log");
    fs::write(&log, "2026-01-02T03:04:05Z|192.0.2.1|GET /a HTTP/1.1|200\n".repeat(3)).expect("a file");
    let log = log.to_string_lossy().into_owned();
    for format in [None, Some("combined")] {
        let mut args = vec!["history", "import", &log, "--data", &data];
        args.extend(format.iter().flat_map(|format| ["--log-format", format]));
        let output = run(&args);
        assert_eq!(output.status.code(), Some(1), "{format:?}");
        let told = String::from_utf8(output.stderr).expect("only text is printed");
        assert!(told.contains("odd.log is understood") && told.contains("--log-format"), "{told}");
        let shown = String::from_utf8(output.stdout).expect("only text is printed");
        assert!(shown.starts_with("not understood:\n  2026-01-02T03:04:05Z|192"), "{shown}");
    }
    let format = "$time_iso8601|$remote_addr|$request|$status";
    let text = printed(&["history", "import", &log, "--data", &data, "--log-format", format]);
    assert!(text.starts_with("done: 1 file, 3 lines read, 3 imported, 0 not understood\n"), "{text}");
}

#[test]
fn standard_input_is_a_log_that_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_string_lossy().into_owned();
    let log = fs::read(fixtures().join("history/nasa.txt")).expect("the excerpt");
    for imported in ["300 imported", "0 imported"] {
        let (code, text) = crate::rule_tests::fed(&["history", "import", "-", "--data", &data], &log);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(imported), "{text}");
    }
}
