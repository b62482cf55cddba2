//! What is remembered, and where.

use std::path::PathBuf;

use tollgate_history::{Bounds, Caps};
use tollgate_http::PathTemplates;

use crate::go_syntax::choice;
use crate::raw_value::RawValue;
use crate::rows;
use crate::secret::Secret;
use crate::settings_reader::SettingsReader;

/// Each is compared with every entry of every request.
const ROUTE_KEYS_MAX: usize = 16;

/// What is remembered, and where.
#[derive(Debug, Clone)]
pub struct HistorySettings {
    /// The folder, unless the store is Redis.
    pub folder: PathBuf,
    /// How the names of keys are kept.
    pub keys: KeyNames,
    /// What hashed names are mixed with; empty if nothing.
    pub salt: Secret,
    /// The route of a request is the value of its first entry with one of these keys.
    pub route_keys: Vec<String>,
    /// The templates of routes.
    pub templates: PathTemplates,
    /// How many names this process tracks.
    pub caps: Caps,
    /// How many series are kept.
    pub bounds: Bounds,
}

/// How the names of keys are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNames {
    /// As they are.
    Clear,
    /// So that the same key has the same name, and nobody can read it.
    Hashed,
    /// Not at all.
    Off,
}

impl KeyNames {
    const ALL: [Self; 3] = [Self::Clear, Self::Hashed, Self::Off];

    /// The word in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Hashed => "hashed",
            Self::Off => "off",
        }
    }
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> Option<HistorySettings> {
    let is_on = reader.get(&rows::HISTORY);
    let settings = HistorySettings {
        folder: reader.get(&rows::DATA),
        keys: reader.get(&rows::HISTORY_KEYS),
        salt: reader.get(&rows::HISTORY_SALT),
        route_keys: reader.get(&rows::HISTORY_ROUTE_KEYS),
        templates: reader.get(&rows::HISTORY_TEMPLATES),
        caps: Caps {
            routes: reader.get(&rows::HISTORY_MAX_ROUTES),
            keys_per_rule: reader.get(&rows::HISTORY_MAX_KEYS_PER_RULE),
            all: reader.get(&rows::HISTORY_MAX_NAMES),
            ..Caps::default()
        },
        bounds: Bounds { series: reader.get(&rows::HISTORY_MAX_SERIES) },
    };
    is_on.then_some(settings)
}

pub(crate) fn key_names(text: &str) -> Result<KeyNames, String> {
    choice(text, "is not a way to keep keys", &KeyNames::ALL.map(|keys| (keys.name(), keys)))
}

pub(crate) fn route_keys(value: &RawValue) -> Result<Vec<String>, String> {
    match value.list()? {
        keys if keys.len() > ROUTE_KEYS_MAX => {
            Err(format!("has {} keys; write at most {ROUTE_KEYS_MAX}", keys.len()))
        }
        keys => Ok(keys),
    }
}

pub(crate) fn templates(value: &RawValue) -> Result<PathTemplates, String> {
    PathTemplates::new(&value.list()?).map_err(|error| format!("{error}; write paths such as /users/{{id}}"))
}
