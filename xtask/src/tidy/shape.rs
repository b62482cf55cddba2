//! Rules about a file as a whole: its header, its length, its size, its extension.

use super::tree::{File, FileTree};
use super::violation::Violation;

/// The most lines of a file of code: about what one can keep in mind at once.
const LINES_MAX: usize = 600;

/// The most lines of a binary's `main.rs`: arguments in, exit code out, the rest is a library's.
const MAIN_LINES_MAX: usize = 20;

/// Files of code that are longer all the same, with their length. A ratchet: a row may only be
/// lowered, and goes when the file is short enough.
const LONG_FILES: &[(&str, usize)] = &[];

/// What counts as code for the length of files. Vectors and documents may be as long as they need.
const CODE: &[&str] = &["rs", "lua", "ts", "tsx", "js", "sh"];

/// The largest file, in bytes: git keeps every version for ever.
const BYTES_MAX: usize = 256 * 1024;

/// Files that are larger all the same, with their size. It may not change: git would keep both.
const LARGE_FILES: &[(&str, usize)] = &[
    // A real access log, which no generator is as skewed as; it is never edited.
    ("crates/testkit/data/nasa-1995-08-01.log.gz", 290_994),
];

/// The kinds of file that belong here.
const EXTENSIONS: &[&str] = &[
    "conf", "css", "expected", "gz", "html", "js", "json", "lock", "lua", "md", "pem", "png", "proto", "py",
    "rs", "service", "sh", "svg", "toml", "ts", "tsx", "txt", "warnings", "yaml", "yml",
];

/// Files without an extension that belong here.
const NAMES: &[&str] = &[
    ".dockerignore",
    ".gitattributes",
    ".gitignore",
    ".ci/run",
    "Caddyfile",
    "Dockerfile",
    "LICENSE",
    "NOTICE",
];

/// Every Rust file opens with its documentation.
pub(super) fn header(tree: &FileTree) -> Vec<Violation> {
    let has_header = |file: &&File| {
        let first = file.lines().next().and_then(|(_, line)| line.strip_prefix("//!"));
        first.is_some_and(|words| !words.trim().is_empty())
    };
    let complain = |file: &File| {
        Violation::new(&file.path, 1, "no header", "open the file with `//!` and what it is for")
    };
    tree.with_extension("rs").filter(|file| !has_header(file)).map(complain).collect()
}

/// Files of code are short, or at least no longer than they were.
pub(super) fn length(tree: &FileTree) -> Vec<Violation> {
    length_with(tree, LONG_FILES)
}

fn length_with(tree: &FileTree, long_files: &[(&str, usize)]) -> Vec<Violation> {
    let is_code = |file: &&File| file.extension().is_some_and(|extension| CODE.contains(&extension));
    let known = |file: &File| long_files.iter().find(|(path, _)| *path == file.path).map(|(_, lines)| *lines);
    let too_long = |file: &File| {
        let most = known(file).unwrap_or_else(|| lines_max(&file.path));
        let lines = file.lines().count();
        (lines > most).then(|| {
            let what = format!("{lines} lines where {most} are the most");
            Violation::new(&file.path, lines, what, "split it along the flow of data")
        })
    };
    let stale = |(path, lines): &(&str, usize)| {
        let is_long =
            tree.get(path).is_some_and(|file| file.lines().count() == *lines && *lines > lines_max(path));
        // A file that has grown is reported above, and must not be let off by a new number.
        let has_grown = tree.get(path).is_some_and(|file| file.lines().count() > *lines);
        (!is_long && !has_grown).then(|| {
            let remedy = "lower its row in LONG_FILES (xtask/src/tidy/shape.rs), or remove it";
            Violation::new(path, 1, format!("no longer has {lines} lines"), remedy)
        })
    };
    let grown = tree.files().iter().filter(is_code).filter_map(too_long);
    grown.chain(long_files.iter().filter_map(stale)).collect()
}

fn lines_max(path: &str) -> usize {
    if path.ends_with("src/main.rs") { MAIN_LINES_MAX } else { LINES_MAX }
}

