//! Files that nobody would write in good faith, or that an editor spoilt.

use std::fmt::Write as _;

use tollgate_core::ruleset::DEPTH_MAX;
use tollgate_yaml::{ALIASED_MAX, FILE_BYTES_MAX, NESTING_MAX, PROBLEMS_MAX};

use super::{load_text, problems_of};

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_fine() {
    let text = "\u{feff}domain: d\r\ndescriptors:\r\n  - key: a\r\n";
    assert!(load_text(text).unwrap().rules.has_domain("d"));
    let wrong = "\u{feff}domian: d\r\ndescriptors:\r\n  - kye: a\r\n";
    let error = load_text(wrong).unwrap_err();
    let places: Vec<(usize, usize, &str)> =
        error.problems.iter().map(|problem| (problem.line, problem.column, problem.text.as_str())).collect();
    assert_eq!(places, [(1, 1, "domian: d"), (3, 5, "  - kye: a")]);
}

#[test]
fn old_macintosh_line_ends_are_counted() {
    assert_eq!(
        problems_of("domain: d\rdescriptors:\r  - kye: a\r"),
        "rules.yaml:3:5: error: unknown key 'kye'; write key"
    );
}

#[test]
fn nul_bytes_and_control_characters_are_refused_where_they_stand() {
    let told = problems_of("domain: \"a\0b\"\n");
    assert!(told.starts_with("rules.yaml:1:") && told.lines().count() == 1, "{told}");
    let told = problems_of("domain: d\ndescriptors:\n  - key: \u{1b}[31mred\n");
    assert!(told.starts_with("rules.yaml:3:"), "{told}");
    let escaped = problems_of("\"\\e[31m\\n\": d\n");
    assert!(!escaped.contains('\u{1b}') && escaped.contains("'\u{fffd}[31m\\n'"), "{escaped}");
}

#[test]
fn a_huge_scalar_is_read_and_quoted_in_part() {
    let huge = "x".repeat(4 * 1024 * 1024);
    let loaded = load_text(&format!("domain: d\ndescriptors:\n- key: k\n  value: {huge}\n")).unwrap();
    assert!(loaded.rules.has_domain("d"));
    let told = problems_of(&format!("domain: d\n? {huge}\n: x\n"));
    assert!(told.len() < 300, "{} bytes", told.len());
    let told = problems_of(&format!("domain: d\ndescriptors: [{{ key: k, shadow_mode: \"{huge}\" }}]\n"));
    assert!(told.len() < 300, "{} bytes", told.len());
    let underscores = "_".repeat(1024 * 1024);
    let text = format!(
        "domain: d\ndescriptors:\n- {{ key: a, value: {underscores} }}\n- {{ key: a{underscores}b }}\n"
    );
    assert!(load_text(&text).is_ok());
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow_the_stack() {
    let deep = "maps and lists are nested deeper than 200 levels";
    for text in ["[".repeat(10_000), "{a: ".repeat(10_000), "- ".repeat(10_000)] {
        let told = problems_of(&text);
        assert!(told.contains(deep), "{}", &told[..told.len().min(300)]);
    }
    let mut block = String::from("domain: d\n");
    for level in 0..10_000 {
        writeln!(block, "{}descriptors:", " ".repeat(level.min(600))).unwrap();
    }
    assert!(problems_of(&block).contains("rules.yaml:"));
    assert_eq!(NESTING_MAX, 200);
}

#[test]
fn depth_by_aliases_is_counted_like_any_other() {
    let mut text = String::from("domain: d\nmetadata:\n  a0: &a0 [x]\n");
    for step in 1..1_000 {
        writeln!(text, "  a{step}: &a{step} [[[[[[[[[[*a{}]]]]]]]]]]", step - 1).unwrap();
    }
    assert!(problems_of(&text).contains("maps and lists are nested deeper than 200 levels"));
}

#[test]
fn rules_nest_as_deep_as_the_core_allows_and_not_deeper() {
    let nested = |levels: usize| {
        let mut text = String::from("domain: d\n");
        for level in 0..levels {
            let indent = "  ".repeat(level);
            writeln!(text, "{indent}descriptors:\n{indent}- key: k").unwrap();
        }
        text
    };
    assert!(load_text(&nested(DEPTH_MAX)).is_ok());
    let told = problems_of(&nested(DEPTH_MAX + 1));
    assert!(told.contains("is nested deeper than 64 levels; write fewer levels"), "{told}");
}

#[test]
fn a_billion_laughs_are_not_laughed() {
    let mut text = String::from(
        "domain: d\ndescriptors:\n- key: k\n  metadata:\n    a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n",
    );
    for (this, last) in ('b'..='i').zip('a'..) {
        writeln!(text, "    {this}: &{this} [{}]", vec![format!("*{last}"); 9].join(", ")).unwrap();
    }
    let told = problems_of(&text);
    let most =
        format!("aliases make the file more than {ALIASED_MAX} nodes larger; write fewer aliases of aliases");
    assert!(told.ends_with(&most) && told.lines().count() == 1, "{told}");
}

#[test]
fn a_hundred_thousand_rules_load() {
    let mut text = String::from("domain: d\ndescriptors:\n");
    for user in 0..100_000 {
        let rule = "rate_limit:\n    unit: minute\n    requests_per_unit";
        writeln!(text, "- key: user\n  value: u{user}\n  {rule}: {user}").unwrap();
    }
    let loaded = load_text(&text).unwrap();
    assert_eq!(loaded.rules.rules().len(), 100_000);
    assert_eq!(loaded.warnings, []);
}

#[test]
fn a_hundred_thousand_mistakes_are_told_in_part() {
    let mut text = String::from("domain: d\ndescriptors:\n");
    for user in 0..100_000 {
        writeln!(text, "- {{ key: u{user}, requests_per_unt: 5, unit: day }}").unwrap();
    }
    let problems = load_text(&text).unwrap_err().problems;
    assert_eq!(problems.len(), 2 * (PROBLEMS_MAX + 1));
    let last =
        "rules.yaml: error: there are more than 1000 errors; the rest is left out; correct these first";
    assert_eq!(problems[PROBLEMS_MAX].to_string(), last);
}

#[test]
fn a_map_of_a_hundred_thousand_unknown_keys_ends_soon() {
    let mut text = String::from("domain: d\n");
    for key in 0..100_000 {
        writeln!(text, "requests_per_unit_{key}: 5").unwrap();
    }
    assert_eq!(load_text(&text).unwrap_err().problems.len(), PROBLEMS_MAX + 1);
}

#[test]
fn a_text_larger_than_a_file_may_be_is_refused() {
    let told = problems_of(&" ".repeat(FILE_BYTES_MAX + 1));
    assert_eq!(told, "rules.yaml: error: the file is larger than 16 MiB; write several smaller files");
}

#[test]
fn any_beginning_of_a_file_is_refused_or_read_and_never_panics() {
    let whole = include_str!("../../../../../spec/rule-files/valid/merge-keys.yaml");
    for end in 0..whole.len() {
        let told = load_text(&whole[..end]).err().map(|error| error.to_string());
        assert!(told.is_none_or(|told| told.starts_with("rules.yaml:")), "{end}");
    }
    for at in 0..whole.len() {
        for piece in ["*", "&", "[", "}", "\t", "\0", "- ", ": ", "<<", "!!int ", "é"] {
            let text = format!("{}{piece}{}", &whole[..at], &whole[at..]);
            let told = load_text(&text).err().map(|error| error.to_string());
            assert!(told.is_none_or(|told| told.starts_with("rules.yaml:")), "{at} {piece}");
        }
    }
}
