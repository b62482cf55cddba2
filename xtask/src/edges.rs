//! The step `edges`: no crate sees one that it must not, and no modules of a crate use each other.
//!
//! Crates are checked with `cargo tree` against the table below: one row per crate, so that its place
//! is decided when it is made. Dev-dependencies are free: a test may see anything. `modules` reads the
//! source for cycles between modules.

mod modules;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::process::Invocation;
use crate::workspace;
use modules::{ModuleEdge, ModuleGraph, cycles};

/// What one crate may see, directly or through others.
struct CrateRow {
    /// The folder in `crates/`; the package is `tollgate-<folder>`.
    folder: &'static str,
    /// The crates of this workspace that it may see, by folder.
    ours: &'static [&'static str],
    theirs: Theirs,
    why: &'static str,
}

/// Which crates from outside of the workspace one of ours may see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theirs {
    Any,
    Nothing,
}

/// Invariant: `testkit` appears in no row, because it is for tests only.
const TABLE: &[CrateRow] = &[
    CrateRow {
        folder: "core",
        ours: &[],
        theirs: Theirs::Nothing,
        why: "core is pure: no I/O, runtime, serde or Redis can come in while it uses std alone",
    },
    CrateRow {
        folder: "limiter",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "stores and servers are built on the limiter, not under it",
    },
    CrateRow {
        folder: "yaml",
        ours: &[],
        theirs: Theirs::Any,
        why: "what a file says is known without knowing what it is for",
    },
    CrateRow {
        folder: "rules",
        ours: &["yaml", "core"],
        theirs: Theirs::Any,
        why: "rules are read from files before a limiter is made of them",
    },
    CrateRow {
        folder: "redis",
        ours: &["limiter", "history", "defer", "core"],
        theirs: Theirs::Any,
        why: "what is kept on Redis knows the traits of the limiter, of the history and of the queue, and nothing above them",
    },
    CrateRow {
        folder: "history",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "history reads events and must never be able to slow down or change a decision",
    },
    CrateRow {
        folder: "defer",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "a queue keeps requests; who sends them and who says when stands above it",
    },
    CrateRow {
        folder: "metrics",
        ours: &["yaml", "limiter", "core"],
        theirs: Theirs::Any,
        why: "what is counted does not depend on where counters live or what else is kept",
    },
    CrateRow {
        folder: "settings",
        ours: &["core", "limiter", "yaml", "redis", "history", "defer", "metrics", "http", "gateway"],
        theirs: Theirs::Any,
        why: "settings fill in the config types of what they are for, and serve nobody",
    },
    CrateRow {
        folder: "dashboard",
        ours: &[],
        theirs: Theirs::Any,
        why: "the page knows the server by its API alone",
    },
    CrateRow {
        folder: "http2",
        ours: &[],
        theirs: Theirs::Any,
        why: "HTTP/2 knows bytes and calls, and not what they are for",
    },
    CrateRow {
        folder: "server",
        ours: &[
            "dashboard",
            "core",
            "limiter",
            "yaml",
            "rules",
            "settings",
            "redis",
            "history",
            "defer",
            "metrics",
            "http",
            "http2",
            "gateway",
        ],
        theirs: Theirs::Any,
        why: "the server wires everything and only the command line stands above it",
    },
    CrateRow {
        folder: "http",
        ours: &["limiter", "core"],
        theirs: Theirs::Any,
        why: "HTTP in and out is the same for /v1, forward-auth, gateway and middleware, and knows none of them",
    },
    CrateRow {
        folder: "tower",
        ours: &["http", "limiter", "core"],
        theirs: Theirs::Any,
        why: "whoever limits in process takes neither a server nor files along",
    },
    CrateRow {
        folder: "client",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "whoever asks a server takes neither the server nor a limiter along",
    },
    CrateRow {
        folder: "gateway",
        ours: &["http", "defer", "limiter", "core"],
        theirs: Theirs::Any,
        why: "the gateway is handed connections and a limiter, and knows neither sockets nor settings",
    },
    CrateRow {
        folder: "accesslog",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "a log says what was asked; whoever reads it knows what that means",
    },
    CrateRow {
        folder: "replay",
        ours: &["accesslog", "http", "limiter", "core"],
        theirs: Theirs::Any,
        why: "whoever replays decides by the code that serves, and needs no server",
    },
    CrateRow {
        folder: "load",
        ours: &[],
        theirs: Theirs::Any,
        why: "whoever measures a server must not share its code, and so its mistakes",
    },
    CrateRow {
        folder: "cli",
        ours: &[
            "dashboard",
            "core",
            "limiter",
            "yaml",
            "rules",
            "settings",
            "redis",
            "history",
            "defer",
            "metrics",
            "server",
            "http",
            "http2",
            "gateway",
            "load",
            "accesslog",
            "replay",
        ],
        theirs: Theirs::Any,
        why: "the binary must not ship what only tests need",
    },
    CrateRow {
        folder: "testkit",
        ours: &[
            "dashboard",
            "core",
            "limiter",
            "yaml",
            "rules",
            "settings",
            "redis",
            "history",
            "defer",
            "metrics",
            "server",
            "http",
            "http2",
            "gateway",
        ],
        theirs: Theirs::Any,
        why: "tests may see everything but the binary's own code",
    },
];

