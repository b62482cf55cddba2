//! The documents are true: schemathesis asks what they allow and what they
//! forbid, and compares every answer with what they say.
#![expect(clippy::panic, reason = "clippy knows the tests here, but not the functions that they share")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::RULES;
use crate::support::Server;

/// Where `cargo xtask setup` puts it, from the root.
const PROGRAM: &str = "target/schemathesis/bin/schemathesis";
/// What is asked, and how much.
const CONFIG: &str = "tests/it/v1/schemathesis.toml";
/// It shows whole requests, which may have a megabyte.
const SHOWN_MAX: usize = 300;

async fn check(server: &Server, address: SocketAddr) {
    let here: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).to_owned();
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../").to_owned() + PROGRAM)
        .arg("--no-color")
        .arg("--config-file")
        .arg(here.join(CONFIG))
        .arg("run")
        .arg(format!("http://{address}/v1/openapi.json"))
        // It keeps notes where it runs.
        .current_dir(server.path("rules"))
        .output()
        .await
        .unwrap_or_else(|error| panic!("{PROGRAM}: {error}; run: cargo xtask setup"));
    let told = String::from_utf8_lossy(&output.stdout);
    let told: Vec<String> = told.lines().map(|line| line.chars().take(SHOWN_MAX).collect()).collect();
    assert!(output.status.success(), "{}", told.join("\n"));
    // Hundreds are made of each document; few would mean that it was not understood.
    let count = told.iter().find_map(|line| line.trim().strip_suffix(" passed")?.split_once(" generated, "));
    let count: Option<u32> = count.and_then(|(_, passed)| passed.parse().ok());
    assert!(count > Some(100), "{}", told.join("\n"));
}

#[tokio::test]
async fn what_callers_are_told_about_v1_is_true() {
    let server = Server::with(RULES).await;
    check(&server, server.addresses.http).await;
}

#[tokio::test]
async fn what_operators_are_told_about_v1_is_true() {
    let server = Server::with(RULES).await;
    check(&server, server.addresses.admin).await;
}
