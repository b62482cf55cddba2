//! The rule about CHANGELOG.md: a reader finds what changes for them at the same place every time.
//!
//! The form is `## Unreleased` first, then `## 1.2.3 - 2026-01-31` and older ones; below each, groups
//! (`### Added`, …) of items. Whether an item is true is for the review.

use super::tree::{File, FileTree};
use super::violation::Violation;

const PATH: &str = "CHANGELOG.md";

/// The groups that a version may have, by what a user feels.
const GROUPS: &[&str] = &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// The changelog, if there is one, is well-formed.
pub(super) fn changelog(tree: &FileTree) -> Vec<Violation> {
    tree.get(PATH).map(check).unwrap_or_default()
}

fn check(file: &File) -> Vec<Violation> {
    let mut reader = ChangelogReader::default();
    for (number, line) in file.lines() {
        if let Some(version) = line.strip_prefix("## ") {
            reader.version(number, version);
        } else if let Some(group) = line.strip_prefix("### ") {
            reader.group(number, group);
        } else if line.starts_with("- ") {
            reader.item(number);
        }
    }
    reader.end()
}

/// How far the reading has come.
#[derive(Default)]
struct ChangelogReader<'a> {
    seen_version: bool,
    groups: Vec<&'a str>,
    /// The line of a group's heading as long as no item has followed.
    empty_group: Option<usize>,
    violations: Vec<Violation>,
}

impl<'a> ChangelogReader<'a> {
    fn version(&mut self, line: usize, version: &'a str) {
        self.close_group();
        self.groups.clear();
        let first = !self.seen_version;
        self.seen_version = true;
        if first && version != "Unreleased" {
            self.report(line, "the first version is not `## Unreleased`", "put `## Unreleased` above it");
        } else if !first && !is_release(version) {
            self.report(line, "not a version with its date", "write it as `## 1.2.3 - 2026-01-31`");
        }
    }

    fn group(&mut self, line: usize, group: &'a str) {
        self.close_group();
        self.empty_group = Some(line);
        if !GROUPS.contains(&group) {
            self.report(
                line,
                format!("unknown group `{group}`"),
                format!("use one of {}", GROUPS.join(", ")),
            );
        } else if self.groups.contains(&group) {
            self.report(line, format!("`{group}` comes twice in this version"), "join the two");
        }
        self.groups.push(group);
    }

    fn item(&mut self, line: usize) {
        self.empty_group = None;
        if self.groups.is_empty() {
            self.report(
                line,
                "an item outside of a group",
                format!("put it under one of {}", GROUPS.join(", ")),
            );
        }
    }

    fn end(mut self) -> Vec<Violation> {
        self.close_group();
        if !self.seen_version {
            self.report(1, "no version", "add `## Unreleased`");
        }
        self.violations
    }

    fn close_group(&mut self) {
        if let Some(line) = self.empty_group.take() {
            self.report(line, "an empty group", "remove it, or add its items as `- …`");
        }
    }

    fn report(&mut self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        self.violations.push(Violation::new(PATH, line, what, remedy));
    }
}

/// Whether this is `1.2.3 - 2026-01-31`.
fn is_release(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let Some((version, date)) = text.split_once(" - ") else { return false };
    let widths: Vec<_> = date.split('-').map(str::len).collect();
    version.split('.').count() == 3
        && version.split('.').all(is_number)
        && widths == [4, 2, 2]
        && date.split('-').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(lines: &[&str]) -> Vec<String> {
        let tree = FileTree::of_texts(&[(PATH, &lines.join("\n"))]);
        let short = |violation: &Violation| {
            let text = violation.to_string();
            text.split(';').next().unwrap().replace("CHANGELOG.md:", "")
        };
        changelog(&tree).iter().map(short).collect()
    }

    #[test]
    fn a_well_formed_changelog_passes_and_so_does_none() {
        let lines = [
            "# Changelog",
            "",
            "## Unreleased",
            "",
            "### Added",
            "- a",
            "",
            "## 0.1.0 - 2026-01-31",
            "### Added",
            "- b",
        ];
        assert_eq!(reports(&lines), [""; 0]);
        assert_eq!(changelog(&FileTree::of_texts(&[])), []);
    }

    #[test]
    fn unreleased_comes_first() {
        assert_eq!(reports(&["# Changelog"]), ["1: no version"]);
        let lines = ["## 0.1.0 - 2026-01-31", "## Unreleased"];
        let expected = ["1: the first version is not `## Unreleased`", "2: not a version with its date"];
        assert_eq!(reports(&lines), expected);
    }

    #[test]
    fn a_release_has_three_numbers_and_a_date() {
        for bad in
            ["0.1.0", "0.1 - 2026-01-31", "0.1.x - 2026-01-31", "0.1.0 - 31.1.2026", "0.1.0 - 2026-1-31"]
        {
            let version = format!("## {bad}");
            assert_eq!(reports(&["## Unreleased", &version]), ["2: not a version with its date"], "{bad}");
        }
    }

    #[test]
    fn groups_are_known_and_come_once_in_a_version() {
        let lines = ["## Unreleased", "### New", "- a", "### Fixed", "- b", "### Fixed", "- c"];
        assert_eq!(reports(&lines), ["2: unknown group `New`", "6: `Fixed` comes twice in this version"]);
    }

    #[test]
    fn a_group_has_items_and_an_item_has_a_group() {
        let lines = ["## Unreleased", "- a", "### Added", "### Fixed"];
        assert_eq!(
            reports(&lines),
            ["2: an item outside of a group", "3: an empty group", "4: an empty group"]
        );
    }
}
