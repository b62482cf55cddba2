//! How many connections an address may open and have, before a byte of theirs is read.
//!
//! The accept loop asks before anything else is done for a connection. An IPv6 address is its /64, as
//! everywhere. Trusted proxies and exempt networks are not limited.
//!
//! Invariants: memory is bounded whatever addresses come: rates are kept in a table with a bound, and an
//! address is counted only while it has connections, of which there is a bound, too. An attempt that is
//! refused for the connections that are open has been counted as a new one.
//!
//! Deliberately not here: how many connections there may be of all addresses (`connection_limit`).

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tollgate_core::{Micros, Outcome, Verdict};
use tollgate_http::AddressPrefixes;
use tollgate_limiter::{Capacity, Clock as _, KeyedLimiter, SystemClock};
use tollgate_metrics::TrafficLevel;
use tollgate_settings::{ConnectionLevels, LimitedListener, Settings};

use crate::bounds::{ADDRESSES_MAX, REFUSAL_BYTES, REFUSAL_WAIT_MAX, REFUSALS_MAX};
use crate::service::Sinks;

/// Limits connections by address.
#[derive(Debug)]
pub(crate) struct AddressLimit {
    levels: ConnectionLevels,
    clock: SystemClock,
    rate: Option<KeyedLimiter<IpAddr>>,
    /// How many connections an address has, if it has any.
    open: Mutex<HashMap<IpAddr, u32>>,
    is_shadow: bool,
    sinks: Sinks,
    /// Those who are told why they are refused; all others are just reset.
    refusals: Arc<Semaphore>,
}

/// A connection of an address that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    limit: Arc<AddressLimit>,
    address: IpAddr,
}

/// Why a connection is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionDenial {
    level: TrafficLevel,
    retry_after: Micros,
    address: String,
}

impl AddressLimit {
    /// None if connections are not limited.
    pub(crate) fn new(settings: &Settings, sinks: Sinks) -> Option<Arc<Self>> {
        let levels = settings.levels.connections.clone()?;
        let capacity = Capacity { keys: ADDRESSES_MAX, log_bytes: 0 };
        let rate = levels.rate.map(|limit| KeyedLimiter::with(limit, capacity, SystemClock::new()));
        Some(Arc::new(Self {
            levels,
            clock: SystemClock::new(),
            rate,
            open: Mutex::default(),
            is_shadow: settings.replies.shadow,
            sinks,
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        }))
    }

    /// Lets a connection in, unless its address has opened or has too many. What is not limited has
    /// no permit.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: IpAddr,
        listener: LimitedListener,
    ) -> Result<Option<AddressPermit>, ConnectionDenial> {
        if !self.levels.listeners.contains(&listener) || self.levels.exempts(peer) {
            return Ok(None);
        }
        let prefixes = AddressPrefixes::default();
        let (address, shown) = (prefixes.network(peer), prefixes.shown(peer));
        let denial = |level, retry_after| ConnectionDenial { level, retry_after, address: shown.clone() };
        if let Some(rate) = &self.rate {
            let retry_after = match rate.check(&address).verdict {
                Verdict::Allow | Verdict::Delay { .. } => None,
                Verdict::Deny { retry_after } => Some(retry_after.unwrap_or(Micros::SECOND)),
            };
            let is_denied = self.count(TrafficLevel::ConnectionRate, &shown, retry_after.is_some());
            if let (true, Some(retry_after)) = (is_denied, retry_after) {
                return Err(denial(TrafficLevel::ConnectionRate, retry_after));
            }
        }
        let Some(max) = self.levels.open else { return Ok(None) };
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        let is_denied = self.count(TrafficLevel::OpenConnections, &shown, *count >= max);
        if is_denied {
            // Nobody knows when one is closed.
            return Err(denial(TrafficLevel::OpenConnections, Micros::SECOND));
        }
        *count += 1;
        Ok(Some(AddressPermit { limit: Arc::clone(self), address }))
    }

    /// Counts a decision; whether it is to be obeyed as a denial.
    fn count(&self, level: TrafficLevel, address: &str, is_over: bool) -> bool {
        let outcome = match (is_over, self.is_shadow) {
            (false, _) => Outcome::Allowed,
            (true, true) => Outcome::ShadowDenied,
            (true, false) => Outcome::Denied,
        };
        self.sinks.level(level, Some(address), outcome, self.clock.now());
        outcome == Outcome::Denied
    }

    /// Ends a connection that was not let in: with a few words where they can be read and not too many
    /// are being told, else with a reset.
    pub(crate) fn refuse(&self, stream: TcpStream, words: Option<String>) {
        let turn = Arc::clone(&self.refusals).try_acquire_owned();
        let (Some(words), Ok(turn)) = (words, turn) else {
            // Without the linger the kernel resets it when it is closed.
            if let Err(error) = SockRef::from(&stream).set_linger(Some(Duration::ZERO)) {
                tracing::debug!(%error, "a refused connection could not be reset");
            }
            return;
        };
        tokio::spawn(async move {
            let told = tokio::time::timeout(REFUSAL_WAIT_MAX, tell(stream, words)).await;
            if let Ok(Err(error)) = told {
                tracing::debug!(%error, "a refused connection went away");
            }
            drop(turn);
        });
    }
}

