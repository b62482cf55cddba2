//! The binary `tollgate`: arguments in, exit code out; the rest is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::run(std::env::args_os(), &mut anstream::stdout(), &mut anstream::stderr()).into()
}
