//! Rules about the pages that say where things are: what they name exists, and every crate is named.
//!
//! Such a page is worth something only while it is true, so the paths in its backticks, its links and
//! the crates that its table allows are compared with the tree.

use std::collections::BTreeSet;

use super::tree::{File, FileTree};
use super::violation::Violation;

/// The pages that say where things are.
const PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/guide/changing.md"];

/// What a word in backticks must end with, or begin with, to be taken for a path.
const ENDINGS: &[&str] = &["/", ".rs", ".lua", ".md", ".toml", ".sh", ".proto"];
const BEGINNINGS: &[&str] =
    &["bench/", "crates/", "deploy/", "docs/", "examples/", "spec/", "xtask/", "fuzz/", "dashboard/"];

/// Every crate is on the map.
pub(super) fn crates(tree: &FileTree) -> Vec<Violation> {
    let map = tree.get("ARCHITECTURE.md").and_then(|file| file.text.as_deref());
    let Some(map) = map else { return Vec::new() };
    let folder = |file: &File| {
        let folder = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!folder.contains('/')).then(|| folder.to_owned())
    };
    let is_named = |folder: &String| {
        let ways = [format!("`{folder}`"), format!("`tollgate-{folder}`"), format!("`crates/{folder}`")];
        ways.iter().any(|way| map.contains(way))
    };
    let complain = |folder: String| {
        let remedy = format!("say there what `{folder}` is for");
        Violation::new(&format!("crates/{folder}/Cargo.toml"), 1, "not named in ARCHITECTURE.md", remedy)
    };
    tree.files().iter().filter_map(folder).filter(|folder| !is_named(folder)).map(complain).collect()
}

/// Every path that a page names in backticks leads to a file or a folder: from the root, or as the end
/// of a longer path. `*` stands for any part of a name, and `{a,b}` for both.
pub(super) fn named_paths(tree: &FileTree) -> Vec<Violation> {
    let places: BTreeSet<&str> = tree
        .files()
        .iter()
        .flat_map(|file| prefixes(&file.path))
        .map(|place| place.trim_end_matches('/'))
        .collect();
    let mut violations = Vec::new();
    for file in PAGES.iter().filter_map(|page| tree.get(page)) {
        for (number, line) in prose(file) {
            for path in line.split('`').skip(1).step_by(2).filter(|word| is_path(word)) {
                for one in alternatives(path) {
                    if !places.iter().any(|place| ends_with(place, one.trim_end_matches('/'))) {
                        let remedy = "correct it, or name what there is instead";
                        violations.push(Violation::new(
                            &file.path,
                            number,
                            format!("there is no `{one}`"),
                            remedy,
                        ));
                    }
                }
            }
        }
    }
    violations
}

/// Every link of a page in Markdown to another file leads to one.
pub(super) fn links(tree: &FileTree) -> Vec<Violation> {
    let places: BTreeSet<&str> = tree.files().iter().flat_map(|file| prefixes(&file.path)).collect();
    let mut violations = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in prose(file) {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next()) {
                if target.is_empty() || target.contains(':') || target.starts_with('/') {
                    continue;
                }
                let resolved = resolve(&file.path, target);
                if !resolved.is_empty() && !places.iter().any(|place| place.trim_end_matches('/') == resolved)
                {
                    let what = format!("a link to {target}, which does not exist");
                    violations.push(Violation::new(&file.path, number, what, "correct it"));
                }
            }
        }
    }
    violations
}

/// What a crate uses of ours is in its row of the table, and the row names no others.
pub(super) fn crate_table(tree: &FileTree) -> Vec<Violation> {
    let Some(map) = tree.get("ARCHITECTURE.md") else { return Vec::new() };
    let mut violations = Vec::new();
    for (number, line) in map.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, _, may_use, ""] = cells.as_slice() else { continue };
        let folder = name.strip_prefix("`crates/").and_then(|rest| rest.split('`').next());
        let Some(manifest) = folder.and_then(|folder| tree.get(&format!("crates/{folder}/Cargo.toml")))
        else {
            continue;
        };
        let allowed: Vec<&str> = may_use.split(", ").collect();
        for used in dependencies(manifest).into_iter().filter(|used| !allowed.contains(used)) {
            let what = format!("{name} uses {used}, which its row does not allow");
            violations.push(Violation::new(&map.path, number, what, "allow it there, or do without it"));
        }
    }
    violations
}

