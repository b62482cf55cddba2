//! `allow` and `deny`: lists on a limit or on a domain, written down or in files of their own.
//!
//! Called by `limit` and `domain`. A file of a list lies beside the rule file or below it, unless
//! its path begins with `/`; it has one item on a line, and what follows `#` or `;` is a comment.
//!
//! Invariant: a list that cannot be read whole is an error; half of a deny list would let pass
//! whom it was written for.
//!
//! Deliberately not here: what an item matches; noticing that a file has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_core::list::{ExceptionLists, ListItem, ListValue, PATTERNS_MAX};
use tollgate_yaml::{Location, Problems, SourceFile, YamlMap, YamlNode, YamlValue, quoted};

use crate::fields::{self, text};
use crate::keys::RuleMapKind;

/// The most items of one list: some 20 MiB of memory.
pub const LIST_MAX: usize = 1_000_000;

const KEYS: [&str; 2] = ["allow", "deny"];

/// The lists of a limit or a domain, as read.
#[derive(Debug, Default)]
pub(crate) struct FileLists {
    allow: Vec<ListItem>,
    deny: Vec<ListItem>,
}

impl FileLists {
    /// Both lists; none if one is wrong, which is reported.
    pub(crate) fn read(fields: &YamlMap, problems: &mut Problems) -> Option<Self> {
        let errors_before = problems.error_count();
        let [allow, deny] = KEYS.map(|key| {
            let reader = ListReader { items: Vec::new(), problems: &mut *problems };
            reader.list(fields, key)
        });
        (problems.error_count() == errors_before).then_some(Self { allow, deny })
    }

    /// Adds those of another file on the same domain.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.allow.append(&mut other.allow);
        self.deny.append(&mut other.deny);
    }

    /// The lists to decide by; none if nobody is on them.
    pub(crate) fn shared(self) -> Option<Arc<ExceptionLists>> {
        ExceptionLists::shared(self.allow, self.deny)
    }
}

struct ListReader<'a> {
    items: Vec<ListItem>,
    problems: &'a mut Problems,
}

impl ListReader<'_> {
    fn list(mut self, fields: &YamlMap, name: &'static str) -> Vec<ListItem> {
        for node in fields.list(name, "10.0.0.0/8", self.problems) {
            self.item(node);
        }
        let patterns = self.items.iter().filter(|item| matches!(item.value, ListValue::Pattern(_))).count();
        for (found, most, what) in
            [(self.items.len(), LIST_MAX, "items"), (patterns, PATTERNS_MAX, "patterns")]
        {
            if found > most {
                let message = format!("{name} has {found} {what}, at most {most} are taken");
                self.problems.error(fields.location(name), message, "write fewer");
            }
        }
        self.items
    }

    fn item(&mut self, node: &YamlNode) {
        if let YamlValue::Scalar(_) = &*node.value {
            if let Some(value) = node.text("an item of a list", "10.0.0.0/8", self.problems) {
                self.value(None, &value.value, value.at);
            }
            return;
        }
        let errors_before = self.problems.error_count();
        let Some(fields) = fields::read(node, RuleMapKind::ListItem, self.problems) else { return };
        let key = text(&fields, "key", self.problems);
        let value = text(&fields, "value", self.problems);
        let file = fields.text("file", self.problems);
        if self.problems.error_count() > errors_before {
            return;
        }
        match (value, file) {
            (Some(value), None) => self.value(key, &value, fields.location("value")),
            (None, Some(file)) => self.file(key.as_deref(), &file.value, file.at),
            (Some(_), Some(_)) | (None, None) => {
                let help = "write { key: NAME, value: VALUE } or { key: NAME, file: PATH }";
                self.problems.error(node.at, "an item of a list has either a value or a file", help);
            }
        }
    }

    fn value(&mut self, key: Option<String>, text: &str, at: Location) {
        match text.parse() {
            Ok(value) => {
                if is_almost_network(&value) {
                    self.problems.warning(at, almost_network(text), NETWORK_HELP);
                }
                self.items.push(ListItem { key, value });
            }
            Err(error) => self.problems.error_from(at, &error),
        }
    }

    fn file(&mut self, key: Option<&str>, file: &str, at: Location) {
        let path = path_of(self.problems.name_of(at.file), file);
        if !path.exists() {
            let message = format!("there is no list {}", quoted(file));
            return self.problems.error(at, message, "write its path, as seen from the rule file");
        }
        // Opening a FIFO would wait until somebody writes to it.
        if path.metadata().is_ok_and(|data| !data.is_file()) {
            let message = format!("the list {} is not an ordinary file", quoted(file));
            return self.problems.error(at, message, "write the path of a file with one item on a line");
        }
        let source = match SourceFile::read(&path) {
            Ok(source) => source,
            Err(problem) => {
                let message = format!("the list {}: {}", quoted(file), problem.message);
                return self.problems.error(at, message, problem.help);
            }
        };
        let mut is_warned = false;
        for (index, line) in source.text.lines().enumerate() {
            let line = without_comment(line);
            if line.is_empty() {
                continue;
            }
            match line.parse() {
                Ok(value) => {
                    // A file of a million of them is told by its first.
                    if !is_warned && is_almost_network(&value) {
                        is_warned = true;
                        let message =
                            format!("line {} of {}: {}", index + 1, quoted(file), almost_network(line));
                        self.problems.warning(at, message, NETWORK_HELP);
                    }
                    self.items.push(ListItem { key: key.map(str::to_owned), value });
                }
                Err(error) => {
                    let error = format!("line {} of {}: {error}", index + 1, quoted(file));
                    self.problems.error_from(at, &error);
                }
            }
        }
    }
}

