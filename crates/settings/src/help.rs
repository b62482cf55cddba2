//! The table of settings as people read it: in the guide, and on a terminal.
//!
//! Made from [`crate::rows`]; a test holds `docs/guide/settings.md` equal to it.

use crate::ignored::{IGNORED, IgnoredVariables};
use crate::row::{SettingRow, SettingSection};
use crate::rows::SECTIONS;

/// As many columns as the narrowest usual terminal has.
const TERMINAL_WIDTH: usize = 80;

/// The tables of `docs/guide/settings.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    for SettingSection { title, note, rows } in SECTIONS {
        out.push_str(&format!("## {title}\n\n"));
        if !note.is_empty() {
            out.push_str(&format!("{}\n\n", note.replace(". ", ".\n")));
        }
        out.push_str("| flag | variable | `tollgate.yaml` | default | meaning |\n|---|---|---|---|---|\n");
        for row in *rows {
            let code = |text: &str| if text.is_empty() { "–".to_owned() } else { format!("`{text}`") };
            let names = [row.flag, row.variable, row.key, row.default].map(code).join(" | ");
            out.push_str(&format!("| {names} | {} |\n", row.help));
        }
        out.push('\n');
    }
    out.push_str("## Accepted without effect\n\nOne warning at start-up names those that are set.\n\n");
    for IgnoredVariables { variables, reason } in IGNORED {
        out.push_str(&format!("- `{}`: {reason}.\n", variables.join("`, `")));
    }
    out
}

/// All settings as `serve --help` lists them, one paragraph a section.
pub fn terminal() -> String {
    let mut out = String::new();
    for section in SECTIONS {
        out.push_str(&format!("{}:\n", section.title));
        for row in section.rows {
            let names = [row.flag, row.variable, row.key].into_iter().filter(|name| !name.is_empty());
            out.push_str(&format!("  {}{}\n", names.collect::<Vec<_>>().join(", "), shown_default(row)));
            put_wrapped(&mut out, &plain(row));
        }
        out.push('\n');
    }
    out
}

/// What a flag does, and what holds without it.
pub fn flag(row: &SettingRow) -> String {
    let default = if row.is_switch() { String::new() } else { shown_default(row) };
    format!("{}{default}", plain(row))
}

/// The help without Markdown.
fn plain(row: &SettingRow) -> String {
    row.help.replace('`', "")
}

fn shown_default(row: &SettingRow) -> String {
    if row.default.is_empty() { String::new() } else { format!(" [{}]", row.default) }
}

/// Puts a text below the names it is about, in lines of their own indent: what
/// is broken by the terminal's width alone cannot be told from a name.
fn put_wrapped(out: &mut String, text: &str) {
    const INDENT: &str = "      ";
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > TERMINAL_WIDTH {
            out.push('\n');
            column = 0;
        }
        out.push_str(if column == 0 { INDENT } else { " " });
        column += if column == 0 { INDENT.len() } else { 1 } + width;
        out.push_str(word);
    }
    out.push('\n');
}
