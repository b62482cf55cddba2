//! The YAML blocks of one Markdown page: which are rule files, which are rule tests.
//!
//! A block with `tests:` is a rule test, one with `domain:` a rule file; a first line `# file: NAME`
//! names it, so that a test can refer to a rule file of the same page. Any other YAML begins with
//! `# not a rule file: WHY`, so that no example goes unchecked by accident.

use std::collections::HashMap;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    Rules,
    Test,
    /// Says of itself that it is neither.
    Other,
}

/// One block of YAML.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of its first line in the page, from 1.
    pub(super) line: usize,
    /// The name of the file to write.
    pub(super) name: String,
    pub(super) kind: BlockKind,
    text: String,
}

impl Block {
    /// The text, each line where it stands in the page.
    pub(super) fn padded(&self) -> String {
        format!("{}{}", "\n".repeat(self.line - 1), self.text)
    }
}

/// The YAML blocks of a page; or, by line, what is wrong and what to do.
pub(super) fn of(page: &str) -> Result<Vec<Block>, Vec<(usize, String)>> {
    let (mut blocks, mut wrong) = (Vec::new(), Vec::new());
    let mut names: HashMap<String, usize> = HashMap::new();
    for (line, text) in fenced(page) {
        match block(line, text) {
            Ok(block) => {
                if let Some(earlier) = names.insert(block.name.clone(), line) {
                    let what = format!("{} is also the name of the block at line {earlier}", block.name);
                    wrong.push((line, format!("{what}; write another name")));
                }
                blocks.push(block);
            }
            Err(what) => wrong.push((line, what)),
        }
    }
    if wrong.is_empty() { Ok(blocks) } else { Err(wrong) }
}

/// The insides of all YAML fences with the number of their first line.
fn fenced(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(page.lines());
    while let Some((number, line)) = lines.next() {
        let Some(fence) = Fence::open(line) else { continue };
        let mut text = String::new();
        for (_, line) in lines.by_ref() {
            if fence.is_closed_by(line) {
                break;
            }
            // A fence inside of a list is indented, and so is all of it.
            let own = line.len() - line.trim_start_matches(' ').len();
            text.push_str(line.split_at(own.min(fence.indent)).1);
            text.push('\n');
        }
        if fence.is_yaml {
            found.push((number + 1, text));
        }
    }
    found
}

struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    is_yaml: bool,
}

impl Fence {
    fn open(line: &str) -> Option<Self> {
        let inner = line.trim_start_matches(' ');
        let mark = inner.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
        let info = inner.trim_start_matches(mark);
        let length = inner.len() - info.len();
        let language = info.split([' ', ',', '{']).find(|word| !word.is_empty()).unwrap_or_default();
        let is_yaml = ["yaml", "yml"].iter().any(|name| language.eq_ignore_ascii_case(name));
        (length >= 3).then(|| Self { mark, length, indent: line.len() - inner.len(), is_yaml })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let inner = line.trim();
        inner.len() >= self.length && inner.chars().all(|c| c == self.mark)
    }
}

