//! Finds a setting in flags, environment and file, and collects what is wrong.
//!
//! Invariant: flags win over environment over file; an empty text is no text.

use std::path::PathBuf;
use std::time::Duration;

use super::definitions::{self, Definition};
use super::error::{Mistake, Warning};
use super::file::{ConfigFile, Given};
use super::node::Node;
use super::{Flags, Strings, go};

/// Reads settings one by one.
pub(super) struct Reader<'a> {
    flags: &'a Flags,
    strings: &'a dyn Strings,
    file: Option<&'a ConfigFile>,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<Warning>,
}

/// A text, and where it stands.
pub(super) struct Found {
    pub(super) place: String,
    pub(super) given: Given,
    pub(super) layer: Layer,
}

/// Who said it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Flag,
    Environment,
    File,
}

impl<'a> Reader<'a> {
    pub(super) fn new(flags: &'a Flags, strings: &'a dyn Strings, file: Option<&'a ConfigFile>) -> Self {
        let mistakes = file.map_or_else(Vec::new, |file| file.mistakes().to_vec());
        Self { flags, strings, file, mistakes, warnings: Vec::new() }
    }

    pub(super) fn mistake(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.mistakes.push(Mistake { place: place.into(), message: message.into() });
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(Warning { message: message.into() });
    }

    /// What is said about a setting by whoever has the most to say.
    pub(super) fn find(&self, id: &str) -> Option<Found> {
        let layers = [Layer::Flag, Layer::Environment, Layer::File];
        layers.into_iter().find_map(|layer| self.find_in(layer, id))
    }

    /// What one of them says about a setting.
    pub(super) fn find_in(&self, layer: Layer, id: &str) -> Option<Found> {
        let definition = definitions::find(id);
        debug_assert!(definition.is_some(), "{id} is not in the list of settings");
        let Definition { flag, variable, key, .. } = definition?;
        let (place, given) = match layer {
            Layer::Flag => ((*flag).to_owned(), Given::Text(self.flag(flag)?)),
            Layer::Environment if variable.is_empty() => return None,
            Layer::Environment => ((*variable).to_owned(), Given::Text(self.variable(variable)?)),
            Layer::File => {
                let value = self.file?.get(key)?;
                (value.place.clone(), value.given.clone())
            }
        };
        Some(Found { place, given, layer })
    }

    /// The mapping of the file, as it stands there.
    pub(super) fn mapping(&self) -> Option<Node> {
        self.file?.mapping().cloned()
    }

    fn flag(&self, name: &str) -> Option<String> {
        let Flags { store, http, grpc, resp, admin, .. } = self.flags;
        match name {
            "--store" => store.clone(),
            "--http" => http.clone(),
            "--grpc" => grpc.clone(),
            "--resp" => resp.clone(),
            "--admin" => admin.clone(),
            _ => None,
        }
    }

    /// A variable that is set and not empty, whether it is a setting or not.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.strings.get(name).filter(|text| !text.trim().is_empty())
    }

    /// A text, with its place.
    pub(super) fn placed(&mut self, id: &str) -> Option<(String, String)> {
        let Found { place, given, .. } = self.find(id)?;
        match given {
            Given::Text(text) => Some((place, text)),
            Given::List(_) | Given::Pairs(_) => {
                self.mistake(place, "must be one value; write a text or a number");
                None
            }
        }
    }

    pub(super) fn text(&mut self, id: &str) -> Option<String> {
        self.placed(id).map(|(_, text)| text)
    }

    pub(super) fn path(&mut self, id: &str) -> Option<PathBuf> {
        self.text(id).map(PathBuf::from)
    }

    /// A text that a parser understands; what it does not is a mistake.
    pub(super) fn parsed<T>(&mut self, id: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let (place, text) = self.placed(id)?;
        parse(text.trim()).map_err(|message| self.mistake(place, message)).ok()
    }

    pub(super) fn truth(&mut self, id: &str) -> Option<bool> {
        self.parsed(id, go::truth)
    }

    /// Whether it is said and true.
    pub(super) fn is_on(&mut self, id: &str) -> bool {
        self.truth(id).unwrap_or(false)
    }

    pub(super) fn duration(&mut self, id: &str) -> Option<Duration> {
        self.parsed(id, go::duration)
    }

    /// Pairs, written as one text or as a map.
    pub(super) fn pairs(&mut self, id: &str, between: &[char]) -> Vec<(String, String)> {
        let Some(Found { place, given, .. }) = self.find(id) else { return Vec::new() };
        match given {
            Given::Text(text) => match go::pairs(&text, between) {
                Ok(pairs) => return pairs,
                Err(message) => self.mistake(place, message),
            },
            Given::Pairs(pairs) => return pairs,
            Given::List(_) => self.mistake(place, "must be names with values; write name: value"),
        }
        Vec::new()
    }
}
