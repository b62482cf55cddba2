//! Runs of the real binary, compared with files that say what they must print.
//!
//! A run takes place in `tests/fixtures`, and `tests/golden/NAME.txt` holds its
//! command line, exit code, standard output and standard error. Where they
//! differ, what came is written beside the build, ready to be copied if it is right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder that runs take place in.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Runs the binary among the fixtures, as in a pipe.
pub(crate) fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(args).current_dir(fixtures());
    for name in ["CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command.output().expect("cargo has built the binary")
}

/// Asserts that a run prints what `tests/golden/NAME.txt` says, and ends as it says.
pub(crate) fn check(name: &str, args: &[&str]) {
    let came = transcript(args);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
    if came != expected {
        fs::write(&beside, &came).expect("the build folder can be written");
    }
    let (beside, golden) = (beside.display(), golden.display());
    assert_eq!(came, expected, "{name} prints something else; if it is right: cp {beside} {golden}");
}

fn transcript(args: &[&str]) -> String {
    let output = run(args);
    let code = output.status.code().expect("nothing ends it from outside");
    let mut text = format!("$ tollgate {}\nexit {}\n", args.join(" "), code);
    for (stream, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        let printed = String::from_utf8(bytes).expect("only text is printed");
        if !printed.is_empty() {
            text.push_str(&format!("--- {stream}\n{printed}"));
        }
    }
    // No file of the repository has white space at the end of a line.
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end())
}