/// No large file gets into git.
pub(super) fn blob(tree: &FileTree) -> Vec<Violation> {
    let complain = |file: &File| {
        let what = format!("{} bytes where {BYTES_MAX} are the most", file.bytes);
        Violation::new(&file.path, 1, what, "generate it, make it smaller, or keep it elsewhere")
    };
    let is_known = |file: &File| LARGE_FILES.contains(&(file.path.as_str(), file.bytes));
    tree.files().iter().filter(|file| file.bytes > BYTES_MAX && !is_known(file)).map(complain).collect()
}

/// Only kinds of file that we know get into git.
pub(super) fn extension(tree: &FileTree) -> Vec<Violation> {
    let is_known = |file: &&File| match file.extension() {
        Some(extension) => EXTENSIONS.contains(&extension),
        None => NAMES.contains(&file.name()) || NAMES.contains(&file.path.as_str()),
    };
    let complain = |file: &File| {
        let remedy = "remove it, or add its kind to xtask/src/tidy/shape.rs";
        Violation::new(&file.path, 1, "an unknown kind of file", remedy)
    };
    tree.files().iter().filter(|file| !is_known(file)).map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(violations: &[Violation]) -> Vec<String> {
        violations.iter().map(Violation::place).collect()
    }

    #[test]
    fn a_rust_file_without_a_header_is_reported() {
        let tree = FileTree::of_texts(&[
            ("bare.rs", "fn main() {}\n"),
            ("empty.rs", ""),
            ("good.rs", "//! What it is for.\n"),
            ("late.rs", "#![no_main]\n//! Too late.\n"),
            ("other.md", "Text.\n"),
            ("wordless.rs", "//!\n"),
        ]);
        assert_eq!(places(&header(&tree)), ["bare.rs:1", "empty.rs:1", "late.rs:1", "wordless.rs:1"]);
    }

    #[test]
    fn a_file_of_code_longer_than_the_most_is_reported() {
        let (most, over) = ("\n".repeat(LINES_MAX), "\n".repeat(LINES_MAX + 1));
        let tree = FileTree::of_texts(&[("long.rs", &over), ("most.rs", &most), ("vectors.yaml", &over)]);
        assert_eq!(places(&length_with(&tree, &[])), ["long.rs:601"]);
    }

    #[test]
    fn a_main_has_twenty_lines_at_most() {
        let (most, over) = ("\n".repeat(20), "\n".repeat(21));
        let tree = FileTree::of_texts(&[
            ("a/src/main.rs", &most),
            ("b/src/main.rs", &over),
            ("b/tests/it/main.rs", &over),
        ]);
        assert_eq!(places(&length_with(&tree, &[])), ["b/src/main.rs:21"]);
    }

    #[test]
    fn a_known_long_file_may_stay_and_may_not_grow() {
        let tree = FileTree::of_texts(&[("long.rs", &"\n".repeat(700))]);
        assert_eq!(places(&length_with(&tree, &[("long.rs", 700)])), [""; 0]);
        assert_eq!(places(&length_with(&tree, &[("long.rs", 699)])), ["long.rs:700"]);
    }

    #[test]
    fn a_row_that_the_file_no_longer_needs_is_reported() {
        let tree = FileTree::of_texts(&[("long.rs", &"\n".repeat(700)), ("short.rs", "\n")]);
        let rows = [("gone.rs", 700), ("long.rs", 800), ("short.rs", 1)];
        assert_eq!(places(&length_with(&tree, &rows)), ["gone.rs:1", "long.rs:1", "short.rs:1"]);
    }

    #[test]
    fn a_large_file_is_reported() {
        let (most, over) = ("x".repeat(BYTES_MAX), "x".repeat(BYTES_MAX + 1));
        let tree = FileTree::of_texts(&[("large.txt", &over), ("most.txt", &most)]);
        assert_eq!(places(&blob(&tree)), ["large.txt:1"]);
    }

    #[test]
    fn an_unknown_kind_of_file_is_reported() {
        let known = [".ci/run", "a/LICENSE", "a/b.rs", ".gitignore"];
        let unknown = [".idea", "dump.rdb", "run", "trace.profraw"];
        let tree =
            FileTree::of_texts(&known.iter().chain(&unknown).map(|path| (*path, "")).collect::<Vec<_>>());
        assert_eq!(places(&extension(&tree)), unknown.map(|path| format!("{path}:1")));
    }
}