/// The crates of ours that a manifest names among the dependencies of the crate itself.
fn dependencies(manifest: &File) -> Vec<&str> {
    let section = manifest.lines().map(|(_, line)| line).skip_while(|line| *line != "[dependencies]").skip(1);
    let names =
        section.take_while(|line| !line.starts_with('[')).filter_map(|line| line.strip_prefix("tollgate-"));
    names.filter_map(|rest| rest.split(['.', ' ', '=']).next()).collect()
}

/// The lines outside of code blocks.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    file.lines().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

fn is_path(word: &str) -> bool {
    let may = |c: char| c.is_ascii_alphanumeric() || "_-./*{},".contains(c);
    let looks_like_one = ENDINGS.iter().any(|ending| word.ends_with(ending))
        || BEGINNINGS.iter().any(|beginning| word.starts_with(beginning));
    looks_like_one && word.chars().all(may) && !word.starts_with(['/', '.'])
}

/// The path for each word in its braces.
fn alternatives(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (words, behind))) => {
            words.split(',').flat_map(|word| alternatives(&format!("{before}{word}{behind}"))).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// Whether a place ends with the names of a path, which may hold `*`.
fn ends_with(place: &str, path: &str) -> bool {
    let (place, path): (Vec<&str>, Vec<&str>) = (place.rsplit('/').collect(), path.rsplit('/').collect());
    path.len() <= place.len() && place.iter().zip(&path).all(|(name, pattern)| matches(name, pattern))
}

fn matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((before, behind)) => {
            name.len() + 1 >= pattern.len() && name.starts_with(before) && name.ends_with(behind)
        }
    }
}

/// A file and all folders that it lies in, which end with `/`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let folders = path.match_indices('/').map(|(at, _)| path.split_at(at + 1).0);
    folders.chain([path])
}

/// A target from the root, without `.` and `..`.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(rule: fn(&FileTree) -> Vec<Violation>, texts: &[(&str, &str)]) -> Vec<String> {
        rule(&FileTree::of_texts(texts)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_reported() {
        let mut texts = vec![
            ("crates/core/Cargo.toml", ""),
            ("crates/limiter/Cargo.toml", ""),
            ("crates/tower/Cargo.toml", ""),
            ("crates/tower/fixtures/Cargo.toml", ""),
        ];
        assert_eq!(crates(&FileTree::of_texts(&texts)), []);
        texts.push(("ARCHITECTURE.md", "`core` and `crates/limiter`, like a tower\n"));
        let reports: Vec<_> = crates(&FileTree::of_texts(&texts)).iter().map(ToString::to_string).collect();
        let expected =
            "crates/tower/Cargo.toml:1: not named in ARCHITECTURE.md; say there what `tower` is for";
        assert_eq!(reports, [expected]);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_reported() {
        let page = "`crates/a/src/b.rs`, `src/b.rs`, `b.rs`, `a/`, `src/*.rs`, `a/src/{b,c}.rs`, `/v1/check`\n\
                    `crates/z`, `B::new`, `text/html`\n```\n`gone.rs`\n```\n";
        let texts = [("ARCHITECTURE.md", page), ("README.md", "`gone.rs`"), ("crates/a/src/b.rs", "")];
        let remedy = "correct it, or name what there is instead";
        let expected = [
            format!("ARCHITECTURE.md:1: there is no `a/src/c.rs`; {remedy}"),
            format!("ARCHITECTURE.md:2: there is no `crates/z`; {remedy}"),
        ];
        assert_eq!(reports(named_paths, &texts), expected);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_reported() {
        // `^` stands for a step up, or this file would be reported.
        let page = "[a](b.md) [b](b.md#part) [c](^) [d](https://example.com/x.md) [e](gone.md) [f](^/guide)";
        let page = page.replace('^', "..");
        let texts = [("docs/guide/a.md", page.as_str()), ("docs/guide/b.md", "")];
        assert_eq!(
            reports(links, &texts),
            ["docs/guide/a.md:1: a link to gone.md, which does not exist; correct it"]
        );
    }

    #[test]
    fn a_crate_that_uses_more_than_its_row_allows_is_reported() {
        let manifest = "[dependencies]\ntollgate-core.workspace = true\ntollgate-redis = { path = \"x\" }\n\n\
                        [dev-dependencies]\ntollgate-testkit.workspace = true\n";
        let page = "| crate | what | may use |\n|---|---|---|\n| `crates/a` (`tollgate-a`) | one | core, limiter |\n";
        let texts = [("ARCHITECTURE.md", page), ("crates/a/Cargo.toml", manifest)];
        let report = reports(crate_table, &texts);
        assert_eq!(report.len(), 1);
        assert!(report[0].contains("uses redis, which its row does not allow"), "{report:?}");
    }
}
