//! What the README shows is what a server answers, but for times and dates;
//! and the rule files of README and guide can be used together.

use std::path::Path;

use crate::serve::{Serving, post};

/// The blocks of that language, in their order.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("\n```{language}\n");
    text.split(&start).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

/// The same whenever it was said, and however it is broken into lines.
fn timeless(answer: &str) -> String {
    let (head, body) = answer.replace('\r', "").split_once("\n\n").map_or_else(
        || (answer.to_owned(), String::new()),
        |(head, body)| (head.to_owned(), body.to_owned()),
    );
    let told =
        |line: &&str| !["content-length:", "date:", "connection:"].iter().any(|name| line.starts_with(name));
    let head: Vec<&str> = head.lines().filter(told).collect();
    let text = format!("{}\n\n{}", head.join("\n"), body.replace("\n ", "").trim_end());
    let mut timeless = String::new();
    let mut rest = text.as_str();
    let times = ["retry-after: ", "t=", "_after_ms\":", "try again in "];
    while let Some(at) = times.iter().filter_map(|name| rest.find(name).map(|at| at + name.len())).min() {
        let (before, after) = rest.split_at(at);
        timeless.push_str(before);
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        // Whether there is anything to wait for is no matter of time.
        timeless.push_str(if after.starts_with('0') { "none" } else { "some" });
    }
    timeless + rest
}

#[test]
fn a_request_is_answered_as_the_readme_shows_until_it_is_denied() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let rules =
        blocks(&readme, "yaml").into_iter().find(|block| block.starts_with("# file: shop.yaml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("rules")).unwrap();
    std::fs::write(folder.path().join("rules/shop.yaml"), rules).unwrap();

    let mut server = Serving::start(folder.path(), &["--rules", "rules"]);
    let http = server.until("HTTP ");
    let http = http.split_once("listens on ").unwrap().1.parse().unwrap();
    // The line that the README speaks of has the very request that it shows.
    let tried = server.until("try: ");
    let (_, asked) = tried.split_once("/v1/check -d ").unwrap();
    let shown = blocks(&readme, "sh").into_iter().find(|block| block.contains("/v1/check -d ")).unwrap();
    assert_eq!(asked, shown.split_once("/v1/check -d ").unwrap().1);
    let body = asked.trim_matches('\'');

    let [allowed, denied] = blocks(&readme, "http")[..] else { panic!("two answers are shown") };
    assert_eq!(timeless(&post(http, "/v1/check", body)), timeless(allowed));
    for _ in 2..=10 {
        assert!(post(http, "/v1/check", body).starts_with("HTTP/1.1 200 OK"));
    }
    assert_eq!(timeless(&post(http, "/v1/check", body)), timeless(denied));
}

/// Whoever saves the examples of two pages in one folder has one set of rules.
#[test]
fn no_two_examples_are_about_one_domain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let mut domains = Vec::new();
    for page in guide.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).unwrap();
        let rules = blocks(&text, "yaml").into_iter().filter_map(|block| block.split_once("\ndomain: "));
        domains.extend(rules.filter_map(|(_, rest)| rest.lines().next().map(str::to_owned)));
    }
    assert!(domains.len() > 5, "{domains:?}");
    let count = domains.len();
    domains.sort();
    domains.dedup();
    assert_eq!(domains.len(), count, "some domain has two examples: {domains:?}");
}

/// The failure that the guide shows is the one that its own test gives with another time.
#[test]
fn a_failing_test_prints_what_the_guide_shows() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/testing-rules.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for block in blocks(&page, "yaml") {
        let (first, text) = block.split_once('\n').unwrap();
        let name = first.strip_prefix("# file: ").unwrap();
        let text = text.replace("expect: deny, retry_after: 10m }", "expect: deny, retry_after: 9m }");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let output = command.args(["test", "login.test.yaml"]).current_dir(folder.path()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let shown = blocks(&page, "text").into_iter().find(|block| block.starts_with("failed: ")).unwrap();
    assert!(printed.contains(shown), "the guide shows\n{shown}\nand it is\n{printed}");
}
