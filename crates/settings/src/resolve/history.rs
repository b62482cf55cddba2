//! What is remembered, and where.

use std::path::PathBuf;

use tollgate_history::{Bounds, Caps};
use tollgate_http::PathTemplates;

use crate::file::Given;
use crate::reader::{Found, Reader};
use crate::{Flags, History, KeyNames, Secret, go};

/// Where nothing else is said.
const FOLDER: &str = "./tollgate-data";
const ROUTE_KEYS: &[&str] = &["path", "route", "url"];
/// Each is compared with every entry of every request.
const ROUTE_KEYS_MAX: usize = 16;

pub(super) fn read(flags: &Flags, reader: &mut Reader<'_>) -> Option<History> {
    let is_on = reader.truth("TOLLGATE_HISTORY").unwrap_or(true);
    let folder = flags.data.clone().or_else(|| reader.path("TOLLGATE_DATA"));
    let keys = reader.parsed("TOLLGATE_HISTORY_KEYS", |text| match text {
        "clear" => Ok(KeyNames::Clear),
        "hashed" => Ok(KeyNames::Hashed),
        "off" => Ok(KeyNames::Off),
        _ => Err(format!("'{text}' is not a way to keep keys; write clear, hashed or off")),
    });
    let history = History {
        folder: folder.unwrap_or_else(|| PathBuf::from(FOLDER)),
        keys: keys.unwrap_or(KeyNames::Clear),
        salt: Secret::new(reader.text("TOLLGATE_HISTORY_SALT").unwrap_or_default()),
        route_keys: route_keys(reader),
        templates: templates(reader),
        caps: caps(reader),
        bounds: Bounds { series: size("history.max_series", Bounds::default().series, reader) },
    };
    is_on.then_some(history)
}

fn route_keys(reader: &mut Reader<'_>) -> Vec<String> {
    let usual = || ROUTE_KEYS.iter().map(|key| (*key).to_owned()).collect();
    let Some((place, keys)) = list("TOLLGATE_HISTORY_ROUTE_KEYS", reader) else { return usual() };
    if keys.len() > ROUTE_KEYS_MAX {
        reader.mistake(place, format!("has {} keys; write at most {ROUTE_KEYS_MAX}", keys.len()));
        return usual();
    }
    keys
}

fn templates(reader: &mut Reader<'_>) -> PathTemplates {
    let Some((place, templates)) = list("history.templates", reader) else { return PathTemplates::default() };
    PathTemplates::new(&templates).unwrap_or_else(|error| {
        reader.mistake(place, format!("{error}; write paths such as /users/{{id}}"));
        PathTemplates::default()
    })
}

fn caps(reader: &mut Reader<'_>) -> Caps {
    let usual = Caps::default();
    Caps {
        routes: size("history.max_routes", usual.routes, reader),
        keys_per_rule: size("history.max_keys_per_rule", usual.keys_per_rule, reader),
        all: size("history.max_names", usual.all, reader),
        ..usual
    }
}

fn size(id: &str, usual: usize, reader: &mut Reader<'_>) -> usize {
    reader.parsed(id, go::number).unwrap_or(usual)
}

/// Texts, written as a list or with commas between them, and where they stand.
fn list(id: &str, reader: &mut Reader<'_>) -> Option<(String, Vec<String>)> {
    let Found { place, given, .. } = reader.find(id)?;
    match given {
        Given::Text(text) => Some((place, go::list(&text))),
        Given::List(items) => Some((place, items)),
        Given::Pairs(_) => {
            reader.mistake(place, "must be a list; write [first, second]");
            None
        }
    }
}