const NETWORK_HELP: &str = "write ADDRESS/LENGTH if it is meant as a network";

fn almost_network(text: &str) -> String {
    format!("{} looks like a network and is none: only a value that is equal to it matches", quoted(text))
}

/// Whether a value begins as an address does and ends with a length, so that it was probably meant as a
/// network: `2001:db8:acme::/48`, `10.0.O.0/16`.
fn is_almost_network(value: &ListValue) -> bool {
    let ListValue::Exact(text) = value else { return false };
    let Some((address, length)) = text.split_once('/') else { return false };
    let is_length = length.parse::<u8>().is_ok_and(|length| length <= 128);
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.');
    let first = |sign: char| address.split(sign).next().unwrap_or_default();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_v6 = address.matches(':').count() >= 2 && is_hex(first(':'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_v4 = address.matches('.').count() == 3 && is_number(first('.'));
    is_length && address.bytes().all(is_sign) && (is_v6 || is_v4)
}

/// Comments begin a line or follow a space, so that a value may have these signs in it.
fn without_comment(line: &str) -> &str {
    let is_start = |(at, _): &(usize, &str)| {
        line.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(char::is_whitespace))
    };
    let comment = line.match_indices(['#', ';']).find(is_start);
    comment.and_then(|(at, _)| line.get(..at)).unwrap_or(line).trim()
}

/// Where the file of a list is that a rule file names.
fn path_of(rule_file: &str, file: &str) -> PathBuf {
    Path::new(rule_file).parent().unwrap_or(Path::new("")).join(file)
}

/// The files of lists that rule files name, so that a change of them can be noticed. They need not
/// exist, and the rule files need not be right.
///
/// ```
/// use tollgate_rules::{SourceFile, list_files};
/// let text = "domain: shop\ndeny:\n  - { key: remote_address, file: tor.txt }\n".to_owned();
/// let files = list_files(&[SourceFile { name: "rules/shop.yaml".into(), text }]);
/// assert_eq!(files, [std::path::Path::new("rules/tor.txt")]);
/// ```
pub fn list_files(sources: &[SourceFile]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Most rule files have no lists in files, and are not read a second time.
    for source in sources.iter().filter(|source| source.text.contains("file")) {
        let mut problems = Problems::new(vec![source.clone()]);
        if let Some(document) = tollgate_yaml::parse(0, &mut problems) {
            collect(&document.root, false, &mut |file| found.push(path_of(&source.name, file)));
        }
    }
    found.sort();
    found.dedup();
    found
}

fn collect(node: &YamlNode, is_list: bool, found: &mut impl FnMut(&str)) {
    match &*node.value {
        YamlValue::Map(pairs) => {
            for (key, value) in pairs {
                let name = key.as_str().unwrap_or_default();
                match value.as_str() {
                    Some(file) if is_list && name == "file" => found(file),
                    _ => collect(value, KEYS.contains(&name), found),
                }
            }
        }
        YamlValue::List(items) => items.iter().for_each(|item| collect(item, is_list, found)),
        YamlValue::Scalar(_) | YamlValue::Broken => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_network_and_is_none_is_noticed() {
        let is_almost = |text: &str| is_almost_network(&text.parse().unwrap());
        for text in ["2001:db8:acme::/48", "::g/64", "10.0.O.0/16", "10.0.0.0x/8", "fe80:zz:/10"] {
            assert!(is_almost(text), "{text}");
        }
        for text in
            ["10.0.0.0/8", "2001:db8::/32", "urn:a:b/1", "/api/1", "a.b.c.d/8", "1.2.3/4", "x", "10:30:acme"]
        {
            assert!(!text.parse().is_ok_and(|value| is_almost_network(&value)), "{text}");
        }
    }

    #[test]
    fn a_comment_begins_a_line_or_follows_a_space() {
        let cases = [
            ("  10.0.0.0/8  ", "10.0.0.0/8"),
            ("# all", ""),
            ("; all", ""),
            ("10.0.0.0/8 ; SBL1", "10.0.0.0/8"),
            ("10.0.0.0/8\t# office", "10.0.0.0/8"),
            ("user#1;x", "user#1;x"),
            ("", ""),
        ];
        for (line, item) in cases {
            assert_eq!(without_comment(line), item, "{line}");
        }
    }
}
