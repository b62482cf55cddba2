//! Modules of one crate: no two siblings may use each other, directly or through others.
//!
//! Every path that begins with `crate`, `super` or `self` is an edge between two modules, resolved
//! through `pub use`. It counts between the two siblings below the folder that both share: from
//! `grpc::call` to `http::json` it is `grpc → http`. A parent and its children may use each other.
//! Tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::rust_source::{ReExport, RustSource};

/// A module by the names on its way from the root of the crate.
type ModulePath = Vec<String>;

/// The longest chain of `pub use` that is followed.
const RE_EXPORTS_MAX: usize = 8;

/// An edge between two siblings and one place in the code that makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModuleEdge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) place: String,
}

/// One file of a crate.
struct ModuleFile {
    path: String,
    source: RustSource,
}

/// All modules of a crate.
pub(super) struct ModuleGraph {
    files: BTreeMap<ModulePath, ModuleFile>,
    exports: BTreeMap<ModulePath, Vec<ReExport>>,
}

impl ModuleGraph {
    /// The modules among files, whose paths are relative to the folder `src`.
    pub(super) fn new<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (path, text) in texts {
            let source = RustSource::parse(path, text)?.without_tests();
            files.insert(module_path(path), ModuleFile { path: path.to_owned(), source });
        }
        let tests: Vec<ModulePath> = files
            .iter()
            .flat_map(|(module, file)| {
                file.source.test_modules.iter().map(|name| joined(module, name)).collect::<Vec<_>>()
            })
            .collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let exports = files.iter().map(|(module, file)| (module.clone(), file.source.re_exports())).collect();
        Ok(Self { files, exports })
    }

    /// The edges between siblings, one for each pair.
    pub(super) fn edges(&self) -> Vec<ModuleEdge> {
        let mut edges = BTreeMap::new();
        for (from, file) in &self.files {
            for path in file.source.local_paths() {
                let to = self.resolve(from, &path.segments, 0);
                let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                if let (Some(one), Some(other)) = (from.get(..=shared), to.get(..=shared)) {
                    let place = format!("{}:{}", file.path, path.line);
                    edges.entry((one.join("::"), other.join("::"))).or_insert(place);
                }
            }
        }
        let edge = |((from, to), place)| ModuleEdge { from, to, place };
        edges.into_iter().map(edge).collect()
    }

    /// The module that a path leads to.
    fn resolve(&self, from: &ModulePath, segments: &[String], depth: usize) -> ModulePath {
        let (mut module, mut rest) = (from.clone(), segments);
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" => module.clear(),
                "super" => drop(module.pop()),
                "self" => {}
                name => {
                    let child = joined(&module, name);
                    if self.files.contains_key(&child) {
                        module = child;
                    } else {
                        let export = self.exports.get(&module).into_iter().flatten().find(|e| e.name == name);
                        return match export.filter(|_| depth < RE_EXPORTS_MAX) {
                            Some(export) => {
                                let mut segments = export.segments.clone();
                                segments.extend_from_slice(behind);
                                self.resolve(&module, &segments, depth + 1)
                            }
                            None => module,
                        };
                    }
                }
            }
            rest = behind;
        }
        module
    }
}

/// Groups of siblings that use each other, each with the edges among them.
pub(super) fn cycles(edges: &[ModuleEdge]) -> Vec<Vec<&ModuleEdge>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for edge in edges {
        reached.entry(&edge.from).or_default().insert(&edge.to);
    }
    // There are few modules: repeat until nothing is added.
    loop {
        let mut has_grown = false;
        for edge in edges {
            let further = reached.get(edge.to.as_str()).cloned().unwrap_or_default();
            let own = reached.entry(&edge.from).or_default();
            let before = own.len();
            own.extend(further);
            has_grown |= own.len() > before;
        }
        if !has_grown {
            break;
        }
    }
    let leads = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut groups: BTreeMap<&str, Vec<&ModuleEdge>> = BTreeMap::new();
    for edge in edges.iter().filter(|edge| leads(&edge.to, &edge.from)) {
        let in_group = |name: &&&str| leads(name, &edge.from) && leads(&edge.from, name);
        let first = reached.keys().find(in_group).copied().unwrap_or(&edge.from);
        groups.entry(first).or_default().push(edge);
    }
    groups.into_values().collect()
}

/// `a/b.rs` is the module `a::b`; `lib.rs` and `main.rs` are the root.
fn module_path(path: &str) -> ModulePath {
    let names = path.strip_suffix(".rs").unwrap_or(path).split('/');
    names.filter(|name| !matches!(*name, "lib" | "main")).map(str::to_owned).collect()
}

fn joined(module: &ModulePath, name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(texts: &[(&str, &str)]) -> Vec<ModuleEdge> {
        ModuleGraph::new(texts.iter().copied()).unwrap().edges()
    }

    fn pairs(texts: &[(&str, &str)]) -> Vec<String> {
        edges(texts).iter().map(|edge| format!("{} > {}", edge.from, edge.to)).collect()
    }

    #[test]
    fn an_edge_counts_below_the_folder_that_both_share() {
        let texts = [
            ("lib.rs", "mod grpc; mod http;"),
            ("grpc.rs", "mod call; mod codec; use call::f;"),
            ("grpc/call.rs", "use super::codec::C; use crate::http::json::J; use super::Own;"),
            ("grpc/codec.rs", ""),
            ("http.rs", "mod json;"),
            ("http/json.rs", ""),
        ];
        assert_eq!(pairs(&texts), ["grpc > http", "grpc::call > grpc::codec"]);
    }

    #[test]
    fn a_re_export_leads_to_where_the_thing_is() {
        let texts = [
            ("lib.rs", "pub use error::Error; pub use a::Outer as Renamed;"),
            ("a.rs", "pub(crate) use inner::Outer; use crate::Error;"),
            ("a/inner.rs", ""),
            ("error.rs", "use crate::Renamed;"),
        ];
        assert_eq!(pairs(&texts), ["a > error", "error > a"]);
    }

    #[test]
    fn a_cycle_of_any_length_is_one_group_and_tests_are_none() {
        let texts = [
            ("lib.rs", "#[cfg(test)] mod fixtures;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C; use crate::d::D;"),
            ("c.rs", "use crate::a::A;"),
            ("d.rs", "#[cfg(test)] mod tests { use crate::b::B; }"),
            ("fixtures.rs", "use crate::d::D;"),
        ];
        let edges = edges(&texts);
        let groups = cycles(&edges);
        assert_eq!(groups.len(), 1);
        let group: Vec<_> = groups[0].iter().map(|edge| (edge.from.as_str(), edge.to.as_str())).collect();
        assert_eq!(group, [("a", "b"), ("b", "c"), ("c", "a")]);
        assert_eq!(edges[0].place, "a.rs:1");
    }
}
