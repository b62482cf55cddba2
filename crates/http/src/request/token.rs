//! JSON web tokens: whose claims can be believed.
//!
//! A mapping asks for a claim; the token is found in a header or a cookie,
//! verified with the keys of the operator, and only then read.
//!
//! | module | what it holds |
//! |---|---|
//! | `keys` | files with keys, read and read again |
//! | `key` | one key, and which algorithms it may be used with |
//! | `claims` | what a verified token says, and until when |
//!
//! Invariants: a key is used only with algorithms of its own kind, so that a
//! public key is never a secret; a token without a signature is no token;
//! `now` is an argument. A token that is not valid has no claims: what is said
//! about it is for logs and tests.
//!
//! Deliberately not here: fetching keys over the network, encrypted tokens, and
//! remembering tokens that were verified.

mod claims;
mod key;
mod keys;

use std::path::PathBuf;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderName;
use tollgate_core::{Micros, Time};

use crate::error::Error;
use crate::request::cookie;
use crate::request::header_fields::HeaderFields;
use keys::VerifyingKeys;

pub use claims::Claims;
pub use jsonwebtoken::Algorithm;

/// The longest token in bytes. Those with many groups reach 8 KB, and proxies
/// refuse longer headers.
pub const TOKEN_MAX: usize = 16 << 10;

/// How many keys are tried for a token that does not say which.
const TRIES_MAX: usize = 8;

/// Where a token is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// In a header, after a prefix such as `Bearer `, in any case.
    Header {
        /// The header.
        name: HeaderName,
        /// What stands before the token; may be empty.
        prefix: String,
    },
    /// In a cookie.
    Cookie {
        /// The cookie.
        name: String,
    },
}

impl Default for TokenSource {
    /// `Authorization: Bearer …`.
    fn default() -> Self {
        Self::Header { name: http::header::AUTHORIZATION, prefix: "Bearer ".to_owned() }
    }
}

impl TokenSource {
    /// The token of a request.
    pub(crate) fn find<'a>(&self, headers: HeaderFields<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Header { name, prefix } => {
                let value = headers.get(name)?;
                let (start, token) = value.split_at_checked(prefix.len())?;
                start.eq_ignore_ascii_case(prefix.as_bytes()).then_some(token.trim_ascii())
            }
            Self::Cookie { name } => cookie::find(headers, name),
        }
    }
}

/// What a file with keys holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// The secret of HMAC as it is, without the line break at the end.
    Secret,
    /// A public key of RSA, EC (P-256, P-384) or Ed25519, in PEM.
    Pem,
    /// A set of keys, RFC 7517.
    Jwks,
}

/// A file with keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub form: KeyForm,
    /// The algorithms to accept of those that the keys are for; all if empty.
    pub algorithms: Vec<Algorithm>,
}

/// Which tokens are valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenSpec {
    /// The keys.
    pub files: Vec<KeyFile>,
    /// `iss` must be this, if set.
    pub issuer: Option<String>,
    /// `aud` must be or hold one of these, if there are any.
    pub audience: Vec<String>,
    /// So much may clocks differ.
    pub leeway: Micros,
}

/// Why a token is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not three parts of base64 with JSON in two of them, or too long.
    #[error("it is no signed JSON web token")]
    Malformed,
    /// It demands something that is not known here.
    #[error("it demands an extension")]
    Critical,
    /// There is no key for its algorithm and its `kid`.
    #[error("there is no key for it")]
    NoKey,
    /// Somebody else signed it.
    #[error("the signature is wrong")]
    Signature,
    /// It has run out.
    #[error("it has run out")]
    Expired,
    /// It does not hold yet.
    #[error("it does not hold yet")]
    NotYet,
    /// It is by another issuer.
    #[error("it is by another issuer")]
    Issuer,
    /// It is for another audience.
    #[error("it is for another audience")]
    Audience,
}

/// Verifies tokens with keys from files.
#[derive(Debug)]
pub struct TokenVerifier {
    spec: TokenSpec,
    keys: ArcSwap<VerifyingKeys>,
}

#[derive(serde::Deserialize)]
struct TokenHeader {
    alg: Algorithm,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

impl TokenVerifier {
    /// Reads the keys.
    ///
    /// # Errors
    /// If a file cannot be read or used, or there are none.
    pub fn load(spec: TokenSpec) -> Result<Self, Error> {
        if spec.files.is_empty() {
            return Err(Error::NoKeys);
        }
        let keys = VerifyingKeys::read(&spec.files)?;
        Ok(Self { spec, keys: ArcSwap::from_pointee(keys) })
    }

    /// Reads the keys again; whether they are others now.
    ///
    /// # Errors
    /// If a file cannot be read or used; the old keys stay.
    pub fn refresh(&self) -> Result<bool, Error> {
        let keys = VerifyingKeys::read(&self.spec.files)?;
        let is_other = !keys.is_same(&self.keys.load());
        if is_other {
            self.keys.store(std::sync::Arc::new(keys));
        }
        Ok(is_other)
    }

    /// What a token says, if it can be believed at that time.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn verify(&self, token: &[u8], now: Time) -> Result<Claims, TokenError> {
        if token.len() > TOKEN_MAX {
            return Err(TokenError::Malformed);
        }
        let TokenParts { header, payload, message, signature } =
            TokenParts::of(token).ok_or(TokenError::Malformed)?;
        let header: TokenHeader = json(header)?;
        if header.crit.is_some() {
            return Err(TokenError::Critical);
        }
        let signature = decoded(signature)?;
        let keys = self.keys.load();
        let mut fitting = keys.fitting(header.alg, header.kid.as_deref()).take(TRIES_MAX).peekable();
        if fitting.peek().is_none() {
            return Err(TokenError::NoKey);
        }
        if !fitting.any(|key| key.verifies(header.alg, message, &signature)) {
            return Err(TokenError::Signature);
        }
        let claims: Claims = json(payload)?;
        claims.check(&self.spec, now)?;
        Ok(claims)
    }
}

/// The parts of a token.
struct TokenParts<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    /// Header and payload, which are signed together.
    message: &'a [u8],
    signature: &'a [u8],
}

impl<'a> TokenParts<'a> {
    fn of(token: &'a [u8]) -> Option<Self> {
        let dot = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'.');
        let (message, signature) = token.split_at_checked(dot(token)?)?;
        let (header, payload) = message.split_at_checked(dot(message)?)?;
        let (payload, signature) = (payload.get(1..)?, signature.get(1..)?);
        Some(Self { header, payload, message, signature })
    }
}

fn decoded(part: &[u8]) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

fn json<T: serde::de::DeserializeOwned>(part: &[u8]) -> Result<T, TokenError> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| TokenError::Malformed)
}
