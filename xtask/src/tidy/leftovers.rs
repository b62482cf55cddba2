//! Rules about single lines: what was meant for a moment and must not stay.
//!
//! The banned words are written in pieces, here and in the tests, so that this file passes too.

use super::tree::{File, FileTree};
use super::violation::Violation;

/// Marks of unfinished work. Allowed nowhere, because nobody comes back for them.
const MARKERS: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

/// The one mark that may stay, with the number of an issue where somebody will come back for it.
const LATER: &str = concat!("TO", "DO");

/// What must not be in Rust code, and what to do instead. A word counts only where it stands alone.
const RUST_LEFTOVERS: &[(&str, &str)] = &[
    (concat!("dbg", "!"), "remove it"),
    (concat!("todo", "!"), "write it, or leave the item out"),
    (concat!("unimplemented", "!"), "write it, or leave the item out"),
    (concat!("#[", "ignore"), "make the test pass, or remove it"),
    (concat!(", ", "ignore)]"), "make the test pass, or remove it"),
    (concat!("```", "ignore"), "let the example compile, or mark it `text`"),
    (concat!("```rust,", "ignore"), "let the example compile, or mark it `text`"),
    (concat!("should_", "panic"), "return an error and assert its text"),
];

/// No mark of unfinished work, except one that names its issue.
pub(super) fn markers(tree: &FileTree) -> Vec<Violation> {
    each_line(tree.files(), |line| {
        let marker = MARKERS.iter().find(|marker| words(line, marker).next().is_some());
        if let Some(marker) = marker {
            return Some((format!("a leftover {marker}"), format!("do it now, or write {LATER}(#N)")));
        }
        let unnumbered = words(line, LATER).any(|after| !opens_with_an_issue(after));
        unnumbered.then(|| {
            (format!("a {LATER} without an issue"), format!("write {LATER}(#N) with the issue's number"))
        })
    })
}

/// No debugging aid, unwritten code or test that does not run.
pub(super) fn rust_leftovers(tree: &FileTree) -> Vec<Violation> {
    each_line(tree.with_extension("rs"), |line| {
        let (word, remedy) = RUST_LEFTOVERS.iter().find(|(word, _)| words(line, word).next().is_some())?;
        Some((format!("a leftover `{word}`"), (*remedy).to_owned()))
    })
}

/// No white space at the end of a line, a carriage return included.
pub(super) fn trailing_whitespace(tree: &FileTree) -> Vec<Violation> {
    each_line(tree.files(), |line| {
        let trails = line.ends_with(char::is_whitespace);
        trails.then(|| ("white space at the end of the line".to_owned(), "remove it".to_owned()))
    })
}

/// Applies a check, which answers with what is wrong and what to do, to every line.
pub(super) fn each_line<'a>(
    files: impl IntoIterator<Item = &'a File>,
    check: impl Fn(&str) -> Option<(String, String)>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            if let Some((what, remedy)) = check(line) {
                violations.push(Violation::new(&file.path, number, what, remedy));
            }
        }
    }
    violations
}

/// What follows each place where `word` stands alone, that is, not inside of a longer word.
fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).filter_map(move |(at, _)| {
        let before = line.split_at(at).0;
        let after = line.split_at(at + word.len()).1;
        let begins = !(word.starts_with(goes_on) && before.ends_with(goes_on));
        let ends = !(word.ends_with(goes_on) && after.starts_with(goes_on));
        (begins && ends).then_some(after)
    })
}

fn opens_with_an_issue(text: &str) -> bool {
    let number = text.strip_prefix("(#").and_then(|rest| rest.split_once(')')).map(|(number, _)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the lines that the rule finds in a Rust file of these lines.
    fn found(rule: fn(&FileTree) -> Vec<Violation>, lines: &[&str]) -> Vec<usize> {
        let tree = FileTree::of_texts(&[("a.rs", &lines.join("\n"))]);
        let number = |violation: &Violation| violation.place().rsplit(':').next().unwrap().parse().unwrap();
        rule(&tree).iter().map(number).collect()
    }

    #[test]
    fn a_mark_of_unfinished_work_is_reported() {
        let lines = [concat!("// FIX", "ME: later"), concat!("// X", "XX"), "mktemp XXXXXX", "fixme"];
        assert_eq!(found(markers, &lines), [1, 2]);
    }

    #[test]
    fn a_mark_for_later_needs_its_issue() {
        let lines = [
            concat!("// TO", "DO: later"),
            "// TODO(#12): later",
            concat!("// TO", "DO(me): later"),
            concat!("// TO", "DO(#): later"),
            concat!("// TODO(#1) and TO", "DO"),
            "AUTODOC",
        ];
        assert_eq!(found(markers, &lines), [1, 3, 4, 5]);
    }

    #[test]
    fn what_was_meant_for_a_moment_is_reported() {
        let lines = [
            concat!("dbg", "!(x);"),
            concat!("    todo", "!()"),
            concat!("unimplemented", "!()"),
            concat!("#[", "ignore]"),
            concat!("#[", "ignore = \"slow\"]"),
            concat!("#[cfg_attr(miri, ", "ignore)]"),
            concat!("/// ```", "ignore"),
            concat!("/// ```rust,", "ignore"),
            concat!("#[should_", "panic(expected = \"no\")]"),
            "my_dbg!(x); // .gitignore, ignore",
        ];
        assert_eq!(found(rust_leftovers, &lines), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn rust_leftovers_are_looked_for_in_rust_only() {
        let tree = FileTree::of_texts(&[("a.md", concat!("We do not use should_", "panic.\n"))]);
        assert_eq!(rust_leftovers(&tree), []);
    }

    #[test]
    fn white_space_at_the_end_is_reported() {
        assert_eq!(found(trailing_whitespace, &["a ", "b", "c\t", "d\r", "", " "]), [1, 3, 4, 6]);
    }
}
