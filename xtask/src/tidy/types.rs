//! Rules about types: a name means one thing, and types of the wire stay at the wire.

use std::collections::BTreeMap;

use super::tree::{File, FileTree};
use super::violation::Violation;
use crate::rust_source::RustSource;

/// As many types may share a name.
const SHARED_MAX: usize = 2;

/// Names that convention fixes: of errors and results, and of a command's arguments.
const CONVENTION: &[&str] = &["Args", "BoxError", "Error", "Result"];

/// Crates whose types are what goes over a wire.
const WIRE_CRATES: &[&str] = &["envoy_types", "opentelemetry_proto", "prost", "prost_types", "tonic_prost"];

/// Types of other crates that are, too.
const WIRE_TYPES: &[(&str, &str)] =
    &[("tonic", "Request"), ("tonic", "Response"), ("tonic", "Streaming"), ("tonic_health", "pb")];

/// A name that many types share is no name to search for.
pub(super) fn names(tree: &FileTree) -> Vec<Violation> {
    let mut places: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for file in tree.with_extension("rs") {
        for (name, line) in parsed(file).map(|source| source.types()).unwrap_or_default() {
            places.entry(name).or_default().push((file.path.clone(), line));
        }
    }
    let mut violations = Vec::new();
    for (name, places) in places {
        if places.len() > SHARED_MAX && !CONVENTION.contains(&name.as_str()) {
            for (path, line) in &places {
                let what = format!("one of {} types called {name}", places.len());
                violations.push(Violation::new(path, *line, what, "call it what one would search for"));
            }
        }
    }
    violations
}

/// Types of the wire are in `from_wire` and `to_wire`, so that no protocol shapes what is behind it.
pub(super) fn wire(tree: &FileTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.with_extension("rs").filter(|file| !may_use_wire_types(file)) {
        let Some(source) = parsed(file).map(RustSource::without_tests) else { continue };
        let mut crates: Vec<&str> = WIRE_CRATES.to_vec();
        crates.extend(WIRE_TYPES.iter().map(|(of, _)| of));
        let paths = source.paths_into(&crates);
        if let Some(path) = paths.iter().find(|path| is_wire(&path.segments)) {
            let what = format!("`{}` is a type of the wire", path.segments.join("::"));
            let remedy = "use it in a file `from_wire.rs`, `to_wire.rs` or `…_wire.rs`";
            violations.push(Violation::new(&file.path, path.line, what, remedy));
        }
    }
    violations
}

/// Messages are; a generated client is a connection.
fn is_wire(segments: &[String]) -> bool {
    match segments {
        [first, rest @ ..] if WIRE_CRATES.contains(&first.as_str()) => {
            !rest.iter().any(|segment| segment.ends_with("_client"))
        }
        [first, second, ..] => WIRE_TYPES.contains(&(first.as_str(), second.as_str())),
        _ => false,
    }
}

/// Files at the wire, tests, and the load generator, which is nothing but a caller.
fn may_use_wire_types(file: &File) -> bool {
    let is_ours = file.path.starts_with("crates/") && file.path.contains("/src/");
    let names = file.path.trim_end_matches(".rs").split('/');
    let at_the_wire = |name: &str| name.ends_with("_wire") || matches!(name, "tests");
    !is_ours || file.path.starts_with("crates/load/") || names.into_iter().any(at_the_wire)
}

/// None if it is no Rust, which the compiler says better.
fn parsed(file: &File) -> Option<RustSource> {
    RustSource::parse(&file.path, file.text.as_deref()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(violations: &[Violation]) -> Vec<String> {
        violations.iter().map(Violation::place).collect()
    }

    #[test]
    fn a_name_that_three_types_share_is_reported() {
        let texts = [
            ("a.rs", "struct Asked;\nenum Error {}\nstruct Twice;"),
            ("b.rs", "enum Error {}\n\ntrait Asked {}\nstruct Twice;"),
            ("c.rs", "#[cfg(test)]\nmod tests {\n    struct Asked;\n    type Error = u8;\n}"),
        ];
        let tree = FileTree::of_texts(&texts);
        assert_eq!(places(&names(&tree)), ["a.rs:1", "b.rs:3", "c.rs:3"]);
    }

    #[test]
    fn a_type_of_the_wire_elsewhere_is_reported() {
        let (message, none) = ("\nuse envoy_types::pb::Entry;", "use tonic::Status;");
        let texts = [
            ("crates/a/src/b.rs", message),
            ("crates/a/src/c.rs", "fn f(_: tonic::Request<u8>) {}"),
            ("crates/a/src/d.rs", none),
            ("crates/a/src/e_wire.rs", message),
            ("crates/a/src/from_wire/f.rs", message),
            ("crates/a/tests/g.rs", message),
            ("crates/load/src/codec/h.rs", message),
        ];
        let tree = FileTree::of_texts(&texts);
        assert_eq!(places(&wire(&tree)), ["crates/a/src/b.rs:2", "crates/a/src/c.rs:1"]);
    }
}
