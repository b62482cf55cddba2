//! The step `setup`: installs the Debian packages that the tests need, and what no package has.
//!
//! First in `ci`, so that a bare machine passes. It asks before it installs: where everything is
//! there, it needs neither root nor the network. Rust itself is not installed here. `go`, `node` and
//! `python` install what Debian does not have, one file for each package manager.

mod go;
mod node;
mod python;

use anyhow::{Result, bail};

use crate::process::Invocation;

/// A Debian package and how to see that it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Package {
    name: &'static str,
    /// A command that succeeds where it is there, or where its like came some other way.
    check: &'static [&'static str],
}

/// What the tests need, one row each with the reason beside it.
const NEEDED: &[Package] = &[
    // Puts the Envoy and the Python programs of the tests into folders of their own.
    Package { name: "python3-venv", check: &["python3", "-c", "import ensurepip, venv"] },
    // The Redis client that everybody has.
    Package { name: "redis-tools", check: &["redis-cli", "--version"] },
    // Tests of the shared store start servers and sentinels of their own.
    Package { name: "redis-server", check: &["redis-server", "--version"] },
    Package { name: "redis-sentinel", check: &["redis-sentinel", "--version"] },
    // Checks the unit of deploy/.
    Package { name: "systemd", check: &["systemd-analyze", "--version"] },
    // `promtool` reads a history as it reads Prometheus.
    Package { name: "prometheus", check: &["promtool", "--version"] },
    // The Redis clients of Node.js.
    Package { name: "nodejs", check: &["node", "--version"] },
    Package { name: "npm", check: &["npm", "--version"] },
    // The Redis client of Go.
    Package { name: "golang-go", check: &["go", "version"] },
    // The dashboard is looked at by a real browser.
    Package { name: "chromium", check: &["chromium", "--version"] },
    // Clients of the gateway: `crates/cli/tests/it/gateway`.
    Package { name: "curl", check: &["curl", "--version"] },
    Package { name: "wrk", check: &["sh", "-c", "command -v wrk"] },
    Package { name: "nghttp2-client", check: &["h2load", "--version"] },
    // Forward-auth is asked by a real proxy, and one stands behind the gateway.
    Package { name: "nginx-light", check: &["nginx", "-v"] },
    // Counts instructions.
    Package { name: "valgrind", check: &["valgrind", "--version"] },
];

/// What Tollgate is measured beside, on demand.
const PEERS: &[Package] = &[
    Package { name: "nginx-light", check: &["nginx", "-v"] },
    Package { name: "haproxy", check: &["haproxy", "-v"] },
    // throttlecrab-server is built with it.
    Package { name: "protobuf-compiler", check: &["protoc", "--version"] },
];

/// What the machine can do about a missing package.
#[derive(Debug, Clone, Copy)]
struct Machine {
    has_apt: bool,
    is_root: bool,
}

/// Installs what is missing, if anything is.
pub(crate) fn run() -> Result<()> {
    install(NEEDED)?;
    install_others()
}

/// Installs what Tollgate is measured beside.
pub(crate) fn install_peers() -> Result<()> {
    install(PEERS)
}

fn install(needed: &[Package]) -> Result<()> {
    let missing = missing(needed, is_there);
    if missing.is_empty() {
        println!("all {} packages that are needed are there", needed.len());
        return Ok(());
    }
    let machine = Machine { has_apt: has_program("apt-get"), is_root: is_root() };
    for arguments in plan(&missing, machine)? {
        Invocation {
            // In the runlevel of a rescue shell no package starts a service.
            settings: &[("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")],
            program: "apt-get",
            arguments: &arguments,
        }
        .run()?;
    }
    Ok(())
}

/// What no package has.
fn install_others() -> Result<()> {
    python::install()?;
    node::install()?;
    go::install()
}

fn missing(needed: &[Package], is_there: impl Fn(&Package) -> bool) -> Vec<&'static str> {
    needed.iter().filter(|package| !is_there(package)).map(|package| package.name).collect()
}

/// The arguments of the apt-get calls that install the packages, or why that cannot be done.
fn plan(missing: &[&'static str], machine: Machine) -> Result<Vec<Vec<&'static str>>> {
    let names = missing.join(" ");
    if !machine.has_apt {
        bail!(
            "these Debian packages are missing and there is no apt-get: {names}; install their like by hand"
        );
    }
    if !machine.is_root {
        bail!("packages are missing and only root may install them; run: sudo apt-get install {names}");
    }
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing);
    Ok(vec![vec!["update"], install])
}

fn is_there(package: &Package) -> bool {
    package
        .check
        .split_first()
        .is_some_and(|(program, arguments)| Invocation::new(program, arguments).succeeds())
}

fn has_program(program: &str) -> bool {
    Invocation::new("sh", &["-c", r#"command -v "$1""#, "sh", program]).succeeds()
}

fn is_root() -> bool {
    Invocation::new("id", &["-u"]).capture().is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LUA: Package = Package { name: "lua5.1", check: &["lua", "-v"] };
    const CERTIFICATES: Package =
        Package { name: "ca-certificates", check: &["dpkg", "-s", "ca-certificates"] };

    #[test]
    fn only_what_is_not_there_is_missing() {
        assert_eq!(missing(&[LUA, CERTIFICATES], |package| *package == LUA), ["ca-certificates"]);
    }

    #[test]
    fn the_lists_are_fetched_once_and_all_packages_installed_together() {
        let commands = plan(&["a", "b"], Machine { has_apt: true, is_root: true }).unwrap();
        assert_eq!(commands, [vec!["update"], vec!["install", "-y", "--no-install-recommends", "a", "b"]]);
    }

    #[test]
    fn who_cannot_install_is_told_what_to_do() {
        let no_apt = plan(&["a", "b"], Machine { has_apt: false, is_root: true }).unwrap_err().to_string();
        assert!(no_apt.contains("no apt-get: a b; install"), "{no_apt}");
        let no_root = plan(&["a", "b"], Machine { has_apt: true, is_root: false }).unwrap_err().to_string();
        assert!(no_root.ends_with("run: sudo apt-get install a b"), "{no_root}");
    }

    #[test]
    fn a_package_is_there_if_its_check_says_so() {
        let is_there = |check| is_there(&Package { name: "any", check });
        assert!(is_there(&["true"]));
        assert!(!is_there(&["false"]));
        assert!(!is_there(&["tollgate-no-such-program"]));
        assert!(!is_there(&[]));
    }
}
