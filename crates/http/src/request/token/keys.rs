//! Files with keys, read and read again.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use jsonwebtoken::Algorithm;
use jsonwebtoken::jwk::JwkSet;
use ring::digest::{Context, SHA256};

use super::key::VerifyingKey;
use super::{KeyFile, KeyForm};
use crate::error::Error;

/// The largest file. A set of a hundred keys with their certificates is smaller.
const FILE_MAX: usize = 1 << 20;

/// The most keys of all files together.
const KEYS_MAX: usize = 1_000;

/// All keys.
#[derive(Debug)]
pub(super) struct VerifyingKeys {
    keys: Vec<VerifyingKey>,
    /// A hash of the files, to see whether they changed.
    seen: Vec<u8>,
}

impl VerifyingKeys {
    /// Reads them.
    pub(super) fn read(files: &[KeyFile]) -> Result<Self, Error> {
        let mut keys = Vec::new();
        let mut seen = Context::new(&SHA256);
        for file in files {
            let bytes = bytes(&file.path).map_err(|error| {
                wrong(&file.path, format!("cannot be read: {error}; write the path of a file with keys"))
            })?;
            seen.update(&bytes.len().to_be_bytes());
            seen.update(&bytes);
            let found = of_file(file, &bytes).map_err(|reason| wrong(&file.path, reason))?;
            let before = keys.len();
            keys.extend(
                found.into_iter().map(|key| key.only(&file.algorithms)).filter(VerifyingKey::is_usable),
            );
            if keys.len() == before {
                let reason = "there is no key in it that can verify a token by the algorithms asked for; \
                              HMAC, RSA, EC (P-256, P-384) and Ed25519 are known";
                return Err(wrong(&file.path, reason));
            }
        }
        if keys.len() > KEYS_MAX {
            return Err(Error::TooMany { what: "keys", count: keys.len(), max: KEYS_MAX });
        }
        Ok(Self { keys, seen: seen.finish().as_ref().to_vec() })
    }

    /// Whether they come from the same bytes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.seen == other.seen
    }

    /// The keys that may have signed a token.
    pub(super) fn fitting(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> impl Iterator<Item = &VerifyingKey> {
        self.keys.iter().filter(move |key| key.fits(algorithm, id))
    }
}

fn wrong(path: &Path, reason: impl Into<String>) -> Error {
    Error::Keys { path: path.to_owned(), reason: reason.into() }
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_MAX + 1).unwrap_or(u64::MAX);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_MAX {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

fn of_file(file: &KeyFile, bytes: &[u8]) -> Result<Vec<VerifyingKey>, String> {
    match file.form {
        KeyForm::Secret => {
            let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            let secret = line.strip_suffix(b"\r").unwrap_or(line);
            if secret.is_empty() {
                return Err("it is empty; it must hold the secret of HMAC".to_owned());
            }
            if secret.starts_with(b"-----BEGIN ") {
                return Err("it holds PEM and no secret; write pem_file".to_owned());
            }
            Ok(vec![VerifyingKey::secret(secret)])
        }
        KeyForm::Pem => Ok(vec![VerifyingKey::pem(bytes)?]),
        KeyForm::Jwks => {
            let set: JwkSet = serde_json::from_slice(bytes)
                .map_err(|error| format!("it is no set of keys: {error}; write {{\"keys\": […]}}"))?;
            Ok(set.keys.iter().filter_map(VerifyingKey::jwk).collect())
        }
    }
}
