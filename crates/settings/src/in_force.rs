//! Every setting as it was said, for people to look at: the dashboard shows it.
//!
//! After the settings were read; what it shows is what was written, and not what was made of it.
//!
//! Invariant: a secret never gets here. Rows know whether they are one, and passwords in addresses
//! are cut out of every value.

use tollgate_yaml::YamlValue;

use crate::raw_value::RawValue;
use crate::row::SettingRow;
use crate::rows;
use crate::settings_reader::SettingsReader;

const HIDDEN: &str = "(hidden)";
/// A whole map, such as the mapping, is better read where it stands.
const MAP: &str = "(see the file)";
/// More than any sensible value has.
const CHARACTERS_MAX: usize = 400;

/// One setting as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingInForce {
    /// The section of the documentation.
    pub section: &'static str,
    /// What messages call it.
    pub name: &'static str,
    /// Its value as it was given, or else its default; never a secret.
    pub value: String,
    /// `flag`, `environment`, `file` or `default`.
    pub from: &'static str,
    /// Whether it follows the file while the server runs.
    pub is_reloaded: bool,
}

/// All settings, in the order of their sections.
pub(crate) fn all(reader: &SettingsReader<'_>) -> Vec<SettingInForce> {
    let rows = rows::SECTIONS.iter().flat_map(|section| section.rows.iter().map(|row| (section.title, row)));
    let shown = rows.map(|(section, row)| {
        let said = reader.said(row);
        let from = said.as_ref().map_or("default", |(_, from)| from);
        let value = said.map_or_else(|| row.default.to_owned(), |(raw, _)| shown(row, &raw));
        SettingInForce { section, name: row.name(), value, from, is_reloaded: row.is_reloaded }
    });
    shown.collect()
}

/// The settings that were read with another value than `old` has, and that do not follow the file.
pub fn needing_restart(old: &[SettingInForce], read: &[SettingInForce]) -> Vec<&'static str> {
    let is_changed = |old: &&SettingInForce| {
        !old.is_reloaded && read.iter().any(|new| new.name == old.name && new.value != old.value)
    };
    old.iter().filter(is_changed).map(|old| old.name).collect()
}

fn shown(row: &SettingRow, raw: &RawValue) -> String {
    if row.is_secret {
        return HIDDEN.to_owned();
    }
    let text = match raw {
        RawValue::Text(text) => text.clone(),
        RawValue::Texts(texts) => texts.join(", "),
        RawValue::Yaml(node) => match &*node.value {
            YamlValue::Scalar(scalar) => scalar.text.to_string(),
            YamlValue::List(items) => {
                let items: Option<Vec<&str>> = items.iter().map(|item| item.as_str()).collect();
                items.map_or_else(|| MAP.to_owned(), |items| items.join(", "))
            }
            YamlValue::Map(_) | YamlValue::Broken => MAP.to_owned(),
        },
    };
    without_passwords(&text).chars().take(CHARACTERS_MAX).collect()
}

/// Cuts what stands between `://` and `@` out of every address.
fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (place, part) in text.split("://").enumerate() {
        if place == 0 {
            shown.push_str(part);
            continue;
        }
        shown.push_str("://");
        // A password may hold any sign, `@` and `/` too: all up to the last one is cut.
        match part.rsplit_once('@') {
            Some((_, host)) => {
                shown.push_str(HIDDEN);
                shown.push('@');
                shown.push_str(host);
            }
            None => shown.push_str(part),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{ConfigFile, Flags, Settings};

    fn in_force(variables: &[(&str, &str)], file: &str) -> HashMap<&'static str, (String, &'static str)> {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let variables: HashMap<String, String> = pairs.collect();
        let flags = Flags::default().with(&rows::STORE.row, "redis://me:s3@cr/et@10.0.0.1:6379");
        let file = ConfigFile::parse("tollgate.yaml", file).unwrap();
        let (settings, _) = Settings::resolve(&flags, &variables, Some(&file)).unwrap();
        settings.in_force.into_iter().map(|own| (own.name, (own.value, own.from))).collect()
    }

    #[test]
    fn every_setting_says_where_it_was_set_and_no_secret_is_among_them() {
        let secrets = ["TOLLGATE_ADMIN_TOKEN", "REDIS_AUTH", "TOLLGATE_HISTORY_SALT"];
        let mut variables: Vec<(&str, &str)> = secrets.iter().map(|name| (*name, "s3cret")).collect();
        variables.extend([("LOG_LEVEL", "debug"), ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret")]);
        let all =
            in_force(&variables, "rules: [a, b]\nmapping: { domain: x, descriptors: [[{ method: {} }]] }");
        let own = |name: &str| (all[name].0.as_str(), all[name].1);
        assert_eq!(own("LOG_LEVEL"), ("debug", "environment"));
        assert_eq!(own(rows::RULES.row.name()), ("a, b", "file"));
        assert_eq!(own("mapping"), (MAP, "file"));
        assert_eq!(own(rows::STORE.row.name()), ("redis://(hidden)@10.0.0.1:6379", "flag"));
        assert_eq!(own(rows::HTTP_ADDRESS.row.name()).1, "default");
        assert!(secrets.iter().all(|name| own(name) == (HIDDEN, "environment")));
        assert!(!format!("{all:?}").contains("cret"), "{all:?}");
    }

    #[test]
    fn whatever_sounds_like_a_secret_is_one() {
        let sounds = |name: &str| {
            ["TOKEN", "PASSWORD", "SALT", "SECRET", "_AUTH", "OTLP_HEADERS"]
                .iter()
                .any(|word| name.contains(word))
        };
        let loud: Vec<&str> = rows::all()
            .filter(|row| sounds(row.variable) && !row.is_secret)
            .map(|row| row.variable)
            .collect();
        assert_eq!(loud, Vec::<&str>::new());
    }
}