/// Compares every crate with its row and looks for cycles between modules; reports all at once.
pub(crate) fn run() -> Result<()> {
    let folders = workspace::crate_folders()?;
    let mut wrong = wrong_rows(&folders);
    for row in TABLE.iter().filter(|row| folders.iter().any(|folder| folder == row.folder)) {
        let tree = tree(row)?;
        let seen = packages(&tree);
        println!("{} is built from {} other crates", package(row.folder), seen.len());
        wrong.extend(violations(row, &seen));
    }
    wrong.extend(module_cycles(&folders)?);
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

fn wrong_rows(folders: &[String]) -> Vec<String> {
    let lacks_row = |folder: &&String| !TABLE.iter().any(|row| row.folder == folder.as_str());
    let missing = folders.iter().filter(lacks_row);
    let missing = missing
        .map(|folder| format!("crates/{folder} has no row in xtask/src/edges.rs; say what it may see"));
    let lacks_crate = |row: &&CrateRow| !folders.iter().any(|folder| folder == row.folder);
    let stale = TABLE.iter().filter(lacks_crate);
    let stale =
        stale.map(|row| format!("xtask/src/edges.rs has a row for {}, which is no crate", row.folder));
    missing.chain(stale).collect()
}

/// What is wrong with the modules of all crates.
fn module_cycles(folders: &[String]) -> Result<Vec<String>> {
    let crates = folders.iter().map(|folder| (folder.as_str(), PathBuf::from("crates").join(folder)));
    let others = ["bench", "bench/in-process", "xtask"].map(|name| (name, PathBuf::from(name)));
    let mut wrong = Vec::new();
    for (name, folder) in crates.chain(others) {
        let mut texts = Vec::new();
        read_sources(&workspace::root().join(&folder).join("src"), "", &mut texts)?;
        let graph = ModuleGraph::new(texts.iter().map(|(path, text)| (path.as_str(), text.as_str())))?;
        wrong.extend(cycle_complaints(name, &graph.edges()));
    }
    Ok(wrong)
}

/// Reads all Rust files below a folder but `bin`, whose files are programs of their own.
fn read_sources(folder: &Path, prefix: &str, texts: &mut Vec<(String, String)>) -> Result<()> {
    let say = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(say)? {
        let path = entry.with_context(say)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "bin" {
            read_sources(&path, &format!("{prefix}{name}/"), texts)?;
        } else if name.ends_with(".rs") {
            texts.push((format!("{prefix}{name}"), fs::read_to_string(&path).with_context(say)?));
        }
    }
    Ok(())
}

fn cycle_complaints(name: &str, edges: &[ModuleEdge]) -> Vec<String> {
    let complaint = |cycle: Vec<&ModuleEdge>| {
        let uses: Vec<_> =
            cycle.iter().map(|edge| format!("{} → {} ({})", edge.from, edge.to, edge.place)).collect();
        format!("modules of {name} use each other: {}; let one of them not know the other", uses.join(", "))
    };
    cycles(edges).into_iter().map(complaint).collect()
}

/// What the crate is built from, every feature on, itself first, as `cargo tree` prints it.
fn tree(row: &CrateRow) -> Result<String> {
    let package = package(row.folder);
    let mut arguments = vec!["tree", "--locked", "--all-features", "--edges", "normal,build"];
    arguments.extend(["--prefix", "none", "--format", "{p}", "--package", &package]);
    if row.theirs == Theirs::Nothing {
        // Nothing means nothing on any system. The others look at this system only, because
        // cargo would have to download the crates of all of them.
        arguments.extend(["--target", "all"]);
    }
    Invocation::new("cargo", &arguments).capture()
}

/// The names in the output of `cargo tree`, without the crate itself, which comes first.
fn packages(tree: &str) -> Vec<&str> {
    let is_package = |line: &&str| !line.is_empty() && !line.starts_with('[');
    let mut names: Vec<_> =
        tree.lines().filter(is_package).filter_map(|line| line.split(' ').next()).skip(1).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn violations(row: &CrateRow, seen: &[&str]) -> Vec<String> {
    let allowed = |name: &str| match name.strip_prefix("tollgate-") {
        Some(folder) => row.ours.contains(&folder),
        None => row.theirs == Theirs::Any,
    };
    let complain = |name: &&str| {
        let from = package(row.folder);
        format!("{from} must not see {name}: {}; find the way with `cargo tree -p {from} -i {name}`", row.why)
    };
    seen.iter().filter(|name| !allowed(name)).map(complain).collect()
}

fn package(folder: &str) -> String {
    format!("tollgate-{folder}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn complaints(folder: &str, seen: &[&str]) -> Vec<String> {
        violations(TABLE.iter().find(|row| row.folder == folder).unwrap(), seen)
    }

    #[test]
    fn the_output_of_cargo_tree_becomes_names() {
        let output = "tollgate-redis v0.1.0 (crates/redis)\nredis v1.0.0\nlibc v0.2.1\n\
                      [build-dependencies]\ncc v1.0.0\nlibc v0.2.1 (*)\n\n";
        assert_eq!(packages(output), ["cc", "libc", "redis"]);
    }

    #[test]
    fn core_sees_nothing_at_all() {
        assert_eq!(complaints("core", &[]), [""; 0]);
        for name in ["tokio", "serde", "redis", "cfg-if", "tollgate-limiter"] {
            assert_eq!(complaints("core", &[name]).len(), 1, "{name}");
        }
    }

    #[test]
    fn history_does_not_see_the_limiter() {
        assert_eq!(complaints("history", &["tollgate-core", "serde"]), [""; 0]);
        let complaint = complaints("history", &["tollgate-core", "tollgate-limiter"]).join("\n");
        assert!(complaint.starts_with("tollgate-history must not see tollgate-limiter: "), "{complaint}");
        assert!(complaint.ends_with("`cargo tree -p tollgate-history -i tollgate-limiter`"), "{complaint}");
    }

    #[test]
    fn nothing_is_built_with_the_testkit() {
        for row in TABLE {
            assert_eq!(violations(row, &["tollgate-testkit"]).len(), 1, "{}", row.folder);
        }
    }

    #[test]
    fn a_cycle_is_reported() {
        let edge =
            |from: &str, to: &str| ModuleEdge { from: from.into(), to: to.into(), place: "a.rs:1".into() };
        let edges = [edge("a", "b"), edge("b", "a"), edge("b", "c")];
        assert_eq!(
            cycle_complaints("core", &edges),
            [
                "modules of core use each other: a → b (a.rs:1), b → a (a.rs:1); let one of them not know the other"
            ]
        );
    }

    #[test]
    fn every_row_is_about_one_crate_and_names_crates_of_the_table() {
        let folders: BTreeSet<_> = TABLE.iter().map(|row| row.folder).collect();
        assert_eq!(folders.len(), TABLE.len());
        assert!(TABLE.iter().flat_map(|row| row.ours).all(|folder| folders.contains(folder)));
    }
}
