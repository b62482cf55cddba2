//! Names in requests that no rules have: misspelt domains and keys.
//!
//! What no rule matches is allowed, as in Envoy, so that a misspelt name looks
//! like a limit that works. `/v1` says so in its replies if no limit applies at all,
//! and the log does for every descriptor and every way in.
//!
//! Invariant: whatever callers make up, few lines are logged and few names kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;

use tollgate_core::ruleset::Free;
use tollgate_core::{Micros, Request, Time};
use tollgate_gateway::config::{DEFAULT_DOMAIN, DEFAULT_KEYS};
use tollgate_limiter::Reply;
use tollgate_yaml::nearest;

/// A name is logged once in this time.
const LOG_EVERY: Micros = Micros::from_secs(60);
/// So many names are logged in that time, and no others.
const NAMES_MAX: usize = 32;
/// Among so many names a nearest one is looked for.
const CANDIDATES_MAX: usize = 256;
/// A longer name has no nearest one.
const NAME_BYTES_MAX: usize = 64;

/// A name that no rules have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownName<'a> {
    /// The domain.
    Domain(&'a str),
    /// The key of an entry, where the domain has rules.
    Key(&'a str),
}

impl<'a> UnknownName<'a> {
    /// The first such name, if no limit applies to the request.
    pub fn find(request: &Request<'a>, reply: &Reply) -> Option<Self> {
        if reply.decisions.is_empty() { Self::find_any(request, reply, |_| true) } else { None }
    }

    /// The first such name, though limits may apply to other descriptors, of keys that `is_meant` picks.
    fn find_any(request: &Request<'a>, reply: &Reply, is_meant: impl Fn(&str) -> bool) -> Option<Self> {
        let rules = reply.rules();
        request.descriptors.iter().zip(&reply.free).find_map(|(descriptor, free)| match free {
            Some(Free::UnknownDomain) => Some(Self::Domain(request.domain)),
            Some(Free::NoRule) => {
                let mut keys = descriptor.entries.iter().map(|entry| entry.key);
                keys.find(|key| !rules.has_key(request.domain, key) && is_meant(key)).map(Self::Key)
            }
            Some(Free::Unlimited | Free::Replaced | Free::Allowed | Free::Overridden) | None => None,
        })
    }

    /// The name itself.
    pub const fn name(self) -> &'a str {
        match self {
            Self::Domain(name) | Self::Key(name) => name,
        }
    }

    /// The name that it may have been meant to be.
    pub fn nearest<'r>(self, request: &Request<'_>, reply: &'r Reply) -> Option<&'r str> {
        if self.name().len() > NAME_BYTES_MAX {
            return None;
        }
        let rules = reply.rules();
        match self {
            Self::Domain(name) => nearest(name, rules.domains().take(CANDIDATES_MAX)),
            Self::Key(name) => nearest(name, rules.keys(request.domain).take(CANDIDATES_MAX)),
        }
    }
}

/// Which names were logged lately.
#[derive(Debug, Default)]
pub(super) struct UnknownNameLog {
    /// By kind and name, when it was logged.
    logged: Mutex<HashMap<(&'static str, String), Time>>,
}

impl UnknownNameLog {
    /// Logs a name of the request that no rules have, unless that was done lately.
    pub(super) fn note(&self, request: &Request<'_>, reply: &Reply) {
        // Nearly always every descriptor has met a limit.
        if reply.free.iter().all(Option::is_none) {
            return;
        }
        // Without a mapping the gateway offers its descriptors to rules that want them.
        let is_meant = |key: &str| request.domain != DEFAULT_DOMAIN || !DEFAULT_KEYS.contains(&key);
        let Some(unknown) = UnknownName::find_any(request, reply, is_meant) else { return };
        let (kind, domain, name) = match unknown {
            UnknownName::Domain(name) => ("domain", name, name),
            UnknownName::Key(name) => ("key", request.domain, name),
        };
        let Some(left) = self.take(kind, name, reply.now) else { return };
        let nearest = unknown.nearest(request, reply);
        match unknown {
            UnknownName::Domain(_) => {
                tracing::warn!(?domain, nearest, "no rules have this domain; its requests are allowed");
            }
            UnknownName::Key(_) => {
                tracing::warn!(?domain, key = ?name, nearest, "no rules have this key; no limit applies to descriptors with it");
            }
        }
        if left == 0 {
            tracing::warn!("too many unknown names: no more of them are logged for a minute");
        }
    }

    /// How many more names may be logged; none if this one may not.
    fn take(&self, kind: &'static str, name: &str, now: Time) -> Option<usize> {
        // Whoever would have to wait for the lock need not log.
        let mut logged = self.logged.try_lock().ok()?;
        logged.retain(|_, last| now.since(*last) < LOG_EVERY);
        let left = NAMES_MAX.checked_sub(logged.len() + 1)?;
        let name = name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or_default();
        match logged.entry((kind, name.to_owned())) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                entry.insert(now);
                Some(left)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::rule::{DescriptorSpec, DomainSpec};
    use tollgate_core::{Descriptor, Entry as EntryOf, RuleSet};
    use tollgate_limiter::Limiter;

    use super::*;

    const START: Time = Time::from_secs(1_800_000_000);

    fn logged(entries: &[(&str, &str)]) -> usize {
        let rule = DescriptorSpec { key: "remote_address".into(), ..DescriptorSpec::default() };
        let domain = DomainSpec { name: "gateway".into(), descriptors: vec![rule], ..DomainSpec::default() };
        let limiter = Limiter::new(RuleSet::new(vec![domain]).unwrap());
        let entries: Vec<EntryOf<'_>> = entries.iter().map(|entry| EntryOf::from(*entry)).collect();
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("gateway", &descriptors);
        let log = UnknownNameLog::default();
        log.note(&request, &limiter.check(&request).at_once());
        log.logged.into_inner().unwrap().len()
    }

    #[test]
    fn what_the_gateway_offers_to_rules_is_not_misspelt() {
        assert_eq!(logged(&[("method", "GET"), ("path", "/")]), 0);
        assert_eq!(logged(&[("method", "GET"), ("user", "42")]), 1);
    }

    #[test]
    fn a_name_is_logged_once_a_minute() {
        let log = UnknownNameLog::default();
        let minute = START + LOG_EVERY;
        assert_eq!(log.take("domain", "shpo", START), Some(NAMES_MAX - 1));
        assert_eq!(log.take("domain", "shpo", minute.before(Micros::new(1))), None);
        assert_eq!(log.take("key", "shpo", START), Some(NAMES_MAX - 2));
        assert!(log.take("domain", "shpo", minute).is_some());
    }

    #[test]
    fn names_that_callers_make_up_are_few() {
        let log = UnknownNameLog::default();
        let named = (0..1_000).filter_map(|n| log.take("domain", &format!("{n}{}", "x".repeat(500)), START));
        assert_eq!(named.collect::<Vec<_>>(), (0..NAMES_MAX).rev().collect::<Vec<_>>());
        let logged = log.logged.lock().unwrap();
        assert!(logged.keys().all(|(_, name)| name.len() == NAME_BYTES_MAX), "{logged:?}");
    }
}
