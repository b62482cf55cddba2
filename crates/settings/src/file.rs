//! `tollgate.yaml`: values by key, each with its place.
//!
//! The file is read as YAML, and its maps are flattened into `section.key`
//! names, which are checked against the rows of all settings. What a value
//! means is up to its setting.
//!
//! Invariant: a key that is no setting is a mistake, and hides no other: all
//! of them are told together with what the settings find.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_yaml::{MapEntry, Problems, SourceFile, YamlNode, YamlValue, nearest, one_of, parse, quoted};

use crate::error::{Mistake, SettingsError};
use crate::rows;

/// What the file is called where nothing else is said.
pub const FILE_NAME: &str = "tollgate.yaml";

/// A file with settings that is YAML, and not yet understood.
#[derive(Clone)]
pub struct ConfigFile {
    source: SourceFile,
    root: YamlNode,
    /// Where it is; none if it never was a file.
    path: Option<PathBuf>,
}

/// Without its text, which may hold secrets.
impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigFile").field("name", &self.source.name).finish_non_exhaustive()
    }
}

impl ConfigFile {
    /// Reads the text of a file called `name`.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tollgate_settings::{ConfigFile, Flags, Settings};
    /// let file = ConfigFile::parse("tollgate.yaml", "log: { levle: info }\n")?;
    /// let error = Settings::resolve(&Flags::default(), &HashMap::new(), Some(&file)).unwrap_err();
    /// assert_eq!(error.to_string(), "tollgate.yaml:1:8: unknown key 'log.levle'; write log.level");
    /// # Ok::<(), tollgate_settings::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// If it is no YAML. Keys that are no settings are told by
    /// [`crate::Settings::resolve`], together with all else.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        Self::from_source(SourceFile { name: name.to_owned(), text: text.to_owned() })
    }

    /// The file that was asked for, or [`FILE_NAME`] in this folder if it exists.
    ///
    /// # Errors
    /// If it cannot be read, or is wrong.
    pub fn find(asked: Option<&Path>) -> Result<Option<Self>, SettingsError> {
        let path = asked.unwrap_or(Path::new(FILE_NAME));
        if asked.is_none() && !path.exists() {
            return Ok(None);
        }
        match SourceFile::read(path) {
            Ok(source) => {
                let file = Self::from_source(source)?;
                Ok(Some(Self { path: Some(path.to_owned()), ..file }))
            }
            Err(problem) => {
                // What is there and cannot be used says itself what to do.
                let mistake = match path.is_file() && !problem.help.is_empty() {
                    true => Mistake::from(problem),
                    false => {
                        let message = format!("{}; write the path of a file of settings", problem.message);
                        Mistake { place: problem.file, message }
                    }
                };
                Err(SettingsError { mistakes: vec![mistake] })
            }
        }
    }

    fn from_source(source: SourceFile) -> Result<Self, SettingsError> {
        let mut problems = Problems::new(vec![source.clone()]);
        let document = parse(0, &mut problems);
        if let Some(second) = document.as_ref().and_then(|document| document.second) {
            problems.error(second, "a second document is not read", "write all settings in the first");
        }
        match document {
            Some(document) if problems.error_count() == 0 => {
                Ok(Self { source, root: document.root, path: None })
            }
            _ => Err(SettingsError { mistakes: problems.finish().into_iter().map(Mistake::from).collect() }),
        }
    }

    /// Where it is, if it is a file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// A place to collect what is wrong with the file.
    pub(crate) fn problems(&self) -> Problems {
        Problems::new(vec![self.source.clone()])
    }

    /// What stands under the keys of settings, by key; what is no setting is reported.
    pub(crate) fn values(&self, problems: &mut Problems) -> HashMap<&'static str, YamlNode> {
        let mut values = HashMap::new();
        match &*self.root.value {
            YamlValue::Map(_) => add_section("", &self.root, &mut values, problems),
            _ if self.root.is_null() => {}
            YamlValue::Scalar(_) | YamlValue::List(_) | YamlValue::Broken => {
                problems.error(self.root.at, "a file of settings is a map", "write listen: and the like");
            }
        }
        values
    }
}

fn add_section(
    above: &str,
    section: &YamlNode,
    values: &mut HashMap<&'static str, YamlNode>,
    problems: &mut Problems,
) {
    let help = || one_of(keys_below(above));
    for MapEntry { name, key, value, .. } in settled(section.entries(help, problems), problems) {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        if let Some(row) = rows::all().find(|row| row.key == path) {
            // As in the environment, an empty text is no text.
            if !value.is_null() && value.as_str() != Some("") {
                values.insert(row.key, value.clone());
            }
        } else if let below = keys_below(&path)
            && !below.is_empty()
        {
            match &*value.value {
                YamlValue::Map(_) => add_section(&path, value, values, problems),
                _ if value.is_null() => {}
                YamlValue::Scalar(_) | YamlValue::List(_) | YamlValue::Broken => {
                    let help = format!("write {} below it", below.join(", "));
                    problems.error(value.at, format!("'{path}' is a section"), help);
                }
            }
        } else {
            let known = keys_below(above);
            let help = nearest(&path, known.iter().copied());
            let help = help.map_or_else(|| one_of(known.iter().copied()), |key| format!("write {key}"));
            problems.error(key.at, format!("unknown key {}", quoted(&path)), help);
        }
    }
}

/// Entries each of whose names comes once: what is written wins over what
/// comes in by `<<`, and what is written twice is reported.
pub(crate) fn settled<'a>(entries: Vec<MapEntry<'a>>, problems: &mut Problems) -> Vec<MapEntry<'a>> {
    let mut settled: Vec<MapEntry<'a>> = Vec::new();
    for entry in entries {
        match settled.iter_mut().find(|earlier| earlier.name == entry.name) {
            None => settled.push(entry),
            Some(earlier) if earlier.is_merged => *earlier = entry,
            Some(_) if entry.is_merged => {}
            Some(_) => {
                let message = format!("{} is given twice", quoted(entry.name));
                problems.error(entry.key.at, message, "write it once");
            }
        }
    }
    settled
}

/// The keys right below a section, with the section's name.
fn keys_below(above: &str) -> Vec<&'static str> {
    let mut keys: Vec<&str> = Vec::new();
    let inside = if above.is_empty() { String::new() } else { format!("{above}.") };
    for row in rows::all() {
        let Some(rest) = row.key.strip_prefix(inside.as_str()).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let end = inside.len() + rest.find('.').unwrap_or(rest.len());
        let key = row.key.get(..end).unwrap_or(row.key);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}
