//! Every setting, once: its names, its default and its meaning.
//!
//! The reader finds a setting's places here, a file's keys are checked against
//! this list, and `serve --help` and `docs/guide/settings.md` are made of it.
//!
//! Invariant: what is not listed here cannot be read, so that the documents
//! are complete.

mod history;
mod ignored;
mod list;

pub use ignored::{IGNORED, Ignored};
pub use list::SECTIONS;

/// As many columns as the narrowest usual terminal has.
const HELP_WIDTH: usize = 80;

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The flag, with its dashes; empty if none.
    pub flag: &'static str,
    /// The environment variable; empty if none.
    pub variable: &'static str,
    /// The key in `tollgate.yaml`, with dots between levels; empty if none.
    pub key: &'static str,
    /// What holds if nothing is set.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

impl Definition {
    /// How the code calls it: by its variable, or else by its key, or else by its flag.
    pub fn id(&self) -> &'static str {
        [self.variable, self.key].into_iter().find(|name| !name.is_empty()).unwrap_or(self.flag)
    }
}

/// Settings that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// What is to be said about all of them; may be empty.
    pub note: &'static str,
    /// The settings.
    pub settings: &'static [Definition],
}

/// All settings, section by section.
pub fn all() -> impl Iterator<Item = &'static Definition> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// The setting that the code calls so.
pub(super) fn find(id: &str) -> Option<&'static Definition> {
    all().find(|definition| definition.id() == id)
}

/// The tables of `docs/guide/settings.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    for Section { title, note, settings } in SECTIONS {
        out.push_str(&format!("## {title}\n\n"));
        if !note.is_empty() {
            out.push_str(&format!("{}\n\n", note.replace(". ", ".\n")));
        }
        out.push_str("| flag | variable | `tollgate.yaml` | default | meaning |\n|---|---|---|---|---|\n");
        for one in *settings {
            let code = |text: &str| if text.is_empty() { "–".to_owned() } else { format!("`{text}`") };
            let names = [one.flag, one.variable, one.key, one.default].map(code).join(" | ");
            out.push_str(&format!("| {names} | {} |\n", one.meaning));
        }
        out.push('\n');
    }
    out.push_str("## Accepted without effect\n\nOne warning at start-up names those that are set.\n\n");
    for Ignored { variables, reason } in IGNORED {
        out.push_str(&format!("- `{}`: {reason}.\n", variables.join("`, `")));
    }
    out
}

/// The settings as `serve --help` lists them, one paragraph a section.
pub fn help() -> String {
    let mut out = String::new();
    for section in SECTIONS {
        out.push_str(&format!("{}:\n", section.title));
        for one in section.settings {
            let names = [one.flag, one.variable, one.key].into_iter().filter(|name| !name.is_empty());
            let default = if one.default.is_empty() { String::new() } else { format!(" [{}]", one.default) };
            out.push_str(&format!("  {}{default}\n", names.collect::<Vec<_>>().join(", ")));
            put_wrapped(&mut out, one.meaning);
        }
        out.push('\n');
    }
    out
}

/// Puts a text below the names it is about, in lines of their own indent: what
/// is broken by the terminal's width alone cannot be told from a name.
fn put_wrapped(out: &mut String, text: &str) {
    const INDENT: &str = "      ";
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > HELP_WIDTH {
            out.push('\n');
            column = 0;
        }
        out.push_str(if column == 0 { INDENT } else { " " });
        column += if column == 0 { INDENT.len() } else { 1 } + width;
        out.push_str(word);
    }
    out.push('\n');
}
