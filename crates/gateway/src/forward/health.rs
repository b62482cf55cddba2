//! Which upstreams are in use.
//!
//! What becomes of requests is watched: an upstream that fails so many times in a row, by refusing
//! connections, by not answering in time or by a 5xx, is ejected for a while, and for longer the
//! next time. Where a health check is set, upstreams that fail it get no requests either.
//!
//! Invariants: the last upstream of a group that is in use is never ejected, and if all of them
//! fail their health checks, all get requests: a check that is wrong must not take an API down.
//! Every change is logged, once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_rustls::rustls::{self, CertificateError};

use crate::bounds::EJECTION_MAX;
use crate::config::{EjectPolicy, UpstreamUrl};

/// How an upstream is doing.
#[derive(Debug, Default)]
pub(crate) struct ServerHealth {
    /// What the log calls it.
    group: String,
    upstream: String,
    /// Failures since the last answer.
    failures: AtomicU32,
    /// There is an [`Ejection`], whether it is over or not.
    is_ejected: AtomicBool,
    ejection: Mutex<Ejection>,
    fails_checks: AtomicBool,
    /// The last try to connect failed.
    is_unreachable: AtomicBool,
    /// It broke TLS off when a request was sent, and has not answered since.
    has_refused_tls: AtomicBool,
    /// It has answered a request, or the log was told that it has not.
    is_known: AtomicBool,
    /// Since the start.
    pub(super) failures_total: AtomicU64,
    pub(super) ejections_total: AtomicU64,
}

/// The last time that an upstream was left alone.
#[derive(Debug, Default)]
struct Ejection {
    until: Option<Instant>,
    lasted: Duration,
}

impl ServerHealth {
    pub(super) fn new(group: &str, upstream: &UpstreamUrl) -> Self {
        Self { group: group.to_owned(), upstream: upstream.to_string(), ..Self::default() }
    }

    /// Whether it gets requests.
    pub(super) fn is_usable(&self) -> bool {
        if self.fails_checks.load(Ordering::Relaxed) {
            return false;
        }
        !self.is_ejected.load(Ordering::Relaxed) || self.ejection.lock().is_over(Instant::now())
    }

    /// It takes connections and says nothing that can be understood. Told once, and only if it has never
    /// answered: then it is another protocol, and otherwise a failure like any.
    pub(super) fn said_nothing(&self) {
        if !self.is_known.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                group = self.group,
                upstream = self.upstream,
                "the upstream takes a connection and does not answer; is the scheme of its URL right? \
                 http:// is HTTP/1.1, h2c:// HTTP/2 without TLS, https:// TLS"
            );
        }
    }

    /// It took a connection and broke TLS off afterwards, as upstreams do over TLS 1.3 that want another
    /// certificate of ours. Told once, until it answers.
    pub(super) fn refused_tls(&self, alert: rustls::AlertDescription) {
        if !self.has_refused_tls.swap(true, Ordering::Relaxed) {
            let (group, upstream) = (&self.group, &self.upstream);
            let error = rustls::Error::AlertReceived(alert);
            tracing::warn!(group, upstream, %error, fix = ALERT_REMEDY, "the upstream breaks TLS off");
        }
    }

    /// It has answered, and not with a 5xx.
    pub(super) fn answered(&self) {
        if !self.is_known.load(Ordering::Relaxed) {
            self.is_known.store(true, Ordering::Relaxed);
        }
        if self.has_refused_tls.load(Ordering::Relaxed) {
            self.has_refused_tls.store(false, Ordering::Relaxed);
        }
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.is_ejected.load(Ordering::Relaxed)
            && self.ejection.lock().is_over(Instant::now())
            && self.is_ejected.swap(false, Ordering::Relaxed)
        {
            tracing::info!(group = self.group, upstream = self.upstream, "the upstream answers again");
        }
    }

    /// It has not, or with a 5xx; ejected only if it is not the last one.
    pub(super) fn failed(&self, policy: &EjectPolicy, has_other: impl Fn() -> bool) {
        self.failures_total.fetch_add(1, Ordering::Relaxed);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if policy.after == 0 || failures < policy.after || !self.is_usable() || !has_other() {
            return;
        }
        let lasts = self.ejection.lock().begin(Instant::now(), policy.base);
        self.is_ejected.store(true, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.ejections_total.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            group = self.group,
            upstream = self.upstream,
            "the upstream failed {failures} times in a row and gets no requests for {lasts:?}"
        );
    }

    /// Whether it fails its health checks, as far as is known.
    pub(super) fn fails_checks(&self) -> bool {
        self.fails_checks.load(Ordering::Relaxed)
    }

    /// It fails its health checks from now on, or passes them again.
    pub(super) fn checked(&self, fails: bool) {
        self.fails_checks.store(fails, Ordering::Relaxed);
        let (group, upstream) = (&self.group, &self.upstream);
        match fails {
            true => {
                tracing::warn!(group, upstream, "the upstream fails its health checks and gets no requests")
            }
            false => tracing::info!(group, upstream, "the upstream passes its health checks again"),
        }
    }

    /// A new connection was tried, and failed for this reason.
    pub(super) fn connected(&self, failure: Option<&io::Error>) {
        let was_unreachable = self.is_unreachable.swap(failure.is_some(), Ordering::Relaxed);
        let (group, upstream) = (&self.group, &self.upstream);
        match (failure, was_unreachable) {
            (Some(error), false) => {
                let fix = remedy(error);
                tracing::warn!(group, upstream, %error, fix, "cannot connect to the upstream");
            }
            (None, true) => tracing::info!(group, upstream, "the upstream can be connected to again"),
            (Some(_), true) | (None, false) => {}
        }
    }

    /// What health checks have found out counts no more.
    pub(super) fn forget_checks(&self) {
        self.fails_checks.store(false, Ordering::Relaxed);
    }
}

