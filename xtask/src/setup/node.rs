//! Installs what the tests need from npm: clients in a folder under `target/`, and the dashboard's packages.
//!
//! Invariant: the tests look for the clients at the same place, `crates/server/tests/it/resp/clients.rs`.

use anyhow::{Context as _, Result};

use crate::process::Invocation;

/// The clients, at versions that the tests are known to pass with.
const PACKAGES: [(&str, &str); 2] = [("ioredis", "5.11.1"), ("redis", "5.12.1")];
/// Where they go, from the root.
const FOLDER: &str = "target/node-clients";

/// Installs everything unless it is there.
pub(super) fn install() -> Result<()> {
    install_dashboard()?;
    install_clients()
}

/// The packages that the browser tests of the dashboard need; npm writes down what it installed.
fn install_dashboard() -> Result<()> {
    if Invocation::new("npm", &["--prefix", "dashboard", "ls", "--all", "--silent"]).succeeds() {
        println!("the packages of dashboard/package-lock.json are there");
        return Ok(());
    }
    let arguments = ["--prefix", "dashboard", "ci", "--silent", "--no-audit", "--no-fund"];
    Invocation::new("npm", &arguments)
        .run()
        .context("cannot install the packages of dashboard/package-lock.json, which the browser tests need")
}

fn install_clients() -> Result<()> {
    let wanted = PACKAGES.map(|(name, version)| format!("{name}@{version}"));
    if PACKAGES.iter().all(|(name, version)| is_there(name, version)) {
        println!("{} are in {FOLDER}", wanted.join(" and "));
        return Ok(());
    }
    let mut arguments = vec!["install", "--silent", "--no-audit", "--no-fund", "--prefix", FOLDER];
    arguments.extend(wanted.iter().map(String::as_str));
    Invocation::new("npm", &arguments).run().with_context(|| {
        format!("cannot install {}, which the tests need; they come from npm", wanted.join(" and "))
    })
}

fn is_there(name: &str, version: &str) -> bool {
    let ask = format!("console.log(require('./{FOLDER}/node_modules/{name}/package.json').version)");
    let says = Invocation::new("node", &["-e", &ask]).capture();
    says.is_ok_and(|says| says.trim() == version)
}
