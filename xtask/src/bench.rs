//! The steps that run programs of `bench/`: `soak`, `soak-long`, `instructions`, and `bench`, which compares
//! Tollgate with its peers and writes `docs/performance.md`; `bench-gateway`, which is one section of that; and `bench-elastic`, whose program is `elastic_run`.
//!
//! This file builds the programs beside the server, installs the peers from crates.io into the target
//! folder, and starts them. Comparisons are never part of CI, which has no quiet machine.

mod elastic_run;
pub(crate) mod instructions;

use anyhow::{Context as _, Result, bail};

use crate::process::Invocation;
use crate::{cargo_steps, setup, workspace};

/// Long enough that every bound is reached three times over.
const SOAK_SECONDS: &str = "20";
/// Millions of calls: as many as a service of a hundred a second gets in a day.
const LONG_SOAK_SECONDS: &str = "180";
/// What `bench` measures, in its order; each is a section of `docs/performance.md`.
const SECTIONS: [&str; 9] =
    ["in-process", "memory", "pause", "grpc", "http", "resp", "redis", "gateway", "scaling"];
/// The peer over RESP and HTTP, at the version that the published figures are of.
const THROTTLECRAB: (&str, &str) = ("throttlecrab-server", "0.4.40");
/// envoyproxy/ratelimit, which has no releases: a commit, by the name that Go's module proxy gives it.
const RATELIMIT: &str =
    "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36";

/// Callers make up keys, and the server must not grow. Takes the debug build that the tests have made.
pub(crate) fn soak() -> Result<()> {
    Invocation::new(&cargo_steps::binary("soak")?, &[SOAK_SECONDS]).run()
}

/// The same for longer, with the release build.
pub(crate) fn long_soak() -> Result<()> {
    build()?;
    start("release/soak", &[LONG_SOAK_SECONDS])
}

/// Measures Tollgate beside its peers and writes `docs/performance.md`: all sections, or those behind `--only`.
/// The other arguments are `[SECONDS [TURNS [BEFORE]]]`; BEFORE is another build of `tollgate`.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (sections, rest) = match arguments {
        ["--only", sections, rest @ ..] => (sections.split(',').collect(), rest),
        [flag, ..] if flag.starts_with('-') => {
            bail!(
                "bench takes [--only SECTION,…] [SECONDS [TURNS [BEFORE]]]; sections: {}",
                SECTIONS.join(", ")
            )
        }
        rest => (SECTIONS.to_vec(), rest),
    };
    if let Some(unknown) = sections.iter().find(|name| !SECTIONS.contains(name)) {
        bail!("'{unknown}' is none of {}", SECTIONS.join(", "));
    }
    let any = |names: &[&str]| names.iter().any(|name| sections.contains(name));
    if any(&["http", "resp", "gateway"]) {
        setup::install_peers()?;
    }
    if any(&["http", "resp"]) {
        install_throttlecrab()?;
    }
    if any(&["redis"]) {
        install_ratelimit()?;
    }
    if any(&["in-process", "memory"]) {
        build_peers()?;
    }
    build()?;
    start("release/bench", &[&[&*sections.join(",")], rest].concat())
}

/// The section of the gateway alone.
pub(crate) fn gateway(arguments: &[&str]) -> Result<()> {
    run(&[&["--only", "gateway"], arguments].concat())
}

/// An elastic limit before an upstream of fixed capacity, and a crowd.
pub(crate) fn elastic(arguments: &[&str]) -> Result<()> {
    elastic_run::run(arguments)
}

fn build() -> Result<()> {
    let packages = ["-p", "tollgate-cli", "-p", "tollgate-bench", "-p", "tollgate-in-process"];
    Invocation::new("cargo", &[&["build", "--release", "--locked", "--bins"], &packages[..]].concat()).run()
}

/// The libraries that are compared have a workspace of their own.
fn build_peers() -> Result<()> {
    let folder = workspace::target()?.join("peers");
    let folder = folder.to_str().context("the path of the target folder is not UTF-8")?;
    let manifest = ["--manifest-path", "bench/peers/Cargo.toml", "--target-dir", folder];
    Invocation::new("cargo", &[&["build", "--release", "--locked"], &manifest[..]].concat()).run()
}

/// Starts a program in the target folder.
fn start(program: &str, arguments: &[&str]) -> Result<()> {
    let program = workspace::target()?.join(program);
    let program = program.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new(program, arguments).run()
}

/// Installs it unless it is there.
fn install_throttlecrab() -> Result<()> {
    let ((name, version), root) = (THROTTLECRAB, workspace::target()?.join("tools"));
    let root = root.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new("cargo", &["install", "--locked", name, "--version", version, "--root", root]).run()
}

/// Builds it where there is `go`; without it the comparison goes without.
fn install_ratelimit() -> Result<()> {
    let folder = workspace::target()?.join("tools/bin");
    let folder = folder.to_str().context("the path of the target folder is not UTF-8")?;
    let install =
        Invocation { settings: &[("GOBIN", folder)], program: "go", arguments: &["install", RATELIMIT] };
    if let Err(error) = install.run() {
        println!("envoyproxy/ratelimit is left out: {error:#}");
    }
    Ok(())
}
