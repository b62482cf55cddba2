//! Where the workspace lies and which crates it has today.
//!
//! The steps use it to run everything from the root, and to skip a rule about a crate that is not
//! written yet. It reads folders and not `cargo metadata`, so that no JSON parser is needed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The root of the workspace, wherever the command was typed.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one folder below the root")
}

/// The folders in `crates/` that hold a crate, sorted.
pub(crate) fn crate_folders() -> Result<Vec<String>> {
    let crates = root().join("crates");
    let mut folders = Vec::new();
    for entry in crates.read_dir().with_context(|| format!("cannot list {}", crates.display()))? {
        let entry = entry.context("cannot read an entry of crates/")?;
        if entry.path().join("Cargo.toml").is_file() {
            folders.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    folders.sort();
    Ok(folders)
}

/// The folder that cargo builds into: this program lies in its subfolder `debug`.
pub(crate) fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let target = own.ancestors().nth(2).context("this program lies outside of a target folder")?;
    Ok(target.to_owned())
}
