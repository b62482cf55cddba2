//! What `deploy/` ships, held against the binary: its name, ports, flags,
//! settings, bounds and series.
//!
//! | module | what it shows |
//! |---|---|
//! | `image` | the Dockerfile |
//! | `kubernetes` | the manifests: whole in themselves, and a server that starts as they say |
//! | `systemd` | the unit, by systemd's own check, and a server that starts as it says |
//!
//! Deliberately not here: building the image and applying the manifests, which
//! need a container engine and a cluster.

mod image;
mod kubernetes;
mod systemd;

use std::fs;
use std::path::Path;

/// A file of `deploy/`.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    fs::read_to_string(path).expect("deploy/ has it")
}
