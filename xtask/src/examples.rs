//! The step `examples`: every rule file that people may copy works, in `examples/` and in the pages.
//!
//! `blocks` takes the YAML out of the Markdown; this file writes it to `target/doc-examples/`, a folder
//! for each page, and lets `tollgate check` and `tollgate test` judge it, as a reader would.
//! Invariant: a block keeps the line numbers of its page, so that a complaint points into the page.
//! `examples/gateway/try.sh` runs as a whole, and so do the commands of the gateway's page (`commands`).
//! Not here: what is right in a rule file; the binary says so.

mod blocks;
mod commands;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{Invocation, free_ports};
use crate::{cargo_steps, workspace};
use blocks::{Block, BlockKind};

/// Pages with examples, and folders of such pages.
const PAGES: &[&str] = &["README.md", "docs/guide", "spec/algorithms"];
/// Where the blocks of the pages go, from the root.
const FOLDER: &str = "target/doc-examples";
/// The page whose commands are run.
const GATEWAY: &str = "docs/guide/gateway.md";

/// Checks and tests all examples.
pub(crate) fn run() -> Result<()> {
    let binary = cargo_steps::binary("tollgate")?;
    let tollgate = |command: &str, path: &str| Invocation::new(&binary, &[command, path]).run();
    tollgate("check", "examples")?;
    tollgate("test", "examples")?;
    let files = write(&extracted()?)?;
    for rules in files.iter().filter(|file| file.kind == BlockKind::Rules) {
        // One by one, because two blocks may be about one domain.
        tollgate("check", &rules.path)?;
    }
    if files.iter().any(|file| file.kind == BlockKind::Test) {
        tollgate("test", FOLDER)?;
    }
    try_gateway(&binary)?;
    try_commands(&binary)
}

/// The gateway's example as its README starts it, on ports that are free.
fn try_gateway(binary: &str) -> Result<()> {
    let [api, gateway] = free_ports()?.map(|port| format!("127.0.0.1:{port}"));
    let settings = [("TOLLGATE", binary), ("API", &api), ("GATEWAY", &gateway)];
    Invocation { settings: &settings, program: "sh", arguments: &["examples/gateway/try.sh"] }.run()
}

/// The commands of the gateway's page in an empty folder, on ports that are free, until they have printed
/// what the page says.
fn try_commands(binary: &str) -> Result<()> {
    let page = fs::read_to_string(workspace::root().join(GATEWAY))
        .with_context(|| format!("cannot read {GATEWAY}"))?;
    let commands = commands::of(&page).with_context(|| GATEWAY.to_owned())?;
    ensure!(commands.count() == 5, "{GATEWAY} has {} commands, and speaks of five", commands.count());
    let folder = workspace::root().join(FOLDER).join("gateway-commands");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let [api, gateway, http, grpc, admin] = free_ports()?;
    let script = commands.script(&folder.to_string_lossy(), [api, gateway, http])?;
    let place = Path::new(binary).parent().context("the binary is in no folder")?;
    let script = format!("PATH='{}':$PATH\n{script}", place.display());
    // The page's server has the usual ports, which this one must not need.
    let ports = [http, grpc, admin].map(|port| port.to_string());
    let [http, grpc, admin] = &ports;
    let settings = [("PORT", http.as_str()), ("GRPC_PORT", grpc), ("DEBUG_PORT", admin)];
    let printed = Invocation { settings: &settings, program: "sh", arguments: &["-c", &script] }.capture()?;
    let printed: Vec<&str> = printed.lines().collect();
    ensure!(
        printed == commands.prints,
        "{GATEWAY} says that its commands print {:?}, and they print {printed:?}",
        commands.prints
    );
    println!("the five commands of {GATEWAY} print {}", printed.join(", "));
    Ok(())
}

/// The blocks of one page.
struct Page {
    /// From the root, with `/`.
    path: String,
    blocks: Vec<Block>,
}

/// A block that was written to disk.
struct Written {
    /// From the root.
    path: String,
    kind: BlockKind,
}

/// The blocks of all pages, or everything that is wrong with any of them.
fn extracted() -> Result<Vec<Page>> {
    let (mut pages, mut complaints) = (Vec::new(), Vec::new());
    for path in paths()? {
        let file = workspace::root().join(&path);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
        match blocks::of(&text) {
            Ok(blocks) => pages.push(Page { path, blocks }),
            Err(wrong) => {
                complaints.extend(wrong.iter().map(|(line, what)| format!("{path}:{line}: {what}")))
            }
        }
    }
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    Ok(pages)
}

/// The pages that are there, sorted.
fn paths() -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for page in PAGES {
        let place = workspace::root().join(page);
        if place.is_file() {
            paths.push((*page).to_owned());
        }
        if !place.is_dir() {
            continue;
        }
        for entry in place.read_dir().with_context(|| format!("cannot list {page}"))? {
            let name = entry.with_context(|| format!("cannot list {page}"))?.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".md") {
                paths.push(format!("{page}/{name}"));
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// Writes the blocks in place of those of the last run.
fn write(pages: &[Page]) -> Result<Vec<Written>> {
    let all = workspace::root().join(FOLDER);
    if all.exists() {
        fs::remove_dir_all(&all).with_context(|| format!("cannot empty {FOLDER}"))?;
    }
    let mut written = Vec::new();
    for page in pages {
        let folder = folder_of(&page.path);
        for block in page.blocks.iter().filter(|block| block.kind != BlockKind::Other) {
            let path = format!("{FOLDER}/{folder}/{}", block.name);
            save(&workspace::root().join(&path), &block.padded())
                .with_context(|| format!("cannot write {path}"))?;
            written.push(Written { path, kind: block.kind });
        }
    }
    println!("{} examples in {} pages, written to {FOLDER}", written.len(), pages.len());
    Ok(written)
}

fn save(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)?;
    Ok(())
}

/// `docs/guide/rules.md` → `docs-guide-rules`.
fn folder_of(page: &str) -> String {
    page.strip_suffix(".md").unwrap_or(page).replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_folder_of_its_own() {
        assert_eq!(folder_of("README.md"), "README");
        assert_eq!(folder_of("docs/guide/rules.md"), "docs-guide-rules");
    }

    #[test]
    fn the_pages_of_the_repository_are_found() {
        let paths = paths().unwrap();
        assert!(paths.is_sorted());
        assert!(paths.contains(&"README.md".to_owned()), "{paths:?}");
    }
}
