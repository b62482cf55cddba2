//! Builds the web page from `dashboard/` with npm, and embeds its files compressed.
//!
//! The sources are copied to `OUT_DIR` and built there, so that a build changes nothing in the
//! checkout. Without npm, or without its packages and the network, the crate is built all the same:
//! it has one file then, a page that says how to get the others, and cargo warns; unless
//! `REQUIRE_DASHBOARD` is set.
//!
//! Invariant: `OUT_DIR/assets.rs` lists exactly what the build made.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the build reads; tests and screenshots are no part of it.
const SOURCES: [&str; 8] = [
    "index.html",
    "openapi.json",
    "package.json",
    "package-lock.json",
    "scripts",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];

/// If it is set, a build without the page fails.
const REQUIRED: &str = "REQUIRE_DASHBOARD";

/// Made by the build, and ignored by git.
const GENERATED: &str = "generated";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets it")?);
    let sources = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboard"));
    println!("cargo:rerun-if-changed={}", here.join("missing.html").display());
    println!("cargo:rerun-if-env-changed={REQUIRED}");
    for name in SOURCES {
        watch(&sources.join(name));
    }
    let (work, built) = (out.join("work"), out.join("built"));
    let files = match npm_build(&sources, &work, &built) {
        Ok(()) => listed(&built)?,
        Err(error) if std::env::var_os(REQUIRED).is_some() => {
            return Err(format!("the dashboard cannot be built: {error}").into());
        }
        Err(error) => {
            println!("cargo:warning=the dashboard is left out of this build: {error}");
            let page = here.join("missing.html");
            vec![("index.html".to_owned(), page)]
        }
    };
    embed(&files, &out)
}

/// Asks cargo to run this again if a file changes; a folder is watched file by file, but for what
/// the build makes there itself.
fn watch(path: &Path) {
    if path.file_name().is_some_and(|name| name == GENERATED) {
        return;
    }
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| watch(&entry.path())),
        Err(_) => println!("cargo:rerun-if-changed={}", path.display()),
    }
    if path.is_dir() {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// Copies the sources, installs the packages if the lock file is new, and builds.
fn npm_build(sources: &Path, work: &Path, built: &Path) -> Result<()> {
    fs::create_dir_all(work)?;
    for stale in ["src", "scripts"] {
        let _absent = fs::remove_dir_all(work.join(stale));
    }
    for name in SOURCES {
        copy(&sources.join(name), &work.join(name))?;
    }
    let (lock, stamp) = (fs::read(work.join("package-lock.json"))?, work.join("installed.lock"));
    if fs::read(&stamp).ok().as_ref() != Some(&lock) {
        // One attempt for each package: who is offline is not kept waiting.
        let bounds = ["--fetch-retries=0", "--fetch-timeout=30000", "--prefer-offline"];
        npm(work, built, &[&["ci", "--omit=dev", "--no-audit", "--no-fund"][..], &bounds].concat())?;
        fs::write(&stamp, &lock)?;
    }
    npm(work, built, &["run", "build"])
}

fn npm(folder: &Path, built: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(folder).env("DASHBOARD_OUT", built).stdin(Stdio::null());
    let shown = format!("npm {}", arguments.iter().take(2).copied().collect::<Vec<_>>().join(" "));
    let output = command.output().map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        if is_missing {
            "npm is not there; install Node.js with npm".to_owned()
        } else {
            format!("{shown}: {error}")
        }
    })?;
    if output.status.success() {
        return Ok(());
    }
    // The whole output is in the build script's own log; the warning has one line.
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("{shown} failed; run it in dashboard/ to see why").into())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.file_name().is_some_and(|name| name == GENERATED) {
        return Ok(());
    }
    if !from.is_dir() {
        fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// All files below a folder with their paths from it, sorted.
fn listed(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push((path.strip_prefix(folder)?.display().to_string(), path)),
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes the compressed files, and the table of them that `lib.rs` includes.
fn embed(files: &[(String, PathBuf)], out: &Path) -> Result<()> {
    let mut table = String::from("&[\n");
    for (number, (name, path)) in files.iter().enumerate() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        let bytes = encoder.finish()?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let packed = out.join(format!("{number}.gz"));
        fs::write(&packed, &bytes)?;
        writeln!(
            table,
            "Asset {{ path: {:?}, content_type: {:?}, tag: \"{:016x}\", gzip: include_bytes!({packed:?}) }},",
            format!("/{name}"),
            content_type(name)?,
            hasher.finish()
        )?;
    }
    table.push(']');
    fs::write(out.join("assets.rs"), table)?;
    Ok(())
}

fn content_type(name: &str) -> Result<&'static str> {
    match name.rsplit('.').next() {
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        _ => Err(format!("{name} has no content type; add it to crates/dashboard/build.rs").into()),
    }
}
