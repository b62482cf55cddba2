//! Finds a setting in flags, environment and file, and collects what is wrong.
//!
//! Invariant: flags win over environment over file over the row's default; a
//! variable that is empty is not set.

use std::collections::HashMap;
use std::fmt;

use tollgate_yaml::{Location, Problems, YamlNode};

use crate::error::{Mistake, Warning};
use crate::file::ConfigFile;
use crate::flags::Flags;
use crate::raw_value::RawValue;
use crate::row::{Setting, SettingRow};
use crate::variables::Variables;

/// Reads settings one by one.
pub(crate) struct SettingsReader<'a> {
    flags: &'a Flags,
    pub(crate) variables: &'a dyn Variables,
    /// What the file says, by key.
    filed: HashMap<&'static str, YamlNode>,
    /// What is wrong with the file.
    pub(crate) problems: Problems,
    /// What is wrong elsewhere.
    mistakes: Vec<Mistake>,
    warnings: Vec<Warning>,
}

/// Who may set something, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Flag,
    Environment,
    File,
}

/// Where a value stands.
#[derive(Debug, Clone)]
pub(crate) enum SettingPlace {
    /// The name of a flag or a variable.
    Name(String),
    File(Location),
}

impl<T, const HAS_DEFAULT: bool> From<&Setting<T, HAS_DEFAULT>> for SettingPlace {
    /// What the setting is called, for what is wrong because it is not set.
    fn from(setting: &Setting<T, HAS_DEFAULT>) -> Self {
        Self::Name(setting.row.name().to_owned())
    }
}

impl<'a> SettingsReader<'a> {
    pub(crate) fn new(flags: &'a Flags, variables: &'a dyn Variables, file: Option<&ConfigFile>) -> Self {
        let mut problems = file.map_or_else(|| Problems::new(Vec::new()), ConfigFile::problems);
        let filed = file.map(|file| file.values(&mut problems)).unwrap_or_default();
        Self { flags, variables, filed, problems, mistakes: Vec::new(), warnings: Vec::new() }
    }

    /// What is odd; or else what is wrong.
    pub(crate) fn finish(self) -> Result<Vec<Warning>, Vec<Mistake>> {
        let Self { mut mistakes, warnings, problems, .. } = self;
        mistakes.extend(problems.finish().into_iter().map(Mistake::from));
        if mistakes.is_empty() { Ok(warnings) } else { Err(mistakes) }
    }

    /// Says what is wrong and, after a semicolon, what would be right.
    pub(crate) fn mistake(&mut self, place: impl Into<SettingPlace>, message: impl fmt::Display) {
        match place.into() {
            SettingPlace::File(at) => self.problems.error_from(at, &message),
            SettingPlace::Name(place) => {
                let mistake = Mistake { place, message: message.to_string() };
                // Some settings are read twice.
                if !self.mistakes.contains(&mistake) {
                    self.mistakes.push(mistake);
                }
            }
        }
    }

    pub(crate) fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(Warning { message: message.into() });
    }

    /// A variable that is set and not empty, whether it is a setting or not.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|text| !text.trim().is_empty())
    }

    /// Whether the environment sets it.
    pub(crate) fn is_in_environment<T, const D: bool>(&self, setting: &Setting<T, D>) -> bool {
        self.variable(setting.row.variable).is_some()
    }

    /// Whether anybody sets it, rightly or wrongly.
    pub(crate) fn is_set<T, const D: bool>(&self, setting: &Setting<T, D>) -> bool {
        let sources = [SettingSource::Flag, SettingSource::Environment, SettingSource::File];
        sources.into_iter().any(|source| self.raw(source, &setting.row).is_some())
    }

    /// What the strongest source says about a row, unread, and which one it is.
    pub(crate) fn said(&self, row: &SettingRow) -> Option<(RawValue, &'static str)> {
        let sources = [
            (SettingSource::Flag, "flag"),
            (SettingSource::Environment, "environment"),
            (SettingSource::File, "file"),
        ];
        sources.into_iter().find_map(|(source, name)| self.raw(source, row).map(|(raw, _)| (raw, name)))
    }

    /// What one of the sources says, unread, and where.
    fn raw(&self, source: SettingSource, row: &SettingRow) -> Option<(RawValue, SettingPlace)> {
        Some(match source {
            SettingSource::Flag => {
                let values = self.flags.get(row)?.to_vec();
                (RawValue::Texts(values), SettingPlace::Name(row.flag.to_owned()))
            }
            SettingSource::Environment => {
                let text = Some(row.variable).filter(|name| !name.is_empty());
                let text = text.and_then(|name| self.variable(name))?;
                (RawValue::Text(text), SettingPlace::Name(row.variable.to_owned()))
            }
            SettingSource::File => {
                let node = self.filed.get(row.key)?.clone();
                let at = node.at;
                (RawValue::Yaml(node), SettingPlace::File(at))
            }
        })
    }

    /// What one of the sources says, and where; what cannot be read is a mistake.
    pub(crate) fn find_in<T, const D: bool>(
        &mut self,
        source: SettingSource,
        setting: &Setting<T, D>,
    ) -> Option<(T, SettingPlace)> {
        let (raw, place) = self.raw(source, &setting.row)?;
        match setting.parse(&raw) {
            Ok(value) => Some((value, place)),
            Err(message) => {
                self.mistake(place, message);
                None
            }
        }
    }

    /// What the strongest source says, and where.
    pub(crate) fn find_placed<T, const D: bool>(
        &mut self,
        setting: &Setting<T, D>,
    ) -> Option<(T, SettingPlace)> {
        let sources = [SettingSource::Flag, SettingSource::Environment, SettingSource::File];
        let source = sources.into_iter().find(|source| self.raw(*source, &setting.row).is_some())?;
        self.find_in(source, setting)
    }

    /// The value, if it is set.
    pub(crate) fn find<T, const D: bool>(&mut self, setting: &Setting<T, D>) -> Option<T> {
        self.find_placed(setting).map(|(value, _)| value)
    }

    /// The value that is set, or else the default.
    pub(crate) fn get<T>(&mut self, setting: &Setting<T>) -> T {
        self.find(setting).unwrap_or_else(|| setting.default_value())
    }
}
