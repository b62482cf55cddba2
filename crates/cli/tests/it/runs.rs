//! Every command on good and bad input, word for word.

use crate::golden::check;

/// A terminal's width must not break it: what begins a line is a name or a text of its own indent.
#[test]
fn the_settings_in_the_help_of_serve_are_names_with_texts_below_them() {
    let help = String::from_utf8(crate::golden::run(&["serve", "--help"]).stdout).unwrap();
    let (_, settings) = help.split_once("Settings by flag").unwrap();
    let names: Vec<&str> =
        settings.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    ")).collect();
    assert!(names.contains(&"  --log-level, LOG_LEVEL, log.level [info]"), "{names:?}");
    let is_name = |line: &str| {
        let first = line.trim_start().split([',', ' ']).next().unwrap_or_default();
        tollgate_settings::rows::all().any(|row| [row.flag, row.variable, row.key].contains(&first))
    };
    for line in names {
        assert!(is_name(line), "'{line}' begins with no name of a setting");
    }
}

/// Every flag of the table is one of `serve`, and none else is offered.
#[test]
fn the_flags_of_serve_are_those_of_the_settings() {
    let help = String::from_utf8(crate::golden::run(&["serve", "-h"]).stdout).unwrap();
    let offered = help.lines().filter_map(|line| line.trim().strip_prefix("--"));
    let offered: Vec<&str> = offered.filter_map(|line| line.split([' ', ',']).next()).collect();
    let flags: Vec<&str> =
        tollgate_settings::rows::flags().map(|row| row.flag.trim_start_matches('-')).collect();
    assert_eq!(offered, flags, "{help}");
}

#[test]
fn without_a_command_the_help_is_shown() {
    check("no_command", &[]);
}

#[test]
fn the_help_teaches() {
    check("help", &["--help"]);
    check("help_check", &["check", "--help"]);
    check("help_test", &["test", "--help"]);
    check("help_explain", &["explain", "--help"]);
    check("help_history", &["history", "--help"]);
    check("help_top", &["top", "--help"]);
    check("help_bench", &["bench", "--help"]);
    check("help_suggest", &["suggest", "--help"]);
    check("help_override", &["override", "--help"]);
    check("help_schema", &["schema", "--help"]);
    check("help_history_import", &["history", "import", "--help"]);
    check("help_demo", &["demo", "--help"]);
}

