//! What is remembered, and where.

use std::path::PathBuf;

use tollgate_core::Secret;
use tollgate_history::{Bounds, Caps};
use tollgate_http::{Mapping, PathTemplates};

use crate::rows;
use crate::settings_reader::SettingsReader;
use crate::values::KeyNames;

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
    /// Whose values must not be read in it, by mapping.
    pub hidden: Vec<HiddenKeys>,
}

/// The entries of a domain whose values are hashed in the history, because the
/// mapping takes them from where clients put secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenKeys {
    /// The domain of the mapping.
    pub domain: String,
    /// The keys of the entries.
    pub keys: Vec<String>,
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
        bounds: Bounds { series: reader.get(&rows::HISTORY_MAX_SERIES), ..Bounds::default() },
        hidden: Vec::new(),
    };
    is_on.then_some(settings)
}

impl HistorySettings {
    /// The same, hiding what the mappings say.
    pub(crate) fn hiding(mut self, mappings: &[&Mapping]) -> Self {
        let hidden = |mapping: &&Mapping| HiddenKeys {
            domain: mapping.domain().to_owned(),
            keys: mapping.hidden_keys().map(str::to_owned).collect(),
        };
        self.hidden = mappings.iter().map(hidden).collect();
        self
    }
}
