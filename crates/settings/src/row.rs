//! What a setting is: its names, its default, its help, and how it is read.
//!
//! [`crate::rows`] is the table that is made of these. The reader finds a
//! setting's values by its row, a file's keys are checked against the rows,
//! and flags, `serve --help` and `docs/guide/settings.md` come from them.
//!
//! Invariant: what has no row cannot be read, so that the documents are
//! complete; and the default that they show is the one that is read.

use std::fmt;

use crate::raw_value::RawValue;

/// The names of a setting, its default and its help.
#[derive(Debug, Clone, Copy)]
pub struct SettingRow {
    /// The flag, with its dashes; empty if none.
    pub flag: &'static str,
    /// What `--help` calls the value of the flag; empty if it takes none and means `true`.
    pub value_name: &'static str,
    /// Whether the flag may be given several times.
    pub is_repeatable: bool,
    /// The environment variable; empty if none.
    pub variable: &'static str,
    /// The key in `tollgate.yaml`, with dots between levels; empty if none.
    pub key: &'static str,
    /// What holds if nothing is set; empty if nothing.
    pub default: &'static str,
    /// What it does, in Markdown.
    pub help: &'static str,
    /// Whether its value must not be shown.
    pub is_secret: bool,
    /// Whether it follows the file while the server runs; all others take a restart.
    pub is_reloaded: bool,
    /// Its type, as written in the table.
    pub type_name: &'static str,
}

/// A setting of one type: its row, and how its value is read.
///
/// Read by [`Settings::resolve`](crate::Settings::resolve); set by name in tests:
///
/// ```
/// use std::collections::HashMap;
/// use tollgate_settings::{Flags, Settings, rows};
/// let flags = Flags::default().with(&rows::HTTP_ADDRESS.row, ":80");
/// let (settings, _) = Settings::resolve(&flags, &HashMap::new(), None)?;
/// assert_eq!(settings.http.port, 80);
/// # Ok::<(), tollgate_settings::SettingsError>(())
/// ```
#[derive(Debug)]
pub struct Setting<T, const HAS_DEFAULT: bool = true> {
    /// What does not depend on the type.
    pub row: SettingRow,
    parser: SettingParser<T>,
}

/// A setting without a value unless it is set.
pub type OptionalSetting<T> = Setting<T, false>;

/// How a value is read; an error says what is wrong and what to write.
#[derive(Debug)]
pub(crate) enum SettingParser<T> {
    /// One word, without space around it.
    Word(fn(&str) -> Result<T, String>),
    /// Anything else.
    Value(fn(&RawValue) -> Result<T, String>),
}

/// A setting with this variable; more names are added to it.
pub(crate) const fn variable(variable: &'static str) -> SettingRow {
    SettingRow { variable, ..NAMELESS }
}

/// A setting with this key and no variable.
pub(crate) const fn key(key: &'static str) -> SettingRow {
    SettingRow { key, ..NAMELESS }
}

/// A setting with this flag and no variable.
pub(crate) const fn flag(flag: &'static str, value_name: &'static str) -> SettingRow {
    SettingRow { flag, value_name, ..NAMELESS }
}

/// A setting that is true if this flag is there.
pub(crate) const fn switch(flag: &'static str) -> SettingRow {
    SettingRow { flag, ..NAMELESS }
}

const NAMELESS: SettingRow = SettingRow {
    flag: "",
    value_name: "",
    is_repeatable: false,
    variable: "",
    key: "",
    default: "",
    help: "",
    is_secret: false,
    is_reloaded: false,
    type_name: "",
};

impl SettingRow {
    pub(crate) const fn flag(self, flag: &'static str, value_name: &'static str) -> Self {
        Self { flag, value_name, ..self }
    }

    pub(crate) const fn repeatable(self) -> Self {
        Self { is_repeatable: true, ..self }
    }

    pub(crate) const fn key(self, key: &'static str) -> Self {
        Self { key, ..self }
    }

    /// It follows the file while the server runs.
    pub(crate) const fn reloaded(self) -> Self {
        Self { is_reloaded: true, ..self }
    }

    /// Its value must not be shown, though its type does not say so.
    pub(crate) const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// The setting with a value for when it is not set.
    pub(crate) const fn default<T>(self, default: &'static str, parser: SettingParser<T>) -> Setting<T> {
        Setting { row: Self { default, ..self }, parser }
    }

    /// The setting without a value unless it is set.
    pub(crate) const fn optional<T>(self, parser: SettingParser<T>) -> OptionalSetting<T> {
        Setting { row: self, parser }
    }

    /// The same, with words about what holds instead.
    pub(crate) const fn otherwise<T>(
        self,
        words: &'static str,
        parser: SettingParser<T>,
    ) -> OptionalSetting<T> {
        Setting { row: Self { default: words, ..self }, parser }
    }

    /// Whether its flag takes no value.
    pub const fn is_switch(&self) -> bool {
        !self.flag.is_empty() && self.value_name.is_empty()
    }

    /// What messages call it: its variable, or else its key, or else its flag.
    pub fn name(&self) -> &'static str {
        [self.variable, self.key].into_iter().find(|name| !name.is_empty()).unwrap_or(self.flag)
    }
}

impl<T, const HAS_DEFAULT: bool> Setting<T, HAS_DEFAULT> {
    /// With its help, which comes from a comment and so with a space before it.
    pub(crate) const fn help(mut self, comment: &'static str) -> Self {
        let (_, help) = comment.split_at(1);
        self.row.help = help;
        self
    }

    /// With its type as written; one that is or has a `Secret` must not be shown.
    pub(crate) const fn of_type(mut self, name: &'static str) -> Self {
        self.row.is_secret |= has_secret(name.as_bytes());
        self.row.type_name = name;
        self
    }

    pub(crate) fn parse(&self, value: &RawValue) -> Result<T, String> {
        match self.parser {
            SettingParser::Word(parse) => parse(value.text()?.trim()),
            SettingParser::Value(parse) => parse(value),
        }
    }
}

impl<T> Setting<T> {
    /// What holds if nothing is set.
    pub(crate) fn default_value(&self) -> T {
        let value = RawValue::Text(self.row.default.to_owned());
        self.parse(&value).expect("a test reads the default of every setting")
    }
}

/// Whether `Secret` is in the text.
const fn has_secret(text: &[u8]) -> bool {
    let mut rest = text;
    while let [_, tail @ ..] = rest {
        if let [b'S', b'e', b'c', b'r', b'e', b't', ..] = rest {
            return true;
        }
        rest = tail;
    }
    false
}

/// Its name.
impl<T, const HAS_DEFAULT: bool> fmt::Display for Setting<T, HAS_DEFAULT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row.name())
    }
}

/// Settings that belong together.
#[derive(Debug, Clone, Copy)]
pub struct SettingSection {
    /// Its heading.
    pub title: &'static str,
    /// What is to be said about all of them; may be empty.
    pub note: &'static str,
    /// The settings.
    pub rows: &'static [SettingRow],
}
