//! `tollgate completions` and `tollgate man`: what shells and `man` know about
//! the command line, made from its definition.
//!
//! Deliberately not here: installing them; the help says where they go.

use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::console::{Console, Exit};

/// Prints what a shell needs to complete tollgate's commands and flags
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate completions bash > ~/.local/share/bash-completion/completions/tollgate
  tollgate completions zsh > \"${fpath[1]}/_tollgate\"
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish
  tollgate completions powershell >> $PROFILE")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Prints the manual page of tollgate or of one of its commands
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate man | man -l -
  tollgate man serve > tollgate-serve.1
  tollgate man history top
  tollgate man --all ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command, and the command of that if it has some; without it the page is about all of them
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Writes all pages into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    all: Option<PathBuf>,
}

pub(crate) fn completions(
    args: &CompletionsArgs,
    mut tollgate: Command,
    console: &mut Console<'_>,
) -> io::Result<Exit> {
    // It panics if it cannot write, so the text is made first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tollgate, "tollgate", &mut script);
    console.out.write_all(&script)?;
    Ok(Exit::Fine)
}

pub(crate) fn man(args: &ManArgs, mut tollgate: Command, console: &mut Console<'_>) -> io::Result<Exit> {
    // Gives every command its whole name, such as tollgate-serve.
    tollgate = tollgate.disable_help_subcommand(true);
    tollgate.build();
    if let Some(folder) = &args.all {
        if let Err(error) = clap_mangen::generate_to(tollgate, folder) {
            let what = format!("cannot write manual pages to {}: {error}", folder.display());
            console.complain(&what, "name a folder that exists and that you may write to")?;
            return Ok(Exit::Failed);
        }
        return Ok(Exit::Fine);
    }
    let mut page = &tollgate;
    for (place, name) in args.command.iter().enumerate() {
        let Some(command) = page.find_subcommand(name) else {
            let above: String = args.command.iter().take(place).map(|name| format!(" {name}")).collect();
            let what = format!("there is no command '{}'", args.command.join(" "));
            console.complain(&what, &format!("tollgate{above} --help lists the commands"))?;
            return Ok(Exit::BadConfiguration);
        };
        page = command;
    }
    Man::new(page.clone()).render(&mut console.out)?;
    Ok(Exit::Fine)
}
