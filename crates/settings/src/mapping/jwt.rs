//! Which tokens are valid.

use std::path::PathBuf;

use tollgate_core::Micros;
use tollgate_http::request::token::{Algorithm, KeyFile, KeyForm, TokenSpec};
use tollgate_yaml::{Located, MapSchema, Problems, YamlMap, YamlNode, quoted};

use super::fields;

/// As other verifiers have it: clocks differ by less than a minute.
const LEEWAY: Micros = Micros::from_secs(60);

const FORMS: [(&str, KeyForm); 3] =
    [("secret_file", KeyForm::Secret), ("pem_file", KeyForm::Pem), ("jwks_file", KeyForm::Jwks)];

pub(crate) const JWT: MapSchema = MapSchema {
    what: "jwt",
    keys: &["keys", "issuer", "audience", "leeway"],
    example: "keys: and a list of secret_file, pem_file or jwks_file below it",
};
pub(crate) const KEY_FILE: MapSchema = MapSchema {
    what: "a key",
    keys: &["secret_file", "pem_file", "jwks_file", "algorithms"],
    example: "secret_file: PATH, pem_file: PATH or jwks_file: PATH",
};

pub(super) fn read(node: &YamlNode, problems: &mut Problems) -> Option<TokenSpec> {
    let map = fields(node, &JWT, problems)?;
    map.required("keys", "and a list of secret_file, pem_file or jwks_file", problems)?;
    let items = map.list("keys", "secret_file: PATH", problems);
    let files = items.iter().filter_map(|item| key_file(item, problems)).collect();
    let leeway = map.parsed("leeway", str::parse::<Micros>, problems);
    Some(TokenSpec {
        files,
        issuer: map.text("issuer", problems).map(|issuer| issuer.value),
        audience: map.texts("audience", "NAME", problems).into_iter().map(|text| text.value).collect(),
        leeway: leeway.map_or(LEEWAY, |leeway| leeway.value),
    })
}

fn key_file(node: &YamlNode, problems: &mut Problems) -> Option<KeyFile> {
    let map = YamlMap::read(node, &KEY_FILE, problems)?;
    let named = FORMS.map(|(key, form)| map.text(key, problems).map(|path| (path.value, form)));
    let mut named = named.into_iter().flatten();
    let mut algorithms = Vec::new();
    for Located { value, at } in map.texts("algorithms", "ALGORITHM", problems) {
        match value.parse::<Algorithm>() {
            Ok(algorithm) => algorithms.push(algorithm),
            Err(_) => {
                let help = "write HS256, RS256, PS256, ES256, EdDSA and the like";
                problems.error(at, format!("{} is no algorithm", quoted(&value)), help);
            }
        }
    }
    let (Some((path, form)), None) = (named.next(), named.next()) else {
        problems.error(map.at, "a key is in one file", "write secret_file, pem_file or jwks_file");
        return None;
    };
    Some(KeyFile { path: PathBuf::from(path), form, algorithms })
}
