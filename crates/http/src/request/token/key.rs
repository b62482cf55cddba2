//! One key, and which algorithms it may be used with.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::hmac;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// The bytes of a point of P-256 and of P-384, uncompressed.
const P256_POINT: usize = 65;
const P384_POINT: usize = 97;

/// One key.
pub(super) struct VerifyingKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// Nothing of the key itself.
impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey")
            .field("id", &self.id)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

impl VerifyingKey {
    /// A secret of HMAC.
    pub(super) fn secret(bytes: &[u8]) -> Self {
        let key = DecodingKey::from_secret(bytes);
        Self { id: None, algorithms: AlgorithmFamily::Hmac.algorithms().to_vec(), key }
    }

    /// A public key in PEM, or why it cannot be used.
    pub(super) fn pem(text: &[u8]) -> Result<Self, &'static str> {
        const EXPECTED: &str = "it must hold a public key of RSA, EC (P-256 or P-384) or Ed25519 in PEM";
        if text.windows(11).any(|part| part == b"PRIVATE KEY") {
            return Err("it holds a private key; write the public key of whoever signs");
        }
        let readers = [DecodingKey::from_ec_pem, DecodingKey::from_ed_pem, DecodingKey::from_rsa_pem];
        let key = readers.into_iter().find_map(|read| read(text).ok()).ok_or(EXPECTED)?;
        let algorithms = match (key.family(), key.kind()) {
            (AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(point)) => match point.len() {
                P256_POINT => vec![Algorithm::ES256],
                P384_POINT => vec![Algorithm::ES384],
                _ => return Err(EXPECTED),
            },
            (family, _) => family.algorithms().to_vec(),
        };
        Ok(Self { id: None, algorithms, key })
    }

    /// A key of a set; none if it is not for signatures, or of a kind that is not known.
    pub(super) fn jwk(jwk: &Jwk) -> Option<Self> {
        if jwk.common.public_key_use.as_ref().is_some_and(|use_| *use_ != PublicKeyUse::Signature) {
            return None;
        }
        let kind: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms(),
            AlgorithmParameters::OctetKey(_) => AlgorithmFamily::Hmac.algorithms(),
            AlgorithmParameters::EllipticCurve(parts) => match parts.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                EllipticCurve::P521 | EllipticCurve::Ed25519 | _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(parts) => match parts.curve {
                EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
                EllipticCurve::P256 | EllipticCurve::P384 | EllipticCurve::P521 | _ => return None,
            },
            AlgorithmParameters::Other(_) | _ => return None,
        };
        let mut algorithms = kind.to_vec();
        if let Some(own) = jwk.common.key_algorithm {
            algorithms.retain(|algorithm| own.to_string() == format!("{algorithm:?}"));
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        Some(Self { id: jwk.common.key_id.clone(), algorithms, key })
    }

    /// The same for these algorithms only, if there are any.
    pub(super) fn only(mut self, algorithms: &[Algorithm]) -> Self {
        if !algorithms.is_empty() {
            self.algorithms.retain(|algorithm| algorithms.contains(algorithm));
        }
        self
    }

    /// Whether it is for any algorithm.
    pub(super) fn is_usable(&self) -> bool {
        !self.algorithms.is_empty()
    }

    /// Whether a token of that algorithm and `kid` may be by this key.
    pub(super) fn fits(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let is_named = match (&self.id, id) {
            (Some(own), Some(asked)) => own == asked,
            _ => true,
        };
        is_named && self.algorithms.contains(&algorithm)
    }

    /// Whether this key made that signature. To be asked only if it fits.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let plain = |how: &'static dyn VerificationAlgorithm| {
            let bytes = self.key.try_get_as_bytes();
            bytes.is_ok_and(|bytes| UnparsedPublicKey::new(how, bytes).verify(message, signature).is_ok())
        };
        let rsa = |how: &'static RsaParameters| match self.key.kind() {
            DecodingKeyKind::SecretOrDer(_) => plain(how),
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(how, message, signature).is_ok()
            }
        };
        let mac = |how: hmac::Algorithm| {
            let secret = self.key.try_get_as_bytes();
            secret.is_ok_and(|secret| hmac::verify(&hmac::Key::new(how, secret), message, signature).is_ok())
        };
        match algorithm {
            Algorithm::HS256 => mac(hmac::HMAC_SHA256),
            Algorithm::HS384 => mac(hmac::HMAC_SHA384),
            Algorithm::HS512 => mac(hmac::HMAC_SHA512),
            Algorithm::RS256 => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => plain(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => plain(&signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => plain(&signature::ED25519),
            _ => false,
        }
    }
}
