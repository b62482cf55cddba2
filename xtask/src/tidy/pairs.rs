//! Rules about files that must come together: maths and its twin, its page and its vectors; a lock file and what it locks.
//!
//! A rule about a folder that is not there yet finds nothing.

use super::tree::{File, FileTree};
use super::violation::Violation;

const ALGORITHM_FOLDER: &str = "crates/core/src/algorithm/";

/// The files in that folder that are an algorithm each; the others help them.
const ALGORITHMS: &[&str] =
    &["fixed_window", "sliding_log", "sliding_counter", "sliding_buckets", "token_bucket", "leaky_bucket"];

/// Lua files without a twin of their name in that folder, without `.lua`: what all of them share, whose
/// twin is `algorithm.rs`; what decides single charges and charge sets, whose twin is the limiter's
/// `store.rs`; the one that talks to Redis; the ones that count nodes and share their load; and the interval of the token bucket, whose twin is in
/// `token_bucket.rs`.
const LUA_WITHOUT_TWIN: &[&str] =
    &["algorithm", "single_charges", "charge_sets", "store", "heartbeat", "load", "token_bucket_interval"];

/// All maths in Lua exists in Rust under the same name, so that one can be read beside the other.
pub(super) fn lua_twins(tree: &FileTree) -> Vec<Violation> {
    let is_script = |file: &&File| {
        let folder = file.path.strip_suffix(file.name()).unwrap_or_default();
        format!("/{folder}").ends_with("/redis/lua/")
    };
    let lonely = |file: &File| {
        let name = file.name().strip_suffix(".lua")?;
        let twin = format!("{ALGORITHM_FOLDER}{name}.rs");
        let has_twin =
            [&twin, &format!("crates/core/src/{name}.rs")].iter().any(|path| tree.get(path).is_some());
        let is_alone = !LUA_WITHOUT_TWIN.contains(&name) && !has_twin;
        is_alone.then(|| Violation::new(&file.path, 1, "no Rust twin", format!("write {twin}")))
    };
    tree.with_extension("lua").filter(is_script).filter_map(lonely).collect()
}

/// Every algorithm has a page with its promise and vectors that show it.
pub(super) fn algorithm_pages(tree: &FileTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for name in ALGORITHMS {
        let code = format!("{ALGORITHM_FOLDER}{name}.rs");
        if tree.get(&code).is_none() {
            continue;
        }
        let pairs = [
            ("no page", format!("spec/algorithms/{name}.md")),
            ("no vectors", format!("spec/vectors/{name}.yaml")),
        ];
        for (what, path) in pairs {
            if tree.get(&path).is_none() {
                violations.push(Violation::new(&code, 1, what, format!("write {path}")));
            }
        }
    }
    violations
}

/// The lock file of the benchmark beside peers, which is a workspace of its own that no other step builds.
const PEERS_LOCK: &str = "bench/peers/Cargo.lock";
/// Packages of ours that it locks, and their manifests.
const LOCKED: &[(&str, &str)] = &[
    ("tollgate-core", "crates/core/Cargo.toml"),
    ("tollgate-limiter", "crates/limiter/Cargo.toml"),
    ("tollgate-in-process", "bench/in-process/Cargo.toml"),
];

/// Whoever adds a dependency to what is measured beside peers adds it to their lock file, too.
pub(super) fn peers_lock(tree: &FileTree) -> Vec<Violation> {
    let Some(lock) = tree.get(PEERS_LOCK).and_then(|file| file.text.as_deref()) else { return Vec::new() };
    let locked = |package: &str| -> Vec<&str> {
        let name = format!("name = \"{package}\"");
        let behind = lock.split("[[package]]").find(|entry| entry.lines().any(|line| line == name));
        let quoted = behind.unwrap_or_default().lines().filter_map(|line| line.trim().strip_prefix('"'));
        quoted.filter_map(|word| word.split([' ', '"']).next()).collect()
    };
    let stale = |(package, manifest): &(&str, &str)| {
        let missing = dependencies(tree.get(manifest)?.text.as_deref()?)
            .find(|name| !locked(package).contains(name))?;
        let remedy =
            format!("cargo metadata --manifest-path bench/peers/Cargo.toml adds {missing} of {package}");
        Some(Violation::new(PEERS_LOCK, 1, "stale", remedy))
    };
    LOCKED.iter().filter_map(stale).collect()
}

/// The names of what a manifest depends on, always and not only in tests.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]"));
    let lines = section.unwrap_or_default().lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.contains("optional = true"));
    lines.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_the_peers_lock_file_lacks_is_reported() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\n# why\nslab.workspace = true\nspin = \"1\"\n\
                        tokio = { optional = true }\n\n[dev-dependencies]\nloom = \"0.7\"\n";
        let lock =
            |words: &str| format!("[[package]]\nname = \"tollgate-limiter\"\ndependencies = [\n{words}]\n");
        let reports = |lock: &str| {
            let tree = FileTree::of_texts(&[("crates/limiter/Cargo.toml", manifest), (PEERS_LOCK, lock)]);
            peers_lock(&tree).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(reports(&lock(" \"slab\",\n \"spin 0.12.3\",\n")).is_empty());
        let expected = "bench/peers/Cargo.lock:1: stale; \
                        cargo metadata --manifest-path bench/peers/Cargo.toml adds spin of tollgate-limiter";
        assert_eq!(reports(&lock(" \"slab\",\n")), [expected]);
    }

    fn reports(rule: fn(&FileTree) -> Vec<Violation>, paths: &[&str]) -> Vec<String> {
        let tree = FileTree::of_texts(&paths.iter().map(|path| (*path, "")).collect::<Vec<_>>());
        rule(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_script_without_its_twin_is_reported() {
        let paths = [
            "crates/core/src/algorithm/token_bucket.rs",
            "crates/redis/lua/sliding_log.lua",
            "crates/redis/lua/token_bucket.lua",
            "examples/other.lua",
        ];
        let expected = "crates/redis/lua/sliding_log.lua:1: no Rust twin; \
                        write crates/core/src/algorithm/sliding_log.rs";
        assert_eq!(reports(lua_twins, &paths), [expected]);
    }

    #[test]
    fn an_algorithm_without_its_page_or_its_vectors_is_reported() {
        let paths = [
            "crates/core/src/algorithm/fixed_window.rs",
            "crates/core/src/algorithm/fraction.rs",
            "crates/core/src/algorithm/leaky_bucket.rs",
            "crates/core/src/algorithm/token_bucket.rs",
            "spec/algorithms/fixed_window.md",
            "spec/algorithms/token_bucket.md",
            "spec/vectors/fixed_window.yaml",
            "spec/vectors/leaky_bucket.yaml",
        ];
        let expected = [
            "crates/core/src/algorithm/token_bucket.rs:1: no vectors; write spec/vectors/token_bucket.yaml",
            "crates/core/src/algorithm/leaky_bucket.rs:1: no page; write spec/algorithms/leaky_bucket.md",
        ];
        assert_eq!(reports(algorithm_pages, &paths), expected);
    }
}
