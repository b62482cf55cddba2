//! `tollgate.yaml`: texts by key, each with its place.
//!
//! The file is read into a tree and flattened into `section.key` names, which
//! are checked against the list of all settings. What the texts mean is the
//! reader's business, the same as for the environment.
//!
//! Invariant: a key that is no setting is a mistake, and hides no other: all
//! of them are told together with what the reader finds.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::definitions;
use super::error::{Mistake, SettingsError};
use super::node::{Field, Node, Value};

/// The largest file: more than this is not a file of settings.
const BYTES_MAX: u64 = 1024 * 1024;
/// What the file is called where nothing else is said.
pub const FILE_NAME: &str = "tollgate.yaml";
/// The key of the mapping from HTTP requests to descriptors.
const MAPPING: &str = "mapping";

/// A file with settings, read but not yet understood.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    values: HashMap<&'static str, FileValue>,
    mapping: Option<Node>,
    /// What is wrong whatever the texts mean.
    mistakes: Vec<Mistake>,
}

/// What stands under a key.
#[derive(Debug, Clone)]
pub(super) struct FileValue {
    /// `file:line:column`.
    pub(super) place: String,
    pub(super) given: Given,
}

/// A value as written.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Given {
    Text(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

/// Only the form: a value may be a secret.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Pairs(_) => "pairs",
        })
    }
}

impl ConfigFile {
    /// Reads the text of a file called `name`.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tollgate_settings::{ConfigFile, Flags, Settings};
    /// let file = ConfigFile::parse("tollgate.yaml", "log: { colour: red }\n")?;
    /// let error = Settings::resolve(&Flags::default(), &HashMap::new(), Some(&file)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "tollgate.yaml:1:8: unknown key 'log.colour'; write one of log.level, log.format"
    /// );
    /// # Ok::<(), tollgate_settings::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// If it is no YAML. Keys that are no settings are told by
    /// [`super::Settings::resolve`], together with all else.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        let tree: Option<Tree> = serde_saphyr::from_str(text).map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            let words = error.without_snippet().to_string();
            let message = words.lines().next().unwrap_or_default().to_owned();
            SettingsError { mistakes: vec![Mistake { place: format!("{name}:{line}:{column}"), message }] }
        })?;
        let mut walk = Walk { name, values: HashMap::new(), mapping: None, mistakes: Vec::new() };
        match tree {
            None | Some(Tree::Null) => {}
            Some(Tree::Map(fields)) => walk.section("", fields),
            Some(Tree::Text(_) | Tree::List(_)) => {
                let message = "a file of settings is a map; write listen: and the like".to_owned();
                walk.mistakes.push(Mistake { place: format!("{name}:1:1"), message });
            }
        }
        let Walk { values, mapping, mistakes, .. } = walk;
        Ok(Self { values, mapping, mistakes })
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
        let name = path.display().to_string();
        let refuse = |message: String| {
            let place = name.clone();
            Err(SettingsError { mistakes: vec![Mistake { place, message }] })
        };
        match std::fs::metadata(path) {
            Ok(data) if data.len() > BYTES_MAX => {
                return refuse("is larger than 1 MiB; write the path of a file of settings".to_owned());
            }
            Ok(_) => {}
            Err(error) => return refuse(format!("cannot be read: {error}; write the path of a file")),
        }
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&name, &text).map(Some),
            Err(error) => refuse(format!("cannot be read: {error}; write the path of a text file")),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&FileValue> {
        self.values.get(key)
    }

    /// What is wrong whatever the texts mean.
    pub(super) fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    pub(super) const fn mapping(&self) -> Option<&Node> {
        self.mapping.as_ref()
    }
}

struct Walk<'a> {
    name: &'a str,
    values: HashMap<&'static str, FileValue>,
    mapping: Option<Node>,
    mistakes: Vec<Mistake>,
}

