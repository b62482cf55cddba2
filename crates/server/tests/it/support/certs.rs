//! Authorities and certificates, made on the spot.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub(crate) struct Certificate {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names are fine");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate of its issuer's name for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("it signs itself"))
    }

    /// Its own certificate, in PEM.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a DNS name.
    pub(crate) fn sign(&self, name: &str) -> Certificate {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("the name is one");
        let cert = params.signed_by(&key, &self.0).expect("it signs");
        Certificate { cert: cert.pem(), key: key.serialize_pem() }
    }
}
