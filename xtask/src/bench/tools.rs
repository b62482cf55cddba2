//! The programs that the benchmarks need: load generators, and the peers beside which Tollgate is measured.
//!
//! Load generators lie in `../shared/tools`, outside of this repository; peers are installed on demand,
//! from crates.io, and never by CI. Everything goes into the target folder.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};

use crate::process::Invocation;
use crate::workspace;

/// Where the load generators lie, from the root.
const TOOLS: &str = "../shared/tools";
/// The peer over RESP and HTTP, at the version that the reference figures are of.
const THROTTLECRAB: (&str, &str) = ("throttlecrab-server", "0.4.40");

/// Where all of them go.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = workspace::target()?.join("tools");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Builds Tollgate.
pub(super) fn tollgate() -> Result<PathBuf> {
    Invocation::new("cargo", &["build", "--release", "--locked", "-p", "tollgate-cli"]).run()?;
    Ok(workspace::target()?.join("release/tollgate"))
}

/// Builds a load generator or a probe.
pub(super) fn tool(name: &str) -> Result<PathBuf> {
    let from = workspace::root().join(TOOLS).join(name);
    ensure!(from.is_dir(), "there is no {TOOLS}/{name}, which this step needs");
    let target = folder()?;
    let manifest = copied(&from, &target.join("src").join(name))?;
    let [manifest, in_target] = [&manifest, &target].map(|path| text(path));
    let arguments = ["build", "--release", "--manifest-path", manifest?, "--target-dir", in_target?];
    Invocation::new("cargo", &arguments).run()?;
    Ok(target.join("release").join(name))
}

/// Installs throttlecrab-server, unless it is there.
pub(super) fn throttlecrab() -> Result<PathBuf> {
    let ((name, version), root) = (THROTTLECRAB, folder()?);
    let arguments = ["install", "--locked", name, "--version", version, "--root", text(&root)?];
    Invocation::new("cargo", &arguments).run()?;
    Ok(root.join("bin").join(name))
}

/// A program of Debian that CI does without.
pub(super) fn from_debian(program: &'static str, version: &str) -> Result<&'static str> {
    // Some of them end with 1 after they have told it.
    Invocation::new(program, &[version])
        .starts()
        .then_some(program)
        .with_context(|| format!("there is no {program}; run: sudo apt-get install {program}"))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path of the target folder is not UTF-8")
}

/// Copies a tool to where cargo may write a lock file, and into no workspace but its own; its manifest
/// there.
fn copied(from: &Path, to: &Path) -> Result<PathBuf> {
    let say = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to.join("src")).with_context(say)?;
    for entry in fs::read_dir(from.join("src")).with_context(say)? {
        let entry = entry.with_context(say)?;
        let text = fs::read(entry.path()).with_context(say)?;
        write_changed(&to.join("src").join(entry.file_name()), &text).with_context(say)?;
    }
    let text = fs::read_to_string(from.join("Cargo.toml")).with_context(say)?;
    let manifest = to.join("Cargo.toml");
    write_changed(&manifest, format!("{text}\n[workspace]\n").as_bytes()).with_context(say)?;
    Ok(manifest)
}

/// Writes a file unless it is so already, which would have cargo build it anew.
fn write_changed(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == text) { Ok(()) } else { fs::write(path, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_copied_with_its_sources_and_is_a_workspace_of_its_own() {
        let folder = workspace::root().join("target/tmp/copied");
        drop(fs::remove_dir_all(&folder));
        let from = folder.join("from");
        fs::create_dir_all(from.join("src")).unwrap();
        fs::write(from.join("Cargo.toml"), "[package]\n").unwrap();
        fs::write(from.join("src/main.rs"), "fn main() {}\n").unwrap();
        let manifest = copied(&from, &folder.join("to")).unwrap();
        assert_eq!(fs::read_to_string(&manifest).unwrap(), "[package]\n\n[workspace]\n");
        assert_eq!(fs::read_to_string(folder.join("to/src/main.rs")).unwrap(), "fn main() {}\n");
        let error = copied(&folder.join("none"), &folder.join("to")).unwrap_err().to_string();
        assert!(error.starts_with("cannot copy "), "{error}");
    }
}