#[test]
fn every_shell_is_taught_every_command() {
    let commands = [
        "serve",
        "check",
        "test",
        "explain",
        "history",
        "top",
        "bench",
        "suggest",
        "schema",
        "demo",
        "completions",
        "man",
    ];
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = String::from_utf8(crate::golden::run(&["completions", shell]).stdout).unwrap();
        for word in commands.into_iter().chain(["merge-domains", "log-level"]) {
            assert!(script.contains(word), "{shell} knows nothing of {word}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let folder_name = folder.path().to_str().unwrap();
    assert_eq!(crate::golden::run(&["man", "--all", folder_name]).status.code(), Some(0));
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    for command in commands {
        let alone = crate::golden::run(&["man", command]).stdout;
        assert!(page("tollgate.1").contains(&format!("tollgate\\-{command}")), "{command} is not listed");
        assert!(String::from_utf8(alone).unwrap().contains(command));
        assert!(page(&format!("tollgate-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(page("tollgate-serve.1").contains("REDIS_URL"), "all settings are there");
    let nested = crate::golden::run(&["man", "history", "top"]);
    assert_eq!(String::from_utf8(nested.stdout).unwrap(), page("tollgate-history-top.1"));
    let unknown = crate::golden::run(&["man", "history", "tpo"]);
    let told = String::from_utf8(unknown.stderr).unwrap();
    assert!(told.contains("no command 'history tpo'") && told.contains("tollgate history --help"), "{told}");
}

#[test]
fn a_page_about_no_command_or_to_no_folder_is_refused() {
    check("man_unknown", &["man", "fly"]);
    check("man_nowhere", &["man", "--all", "no/such/folder"]);
}

#[test]
fn a_wrong_command_line_ends_with_64() {
    check("usage_command", &["chek"]);
    check("usage_no_path", &["check"]);
    check("usage_flag", &["test", "--fromat", "json", "good"]);
    check("usage_format", &["check", "--format", "junit", "good"]);
    check("usage_bench", &["bench", "--rate", "5"]);
    check("usage_bench_time", &["bench", "--http", "127.0.0.1:8080", "--duration", "soon"]);
    check("usage_descriptor", &["explain", "--rules", "good", "shop", "user_id"]);
}

#[test]
fn right_rules_are_counted() {
    check("check_good", &["check", "good"]);
    check("check_several", &["check", "good/shop.yaml", "explain/rules.yaml"]);
}

#[test]
fn every_mistake_of_every_file_is_shown_at_once() {
    check("check_broken", &["check", "broken"]);
}

#[test]
fn warnings_fail_only_where_they_are_denied() {
    check("check_warning", &["check", "warning.yaml"]);
    check("check_warning_denied", &["check", "warning.yaml", "--deny-warnings"]);
}

#[test]
fn a_domain_in_two_files_needs_a_flag() {
    check("check_domain_twice", &["check", "warning.yaml", "good/shop.yaml"]);
    check("check_merged", &["check", "merge", "--merge-domains"]);
}

#[test]
fn what_cannot_be_checked_is_named() {
    check("check_empty", &["check", "empty.yaml"]);
    check("check_missing", &["check", "nowhere.yaml", "good", "elsewhere"]);
    check("check_no_rules", &["check", "no_tests"]);
    check("check_wrong_bytes", &["check", "wrong_bytes"]);
    check("check_a_test", &["check", "good/shop.test.yaml"]);
}

#[test]
fn passing_tests_are_listed() {
    check("test_good", &["test", "good"]);
    check("test_named_twice", &["test", "good/shop.test.yaml", "good/shop.test.yaml"]);
}

#[test]
fn a_failure_shows_what_was_expected_what_it_got_and_why() {
    check("test_failing", &["test", "failing.test.yaml"]);
    check("test_failing_junit", &["test", "failing.test.yaml", "--format", "junit"]);
    check("test_outcomes", &["test", "outcomes.test.yaml"]);
    check("test_failing_tap", &["test", "good", "failing.test.yaml", "bad_tests", "--format", "tap"]);
    check("test_none_tap", &["test", "no_tests", "--format", "tap"]);
}

#[test]
fn every_mistake_in_a_test_file_is_shown_with_its_place() {
    check("test_fields", &["test", "bad_tests/fields.test.yaml"]);
    check("test_descriptors", &["test", "bad_tests/descriptors.test.yaml"]);
    check("test_order", &["test", "bad_tests/order.test.yaml"]);
    check("test_rule_name", &["test", "bad_tests/rule_name.test.yaml"]);
    check("test_not_yaml", &["test", "bad_tests/not_yaml.test.yaml"]);
}

#[test]
fn rules_that_cannot_be_used_fail_the_tests() {
    check("test_missing_rules", &["test", "bad_tests/missing_rules.test.yaml"]);
    check("test_rules_list", &["test", "bad_tests/rules_list.test.yaml"]);
    check("test_broken_rules", &["test", "bad_tests/broken_rules.test.yaml"]);
}

#[test]
fn without_tests_nothing_passes() {
    check("test_none", &["test", "no_tests"]);
    check("test_empty_file", &["test", "empty.test.yaml"]);
    check("test_empty_list", &["test", "bad_tests/no_tests.test.yaml"]);
    check("test_missing", &["test", "nowhere"]);
    check("test_wrong_bytes", &["test", "wrong_bytes"]);
    check("test_a_rule_file", &["test", "good/shop.yaml"]);
}

#[test]
fn the_walk_is_told_level_by_level() {
    let explain = |name: &str, descriptors: &[&str]| {
        check(name, &[&["explain", "--rules", "explain", "api"], descriptors].concat());
    };
    explain("explain_exact", &["plan=free,user_id=1"]);
    explain("explain_key_only", &["plan=free,user_id=42"]);
    explain("explain_pattern", &["path=/api/v2/x"]);
    explain("explain_replaced", &["path=/api/login", "address=10.0.0.1"]);
    explain("explain_modes", &["address=10.0.0.1", "free=1"]);
    explain("explain_too_deep", &["address=10.0.0.1,path=/x"]);
    explain("explain_no_rule", &["colour=red"]);
    explain("explain_key", &["adress=10.0.0.1"]);
    explain("explain_cost", &["plan=free,user_id=42", "--cost", "11"]);
    explain("explain_soft", &["path=/about", "--cost", "22"]);
}

/// Every key of a limit that bears on what becomes of a request is told.
#[test]
fn a_limit_is_told_with_all_its_keys() {
    check("explain_all_keys", &["explain", "--rules", "all_keys.yaml", "keys", "all=x", "--cost", "11"]);
}

#[test]
fn an_unknown_domain_is_told_with_its_neighbours() {
    check("explain_domain", &["explain", "--rules", "good", "shpo", "user_id=42"]);
}

#[test]
fn many_levels_that_do_not_match_are_cut_short() {
    check("explain_many", &["explain", "--rules", "many.yaml", "many", "user_id=9"]);
}

#[test]
fn rules_that_are_wrong_cannot_be_explained() {
    check("explain_broken", &["explain", "--rules", "broken", "shop", "user_id=42"]);
    check("explain_missing", &["explain", "--rules", "nowhere", "shop", "user_id=42"]);
}

/// What becomes of a request, by the specification.
#[test]
fn the_requests_of_the_specification_get_what_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/requests");
    let output = crate::golden::run(&["test", folder]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
