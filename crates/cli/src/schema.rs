//! `tollgate schema`: JSON Schema of the files that people write, for their editors.
//!
//! The crates that read these files make it from the tables of keys that they read with.
//!
//! Deliberately not here: what a file may hold.

use std::io;

use crate::console::{Console, Exit};

/// JSON Schema for editors
///
/// With it an editor completes keys, explains them, and marks what is wrong while one types. What takes
/// more than one field to tell is told by 'tollgate check' alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate schema rules > rules.schema.json
  tollgate schema config > tollgate.schema.json

Editors with the YAML language server take it from the first line of a file:
  # yaml-language-server: $schema=rules.schema.json")]
pub(crate) struct Args {
    /// The kind of file
    #[arg(value_enum)]
    file: FileKind,
}

/// What people write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FileKind {
    /// Rule files
    Rules,
    /// tollgate.yaml
    Config,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let schema = match args.file {
        FileKind::Rules => tollgate_rules::schema(),
        FileKind::Config => tollgate_settings::schema(),
    };
    console.json(&schema)?;
    Ok(Exit::Fine)
}
