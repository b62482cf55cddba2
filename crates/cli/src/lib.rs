//! The command line: what users type, and what they are told.
//!
//! [`run`] parses the arguments and hands them to one file per command:
//!
//! | module | command |
//! |---|---|
//! | `serve` | `tollgate serve`: the service |
//! | `check` | `tollgate check`: are these rule files right? |
//! | `test` | `tollgate test`: do the rules do what the rule tests say? |
//! | `explain` | `tollgate explain`: which rules match, which decide, and why |
//! | `replay` | `tollgate replay`: who would have been limited on recorded traffic |
//! | `history` | `tollgate history`: how many, of what, when |
//! | `overrides` | `tollgate override`: exceptions with an end and a reason |
//! | `top` | `tollgate top`: what a running server is doing, live |
//! | `demo` | `tollgate demo`: a server with made-up traffic, to look at |
//! | `suggest` | `tollgate suggest`: limits that fit the traffic, and rules that do not |
//! | `schema` | `tollgate schema`: JSON Schema for editors |
//! | `bench` | `tollgate bench`: loads a running server, and says how fast it is |
//! | `shell` | `tollgate completions` and `tollgate man`: what shells and `man` know about it |
//!
//! What they share: `console` (where to write, and the exit codes), `remote` (a running server),
//! `log_file` (logs, packed or not).
//!
//! Invariants: results go to standard output, complaints about the command line
//! and about paths to standard error; every complaint says what to do.
//!
//! Deliberately not here: what a rule means, and every `if` about limits.

mod bench;
mod check;
mod console;
mod demo;
mod explain;
mod history;
mod log_file;
mod overrides;
mod remote;
mod replay;
mod schema;
mod serve;
mod shell;
mod suggest;
mod test;
mod top;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use clap::{CommandFactory as _, Parser, Subcommand};

use console::Console;
pub use console::Exit;

/// What the binary of envoyproxy/ratelimit is called; a link of this name is
/// all that its deployments need.
const REPLACED: &str = "ratelimit";

const ABOUT: &str = "Limits how many requests anyone may send to an API.";

const QUICK_START: &str = "\
Quick start:
  tollgate demo                                      the dashboard with made-up traffic, to look at
  tollgate serve                                     limit requests, for Envoy and over HTTP
  tollgate check rules/                              are these rule files right?
  tollgate test rules/                               do they do what the rule tests say?
  tollgate explain --rules rules/ shop user_id=42    which rules does this request meet?
  tollgate replay --rules rules/ access.log          whom would these rules have hit?
  tollgate history import access.log                 a history from logs, to look at
  tollgate history /cart --last 24h                  how often, when, and with what outcome?
  tollgate override list                             which exceptions did operators make?
  tollgate suggest                                   which limits would fit what a server has counted?
  tollgate top                                       what is a running server doing?
  tollgate bench --grpc 127.0.0.1:8081               how fast is a running server?

Exit codes: 0 fine, 1 failed, 64 bad configuration or command line.
'tollgate COMMAND --help' teaches each command by an example.";

/// What the user typed.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about = ABOUT, after_help = QUICK_START)]
#[command(arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Check(check::Args),
    Test(test::Args),
    Explain(explain::Args),
    Replay(replay::Args),
    History(history::Args),
    Override(overrides::Args),
    Top(top::Args),
    Bench(bench::Args),
    Suggest(suggest::Args),
    Schema(schema::Args),
    Demo(demo::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Does what `args` ask for, the name of the program first.
///
/// Both writers are given text with colours; wrap them in `anstream` streams,
/// which take the colours out where there is no terminal.
///
/// ```
/// let mut out = Vec::new();
/// let exit = tollgate_cli::run(["tollgate", "--version"], &mut out, &mut Vec::new());
/// assert_eq!(exit, tollgate_cli::Exit::Fine);
/// assert!(out.starts_with(b"tollgate "));
/// ```
pub fn run<T>(args: impl IntoIterator<Item = T>, out: &mut dyn Write, err: &mut dyn Write) -> Exit
where
    T: Into<OsString> + Clone,
{
    let mut console = Console { out, err };
    let args = by_another_name(args.into_iter().map(Into::into).collect());
    let done = match Cli::try_parse_from(args) {
        Ok(cli) => match cli.command {
            Command::Serve(args) => serve::run(args, &mut console),
            Command::Check(args) => check::run(&args, &mut console),
            Command::Test(args) => test::run(&args, &mut console),
            Command::Explain(args) => explain::run(&args, &mut console),
            Command::Replay(args) => replay::run(&args, &mut console),
            Command::History(args) => history::run(&args, &mut console),
            Command::Override(args) => overrides::run(&args, &mut console),
            Command::Top(args) => top::run(&args, &mut console),
            Command::Bench(args) => bench::run(&args, &mut console),
            Command::Suggest(args) => suggest::run(&args, &mut console),
            Command::Schema(args) => schema::run(&args, &mut console),
            Command::Demo(args) => demo::run(&args, &mut console),
            Command::Completions(args) => shell::completions(&args, Cli::command(), &mut console),
            Command::Man(args) => shell::man(&args, Cli::command(), &mut console),
        },
        Err(answer) => answered(&answer, &mut console),
    };
    match done.and_then(|exit| console.out.flush().map(|()| exit)) {
        Ok(exit) => exit,
        Err(error) => cannot_write(&error, &mut console),
    }
}

/// The arguments as `tollgate` takes them: called by the name of the program
/// that it replaces, it does what that one does, which has no commands.
fn by_another_name(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_other =
        args.first().is_some_and(|program| Path::new(program).file_name() == Some(REPLACED.as_ref()));
    let serves = match args.get(1).map(|first| first.as_encoded_bytes()) {
        None => true,
        Some(first) => first.starts_with(b"-") && !matches!(first, b"-V" | b"--version"),
    };
    if is_other && serves {
        args.insert(1, "serve".into());
    }
    args
}

/// What the parser of arguments says by itself: help, the version, or what is
/// wrong with the arguments.
fn answered(answer: &clap::Error, console: &mut Console<'_>) -> io::Result<Exit> {
    let text = answer.render();
    if answer.use_stderr() {
        write!(console.err, "{}", text.ansi())?;
        return Ok(Exit::BadConfiguration);
    }
    write!(console.out, "{}", text.ansi())?;
    Ok(Exit::Fine)
}

fn cannot_write(error: &io::Error, console: &mut Console<'_>) -> Exit {
    // Whoever closes a pipe, as `head` does, has seen enough.
    if error.kind() == ErrorKind::BrokenPipe {
        return Exit::Fine;
    }
    let told =
        console.complain(&format!("cannot write the result: {error}"), "make room, or write elsewhere");
    // There is nowhere left to say that not even the complaint could be written.
    drop(told);
    Exit::Failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_is_sound() {
        Cli::command().debug_assert();
    }

    /// Fails every write in the same way.
    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is() {
        let mut err = Vec::new();
        let help = ["tollgate", "--help"];
        assert_eq!(run(help, &mut Broken(ErrorKind::BrokenPipe), &mut err), Exit::Fine);
        assert_eq!(err, b"");
        assert_eq!(run(help, &mut Broken(ErrorKind::StorageFull), &mut err), Exit::Failed);
        let told = String::from_utf8(err).unwrap();
        assert!(told.contains("cannot write the result: "), "{told}");
    }
}
