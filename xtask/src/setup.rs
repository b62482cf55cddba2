//! The step `setup`: installs the Debian packages that the tests need.
//!
//! First in `ci`, so that a bare machine passes. It asks before it installs: where everything is
//! there, it needs neither root nor the network. Rust itself is not installed here.

use anyhow::{Result, bail};

use crate::process::Invocation;

/// A Debian package and how to see that it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Package {
    name: &'static str,
    /// The program it brings, which may also have come some other way; a package without a
    /// program (`None`) is looked up with dpkg.
    program: Option<&'static str>,
}

/// What the tests need, one row each with the reason beside it. Nothing yet.
const NEEDED: &[Package] = &[];

/// What the machine can do about a missing package.
#[derive(Debug, Clone, Copy)]
struct Machine {
    has_apt: bool,
    is_root: bool,
}

/// Installs what is missing, if anything is.
pub(crate) fn run() -> Result<()> {
    let missing = missing(NEEDED, is_there);
    if missing.is_empty() {
        println!("all {} packages that the tests need are there", NEEDED.len());
        return Ok(());
    }
    let machine = Machine { has_apt: has_program("apt-get"), is_root: is_root() };
    for arguments in plan(&missing, machine)? {
        Invocation {
            settings: &[("DEBIAN_FRONTEND", "noninteractive")],
            program: "apt-get",
            arguments: &arguments,
        }
        .run()?;
    }
    Ok(())
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
    match package.program {
        Some(program) => has_program(program),
        None => Invocation::new("dpkg", &["-s", package.name]).succeeds(),
    }
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

    const LUA: Package = Package { name: "lua5.1", program: Some("lua") };
    const CERTIFICATES: Package = Package { name: "ca-certificates", program: None };

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
    fn a_program_is_found_by_name_and_an_unknown_one_is_not() {
        assert!(is_there(&Package { name: "dash", program: Some("sh") }));
        assert!(!is_there(&Package { name: "none", program: Some("tollgate-no-such-program") }));
        assert!(!is_there(&Package { name: "tollgate-no-such-package", program: None }));
    }
}
