//! Which tokens are valid.

use std::path::PathBuf;

use tollgate_core::Micros;
use tollgate_http::request::token::{Algorithm, KeyFile, KeyForm, TokenSpec};

use crate::go;
use crate::node::{Fields, Node, Placed};
use crate::reader::Reader;

/// As other verifiers have it: clocks differ by less than a minute.
const LEEWAY: Micros = Micros::from_secs(60);

const FORMS: [(&str, KeyForm); 3] =
    [("secret_file", KeyForm::Secret), ("pem_file", KeyForm::Pem), ("jwks_file", KeyForm::Jwks)];

pub(super) fn read(node: Node, reader: &mut Reader<'_>) -> Option<TokenSpec> {
    let mut fields = Fields::of(node, &["keys", "issuer", "audience", "leeway"], reader)?;
    let Some(keys) = fields.take("keys") else {
        reader
            .mistake(fields.place(), "'keys' is missing; write a list of secret_file, pem_file or jwks_file");
        return None;
    };
    let items = keys.list(reader);
    let files = items.into_iter().filter_map(|item| file(item, reader)).collect();
    let leeway = fields.parsed("leeway", reader, |text| {
        let span = go::duration(text)?;
        Ok(Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    });
    Some(TokenSpec {
        files,
        issuer: fields.text("issuer", reader).map(|placed| placed.text),
        audience: fields.texts("audience", reader).into_iter().map(|placed| placed.text).collect(),
        leeway: leeway.unwrap_or(LEEWAY),
    })
}

fn file(node: Node, reader: &mut Reader<'_>) -> Option<KeyFile> {
    let mut fields = Fields::of(node, &["secret_file", "pem_file", "jwks_file", "algorithms"], reader)?;
    let named = FORMS.map(|(name, form)| fields.text(name, reader).map(|placed| (placed.text, form)));
    let mut named = named.into_iter().flatten();
    let mut algorithms = Vec::new();
    for Placed { place, text } in fields.texts("algorithms", reader) {
        match text.parse::<Algorithm>() {
            Ok(algorithm) => algorithms.push(algorithm),
            Err(_) => reader.mistake(
                place,
                format!("'{text}' is no algorithm; write HS256, RS256, PS256, ES256, EdDSA and the like"),
            ),
        }
    }
    let (Some((path, form)), None) = (named.next(), named.next()) else {
        reader.mistake(fields.place(), "a key is in one file; write secret_file, pem_file or jwks_file");
        return None;
    };
    Some(KeyFile { path: PathBuf::from(path), form, algorithms })
}