const ALERT_REMEDY: &str =
    "if the upstream asks for a certificate, write one that it accepts as tls.cert and tls.key of the group";

/// What to do about a connection that failed.
fn remedy(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "an upstream cannot show the certificate of an authority, which openssl req -x509 makes; make it with basicConstraints CA:FALSE"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => "renew the certificate of the upstream, or set the clock of this machine",
        Some(rustls::Error::InvalidCertificate(_)) => {
            "write who signed the certificate as tls.ca of the group, and a name that it is for as tls.server_name"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "write http:// or h2c:// if the upstream does not speak TLS"
        }
        Some(rustls::Error::AlertReceived(_)) => ALERT_REMEDY,
        _ => "check that the upstream runs and that its URL is right",
    }
}

impl Ejection {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// How long the next one lasts: longer, if the last one was not long ago.
    fn begin(&mut self, now: Instant, base: Duration) -> Duration {
        let is_again = self.until.is_some_and(|until| now < until + self.lasted);
        self.lasted = if is_again { (self.lasted + base).min(EJECTION_MAX) } else { base };
        self.until = Some(now + self.lasted);
        self.lasted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_handshake_comes_with_what_to_do() {
        let tls = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let certificate = |error| tls(rustls::Error::InvalidCertificate(error));
        let no_tls = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let is_authority = rustls::OtherError(std::sync::Arc::new(io::Error::other("CaUsedAsEndEntity")));
        for (error, word) in [
            (certificate(CertificateError::UnknownIssuer), "tls.ca"),
            (certificate(CertificateError::NotValidForName), "tls.server_name"),
            (certificate(CertificateError::Other(is_authority)), "CA:FALSE"),
            (certificate(CertificateError::Expired), "renew"),
            (tls(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired)), "tls.cert"),
            (tls(no_tls), "http://"),
            (io::ErrorKind::ConnectionRefused.into(), "runs"),
        ] {
            assert!(remedy(&error).contains(word), "{error}");
        }
    }

    #[test]
    fn each_ejection_soon_after_another_lasts_longer() {
        let (base, start) = (Duration::from_secs(10), Instant::now());
        let mut ejection = Ejection::default();
        assert!(ejection.is_over(start));
        assert_eq!(ejection.begin(start, base), base);
        assert!(!ejection.is_over(start + Duration::from_secs(9)) && ejection.is_over(start + base));
        let again = start + Duration::from_secs(15);
        assert_eq!(ejection.begin(again, base), 2 * base);
        // It was well for as long as it had been ejected.
        assert_eq!(ejection.begin(again + 4 * base, base), base);
        let mut now = start;
        for _ in 0..100 {
            now += ejection.begin(now, base);
        }
        assert_eq!(ejection.lasted, EJECTION_MAX);
    }
}
