//! The step `edges`: proves with `cargo tree` that no crate sees one that it must not.
//!
//! The architecture is in the table below, one row per crate, and a crate without a row fails, so
//! that its place is decided when it is made. A row whose crate is not written yet is skipped.
//! Dev-dependencies are free: a test may see anything.

use anyhow::{Result, bail};

use crate::process::Invocation;
use crate::workspace;

/// What one crate may see, directly or through others.
struct Row {
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
const TABLE: &[Row] = &[
    Row {
        folder: "core",
        ours: &[],
        theirs: Theirs::Nothing,
        why: "core is pure: no I/O, runtime, serde or Redis can come in while it uses std alone",
    },
    Row {
        folder: "limiter",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "stores and servers are built on the limiter, not under it",
    },
    Row {
        folder: "yaml",
        ours: &[],
        theirs: Theirs::Any,
        why: "what a file says is known without knowing what it is for",
    },
    Row {
        folder: "rules",
        ours: &["yaml", "core"],
        theirs: Theirs::Any,
        why: "rules are read from files before a limiter is made of them",
    },
    Row {
        folder: "redis",
        ours: &["limiter", "history", "core"],
        theirs: Theirs::Any,
        why: "what is kept on Redis knows the traits of the limiter and of the history, and nothing above them",
    },
    Row {
        folder: "history",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "history reads events and must never be able to slow down or change a decision",
    },
    Row {
        folder: "metrics",
        ours: &["limiter", "core"],
        theirs: Theirs::Any,
        why: "what is counted does not depend on where counters live or what else is kept",
    },
    Row {
        folder: "settings",
        ours: &["core", "limiter", "yaml", "redis", "history", "metrics", "http"],
        theirs: Theirs::Any,
        why: "settings fill in the config types of what they are for, and serve nobody",
    },
    Row {
        folder: "server",
        ours: &[
            "core", "limiter", "yaml", "rules", "settings", "redis", "history", "metrics", "http", "tower",
            "client",
        ],
        theirs: Theirs::Any,
        why: "the server wires everything and only the command line stands above it",
    },
    Row {
        folder: "http",
        ours: &["limiter", "core"],
        theirs: Theirs::Any,
        why: "HTTP in and out is the same for /v1, forward-auth, gateway and middleware, and knows none of them",
    },
    Row {
        folder: "tower",
        ours: &["limiter", "core"],
        theirs: Theirs::Any,
        why: "the layer goes into other people's programs and must stay light",
    },
    Row {
        folder: "client",
        ours: &["core"],
        theirs: Theirs::Any,
        why: "a client that can decide by itself would be a second limiter",
    },
    Row {
        folder: "load",
        ours: &[],
        theirs: Theirs::Any,
        why: "whoever measures a server must not share its code, and so its mistakes",
    },
    Row {
        folder: "cli",
        ours: &[
            "core", "limiter", "yaml", "rules", "settings", "redis", "history", "metrics", "server", "http",
            "tower", "client", "load",
        ],
        theirs: Theirs::Any,
        why: "the binary must not ship what only tests need",
    },
    Row {
        folder: "testkit",
        ours: &[
            "core", "limiter", "yaml", "rules", "settings", "redis", "history", "metrics", "server", "http",
            "tower", "client",
        ],
        theirs: Theirs::Any,
        why: "tests may see everything but the binary's own code",
    },
];

/// Compares every crate with its row and reports all wrong edges at once.
pub(crate) fn run() -> Result<()> {
    let mut wrong = Vec::new();
    for folder in workspace::crate_folders()? {
        match TABLE.iter().find(|row| row.folder == folder) {
            Some(row) => {
                let tree = tree(row)?;
                let seen = packages(&tree);
                println!("{} is built from {} other crates", package(row.folder), seen.len());
                wrong.extend(violations(row, &seen));
            }
            None => {
                wrong.push(format!("crates/{folder} has no row in xtask/src/edges.rs; say what it may see"))
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// What the crate is built from, every feature on, itself first, as `cargo tree` prints it.
fn tree(row: &Row) -> Result<String> {
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

fn violations(row: &Row, seen: &[&str]) -> Vec<String> {
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
    fn every_row_is_about_one_crate_and_names_crates_of_the_table() {
        let folders: BTreeSet<_> = TABLE.iter().map(|row| row.folder).collect();
        assert_eq!(folders.len(), TABLE.len());
        assert!(TABLE.iter().flat_map(|row| row.ours).all(|folder| folders.contains(folder)));
    }
}