impl Walk<'_> {
    fn section(&mut self, above: &str, fields: Vec<(Spanned<String>, Spanned<Tree>)>) {
        for (key, value) in fields {
            let path = if above.is_empty() { key.value } else { format!("{above}.{}", key.value) };
            let inside = format!("{path}.");
            let at = |location: serde_saphyr::Location| {
                format!("{}:{}:{}", self.name, location.line(), location.column())
            };
            if path == MAPPING {
                // It is nested deeper than all other settings, and taken apart by its own reader.
                self.mapping = Some(value.value.node(self.name, value.referenced));
            } else if let Some(one) = definitions::all().find(|one| one.key == path) {
                let place = at(value.referenced);
                match value.value.given() {
                    Ok(None) => {}
                    Ok(Some(given)) => drop(self.values.insert(one.key, FileValue { place, given })),
                    Err(message) => self.mistakes.push(Mistake { place, message: message.to_owned() }),
                }
            } else if definitions::all().any(|one| one.key.starts_with(&inside)) {
                let place = at(value.referenced);
                match value.value {
                    Tree::Map(fields) => self.section(&path, fields),
                    Tree::Null => {}
                    Tree::Text(_) | Tree::List(_) => {
                        let message = format!("'{path}' is a section; write {} below it", known(&path));
                        self.mistakes.push(Mistake { place, message });
                    }
                }
            } else {
                let message = format!("unknown key '{path}'; write one of {}", known(above));
                self.mistakes.push(Mistake { place: at(key.referenced), message });
            }
        }
    }
}

/// The keys right below a section, with the section's name.
fn known(above: &str) -> String {
    let mut keys: Vec<&str> = Vec::new();
    let inside = if above.is_empty() { String::new() } else { format!("{above}.") };
    for one in definitions::all() {
        let Some(rest) = one.key.strip_prefix(inside.as_str()).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let end = inside.len() + rest.find('.').unwrap_or(rest.len());
        let key = one.key.get(..end).unwrap_or(one.key);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.join(", ")
}

/// YAML as it stands there.
enum Tree {
    Null,
    Text(String),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl Tree {
    /// The value of a setting; nothing for an empty one, as in the environment.
    fn given(self) -> Result<Option<Given>, &'static str> {
        const DEEP: &str = "is nested too deep; write a text, a list of texts, or names with texts";
        let text = |tree: Self| match tree {
            Self::Text(text) => Ok(text),
            Self::Null => Ok(String::new()),
            Self::List(_) | Self::Map(_) => Err(DEEP),
        };
        match self {
            Self::Null => Ok(None),
            Self::Text(text) => Ok((!text.is_empty()).then_some(Given::Text(text))),
            Self::List(items) => {
                let texts = items.into_iter().map(|item| text(item.value));
                texts.collect::<Result<_, _>>().map(|list| Some(Given::List(list)))
            }
            Self::Map(fields) => {
                let pairs = fields.into_iter().map(|(key, value)| Ok((key.value, text(value.value)?)));
                pairs.collect::<Result<_, _>>().map(|pairs| Some(Given::Pairs(pairs)))
            }
        }
    }
}

impl Tree {
    /// The same with places in words.
    fn node(self, file: &str, at: serde_saphyr::Location) -> Node {
        let place = |at: serde_saphyr::Location| format!("{file}:{}:{}", at.line(), at.column());
        let below = |item: Spanned<Self>| item.value.node(file, item.referenced);
        let value = match self {
            Self::Null => Value::Null,
            Self::Text(text) => Value::Text(text),
            Self::List(items) => Value::List(items.into_iter().map(below).collect()),
            Self::Map(fields) => Value::Map(
                fields
                    .into_iter()
                    .map(|(key, item)| Field {
                        name: key.value,
                        place: place(key.referenced),
                        node: below(item),
                    })
                    .collect(),
            ),
        };
        Node { place: place(at), value }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Map(fields))
    }
}
