//! The step `tidy`: the house rules that a program can check, over every file that git would take.
//!
//! `tree` lists and reads the files; then each rule looks at all of them and returns what it found;
//! then everything is reported at once as `path:line: what; what to do`. Rules are pure functions
//! of a `FileTree`, so each has a test with a tiny bad one. `the_repository_is_tidy` below runs the same code.
//! Invariant: a rule names a word that it bans only in pieces, or it would find itself.
//! Not here: what rustfmt and clippy see already, such as the length of functions.

mod changelog;
mod leftovers;
mod map;
mod pairs;
mod paths;
mod shape;
mod tree;
mod types;
mod violation;

use anyhow::{Result, bail};

use crate::workspace;
use tree::FileTree;
use violation::Violation;

const RULES: &[fn(&FileTree) -> Vec<Violation>] = &[
    shape::header,
    shape::length,
    shape::blob,
    shape::extension,
    leftovers::markers,
    leftovers::rust_leftovers,
    leftovers::trailing_whitespace,
    paths::of_one_machine,
    paths::out_of_the_repository,
    pairs::lua_twins,
    pairs::algorithm_pages,
    pairs::peers_lock,
    map::crates,
    map::crate_table,
    map::named_paths,
    map::links,
    types::names,
    types::wire,
    changelog::changelog,
];

/// Applies all rules to the repository and fails with all violations.
pub(crate) fn run() -> Result<()> {
    let tree = FileTree::of_repository(workspace::root())?;
    let violations = violations(&tree);
    if !violations.is_empty() {
        let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
        bail!("{}\n{} violations", lines.join("\n"), lines.len());
    }
    println!("{} files are tidy", tree.files().len());
    Ok(())
}

fn violations(tree: &FileTree) -> Vec<Violation> {
    let mut violations: Vec<_> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    violations.sort();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        if let Err(error) = run() {
            panic!("{error:#}");
        }
    }

    #[test]
    fn all_violations_are_reported_in_the_order_of_files_and_lines() {
        let tree = FileTree::of_texts(&[("b.rs", "mod c; \n\nmod d; \n"), ("a.xyz", "")]);
        let places: Vec<_> = violations(&tree).iter().map(Violation::place).collect();
        assert_eq!(places, ["a.xyz:1", "b.rs:1", "b.rs:1", "b.rs:3"]);
    }
}
