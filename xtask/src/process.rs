//! Running other programs from the workspace's root.
//!
//! Every step that starts a program comes through here, so that each command is printed before it
//! runs and a reader can paste it. Nothing here retries or waits with a timeout: CI has one.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// One command line, with the settings that it adds to the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) settings: &'a [(&'a str, &'a str)],
    pub(crate) program: &'a str,
    pub(crate) arguments: &'a [&'a str],
}

impl<'a> Invocation<'a> {
    pub(crate) const fn new(program: &'a str, arguments: &'a [&'a str]) -> Self {
        Self { settings: &[], program, arguments }
    }

    /// Runs it in front of the user; a status other than 0 is an error.
    pub(crate) fn run(&self) -> Result<()> {
        println!("$ {}", self.shown());
        let status = self.command().status().with_context(|| format!("cannot start `{}`", self.program))?;
        if !status.success() {
            bail!("`{}` ended with {status}", self.shown());
        }
        Ok(())
    }

    /// Runs it silently and returns what it printed; its complaints become part of the error.
    pub(crate) fn capture(&self) -> Result<String> {
        let output = self.command().output().with_context(|| format!("cannot start `{}`", self.program))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("`{}` ended with {}:\n{}", self.shown(), output.status, complaint.trim_end());
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{}` did not print UTF-8", self.shown()))
    }

    /// Whether it ends with status 0. A program that is not there answers no.
    pub(crate) fn succeeds(&self) -> bool {
        let status = self.command().stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.arguments).envs(self.settings.iter().copied()).current_dir(workspace::root());
        // Cargo sets it for xtask, and build scripts that look at it (ring's) would run again for
        // every change between `cargo xtask …` and `cargo …`.
        command.env_remove("CARGO_MANIFEST_DIR");
        // In a fresh checkout nothing is ever built a second time.
        if std::env::var_os("CI").is_some() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// The command as one would type it.
    fn shown(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = std::iter::once(&self.program).chain(self.arguments).map(|word| quoted(word));
        settings.chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// Ports on loopback on which nobody listens, all different: each is held until all are known.
pub(crate) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    let mut ports = [0; COUNT];
    let mut holders = Vec::new();
    for port in &mut ports {
        let holder = TcpListener::bind("127.0.0.1:0")?;
        *port = holder.local_addr()?.port();
        holders.push(holder);
    }
    Ok(ports)
}

/// Quotes what a shell would take apart.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let invocation = Invocation {
            settings: &[("RUSTDOCFLAGS", "-D warnings")],
            program: "cargo",
            arguments: &["doc", "it's", ""],
        };
        assert_eq!(invocation.shown(), r"RUSTDOCFLAGS='-D warnings' cargo doc 'it'\''s' ''");
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it_and_keeps_its_complaint() {
        let error =
            Invocation::new("sh", &["-c", "echo broken >&2; exit 3"]).capture().unwrap_err().to_string();
        assert!(error.contains("sh -c"), "{error}");
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("broken"), "{error}");
    }

    #[test]
    fn a_missing_program_does_not_succeed_and_is_named() {
        let missing = Invocation::new("tollgate-no-such-program", &[]);
        assert!(!missing.succeeds());
        assert!(missing.capture().unwrap_err().to_string().contains("tollgate-no-such-program"));
    }

    #[test]
    fn what_a_command_prints_is_returned() {
        assert_eq!(Invocation::new("echo", &["here"]).capture().unwrap(), "here\n");
    }
}