fn block(line: usize, text: String) -> Result<Block, String> {
    let first = text.lines().next().unwrap_or_default();
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    let kind = if let Some(why) = first.strip_prefix("# not a rule file:") {
        if why.trim().is_empty() {
            return Err("no reason; write # not a rule file: WHY".to_owned());
        }
        BlockKind::Other
    } else if has("tests:") {
        BlockKind::Test
    } else if has("domain:") {
        BlockKind::Rules
    } else {
        let what = "this YAML is neither a rule file (domain:) nor a rule test (tests:)";
        return Err(format!("{what}; begin it with # not a rule file: WHY, or correct it"));
    };
    let is_test = |name: &str| name.ends_with(".test.yaml");
    let name = match first.strip_prefix("# file:").map(str::trim) {
        Some(name) if name.contains(['/', '\\']) || !name.ends_with(".yaml") => {
            return Err(format!(
                "`{name}` cannot name a block; write a name without a folder that ends in .yaml"
            ));
        }
        Some(name) if kind == BlockKind::Test && !is_test(name) => {
            return Err(format!("`{name}` names a rule test; write a name that ends in .test.yaml"));
        }
        Some(name) if kind == BlockKind::Rules && is_test(name) => {
            return Err(format!("`{name}` names a rule file; write a name that does not end in .test.yaml"));
        }
        Some(name) => name.to_owned(),
        None if kind == BlockKind::Test => format!("line-{line}.test.yaml"),
        None => format!("line-{line}.yaml"),
    };
    Ok(Block { line, name, kind, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<(usize, String, BlockKind)> {
        of(page).unwrap().into_iter().map(|block| (block.line, block.name, block.kind)).collect()
    }

    fn complaints(page: &str) -> Vec<String> {
        of(page).unwrap_err().into_iter().map(|(line, what)| format!("{line}: {what}")).collect()
    }

    #[test]
    fn rule_files_and_rule_tests_are_told_apart_and_named() {
        let page = "# Title\n\n```yaml\n# file: shop.yaml\ndomain: shop\n```\n\nText.\n\n```yaml\nrules: shop.yaml\n\
                    tests: []\n```\n\n```yml\ndomain: other\n```\n\n```yaml\n# not a rule file: settings\na: b\n```\n";
        let expected = [
            (4, "shop.yaml", BlockKind::Rules),
            (11, "line-11.test.yaml", BlockKind::Test),
            (16, "line-16.yaml", BlockKind::Rules),
            (20, "line-20.yaml", BlockKind::Other),
        ];
        assert_eq!(found(page), expected.map(|(line, name, kind)| (line, name.to_owned(), kind)));
    }

    #[test]
    fn a_block_keeps_the_lines_of_its_page() {
        let blocks = of("one\ntwo\n```yaml\ndomain: shop\n```\n").unwrap();
        assert_eq!(blocks[0].padded(), "\n\n\ndomain: shop\n");
    }

    #[test]
    fn other_languages_are_left_alone() {
        assert_eq!(found("```sh\ndomain: x\n```\n```\ntests:\n```\n~~~json\n{}\n~~~\n`yaml`\n"), []);
        assert_eq!(found("````md\n```yaml\na: b\n```\n````\n"), []);
    }

    #[test]
    fn a_block_inside_of_a_list_loses_its_indent() {
        let blocks =
            of("- item\n\n  ```yaml\n  domain: shop\n  descriptors:\n    - key: a\n  ```\n").unwrap();
        assert_eq!(blocks[0].text, "domain: shop\ndescriptors:\n  - key: a\n");
    }

    #[test]
    fn yaml_that_is_neither_must_say_why() {
        let what = "this YAML is neither a rule file (domain:) nor a rule test (tests:); \
                    begin it with # not a rule file: WHY, or correct it";
        assert_eq!(
            complaints("```yaml\nlisten: 1\n```\n\n```yaml\n```\n"),
            [format!("2: {what}"), format!("6: {what}")]
        );
        let no_reason = complaints("```yaml\n# not a rule file:\n```\n");
        assert_eq!(no_reason, ["2: no reason; write # not a rule file: WHY"]);
    }

    #[test]
    fn names_that_would_mislead_are_refused() {
        let named = |name: &str, key: &str| complaints(&format!("```yaml\n# file: {name}\n{key}: x\n```\n"));
        assert!(named("b/../a.yaml", "domain")[0].contains("without a folder"));
        assert!(named("a.yml", "domain")[0].contains("ends in .yaml"));
        assert!(named("a.yaml", "tests")[0].contains("ends in .test.yaml"));
        assert!(named("a.test.yaml", "domain")[0].contains("does not end in .test.yaml"));
        let twice = "```yaml\n# file: a.yaml\ndomain: x\n```\n".repeat(2);
        assert_eq!(
            complaints(&twice),
            ["6: a.yaml is also the name of the block at line 2; write another name"]
        );
    }
}
