//! Rules about files that must come together: maths and its twin, its page and its vectors.
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

#[cfg(test)]
mod tests {
    use super::*;

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