/// Says why, and then takes what the caller has sent: the kernel resets a connection that is closed with
/// unread bytes, and the caller would lose the answer.
async fn tell(mut stream: TcpStream, words: String) -> io::Result<()> {
    stream.write_all(words.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(REFUSAL_BYTES);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

impl ConnectionDenial {
    /// What the caller is told in the protocol of the listener; none where that takes more than words.
    pub(crate) fn words(&self, listener: LimitedListener) -> Option<String> {
        let level = self.level.name();
        let what = match self.level {
            TrafficLevel::OpenConnections => "has too many connections open",
            TrafficLevel::ConnectionRate | TrafficLevel::Requests => "opens too many connections",
        };
        let detail = format!("{} {what}", self.address);
        match listener {
            LimitedListener::Gateway | LimitedListener::Http => {
                let seconds = self.retry_after.as_secs_ceil();
                let body = format!(
                    r#"{{"title":"Too Many Requests","status":429,"detail":"{detail}","violated-policies":["{level}"]}}"#
                );
                Some(format!(
                    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n\
                     Retry-After: {seconds}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                ))
            }
            LimitedListener::Resp => Some(format!("-ERR {detail} ({level})\r\n")),
            LimitedListener::Grpc => None,
        }
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut open = self.limit.open.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use tollgate_metrics::{Metrics, MetricsConfig};
    use tollgate_settings::{ConfigFile, Flags};

    use super::*;

    fn limit(text: &str) -> Arc<AddressLimit> {
        let file = ConfigFile::parse("tollgate.yaml", text).unwrap();
        let (settings, _) = Settings::resolve(&Flags::default(), &HashMap::new(), Some(&file)).unwrap();
        let sinks = Sinks::from(Arc::new(Metrics::new(MetricsConfig::default())));
        AddressLimit::new(&settings, sinks).expect("connections are limited")
    }

    fn admit(
        limit: &Arc<AddressLimit>,
        peer: impl Into<IpAddr>,
    ) -> Result<Option<AddressPermit>, TrafficLevel> {
        limit.admit(peer.into(), LimitedListener::Gateway).map_err(|denial| denial.level)
    }

    #[test]
    fn an_ipv6_address_is_its_64_and_ipv4_in_ipv6_is_ipv4() {
        let limit = limit("levels: { connections: { open: 1 } }");
        let held = admit(&limit, Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1)).unwrap();
        let other_in_64 = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9);
        assert_eq!(admit(&limit, other_in_64).unwrap_err(), TrafficLevel::OpenConnections);
        assert!(admit(&limit, Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1)).is_ok());
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
        let _held = admit(&limit, mapped).unwrap();
        assert!(admit(&limit, Ipv4Addr::new(192, 0, 2, 1)).is_err());
        assert!(admit(&limit, Ipv4Addr::new(192, 0, 2, 2).to_ipv6_mapped()).is_ok());
        drop(held);
        assert!(admit(&limit, other_in_64).is_ok());
    }

    #[test]
    fn memory_is_bounded_whatever_addresses_come() {
        let limit = limit("levels: { connections: { open: 1, per_second: 1 } }");
        for number in 0..u64::try_from(2 * ADDRESSES_MAX).unwrap() {
            let network = u128::from(number) << 64;
            drop(admit(&limit, Ipv6Addr::from_bits(network)));
        }
        assert!(limit.rate.as_ref().unwrap().usage().keys <= ADDRESSES_MAX);
        assert!(limit.open.lock().is_empty(), "an address without connections takes nothing");
    }

    #[test]
    fn an_address_that_opens_too_fast_is_denied_and_others_are_not() {
        let limit = limit("levels: { connections: { per_second: 1, burst: 2 } }");
        let one = Ipv4Addr::new(192, 0, 2, 1);
        assert!(admit(&limit, one).is_ok() && admit(&limit, one).is_ok());
        assert!((0..10).any(|_| admit(&limit, one).is_err()), "two, and one more each second");
        assert!(admit(&limit, Ipv4Addr::new(192, 0, 2, 2)).is_ok());
    }

    #[test]
    fn other_listeners_exempt_networks_and_trusted_proxies_are_not_limited() {
        let limit = limit(
            "levels: { connections: { open: 1, exempt: [192.0.2.0/24] } }\n\
             mapping: { domain: d, trusted_proxies: [198.51.100.7], descriptors: [[{ method: {} }]] }\n",
        );
        for exempt in [[192, 0, 2, 9], [198, 51, 100, 7]] {
            assert!(admit(&limit, exempt).unwrap().is_none());
        }
        let _held = admit(&limit, [203, 0, 113, 1]).unwrap().expect("it is counted");
        assert!(admit(&limit, [203, 0, 113, 1]).is_err());
        let elsewhere = limit.admit([203, 0, 113, 1].into(), LimitedListener::Http);
        assert!(elsewhere.is_ok_and(|permit| permit.is_none()));
    }

    #[test]
    fn what_is_told_is_in_the_listeners_protocol() {
        let denial = ConnectionDenial {
            level: TrafficLevel::OpenConnections,
            retry_after: Micros::SECOND,
            address: "2001:db8::/64".to_owned(),
        };
        let http = denial.words(LimitedListener::Gateway).unwrap();
        let (head, body) = http.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 429 ") && head.contains("\r\nRetry-After: 1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["detail"], "2001:db8::/64 has too many connections open");
        assert_eq!(problem["violated-policies"][0], "levels.connections.open");
        let resp = denial.words(LimitedListener::Resp).unwrap();
        assert_eq!(resp, "-ERR 2001:db8::/64 has too many connections open (levels.connections.open)\r\n");
        assert_eq!(denial.words(LimitedListener::Grpc), None);
    }
}
