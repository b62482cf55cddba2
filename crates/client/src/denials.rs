//! What a server has denied, until the time at which it said that the same would pass.
//!
//! [`crate::Client`] asks here before it asks the server, so that nobody comes too early.
//!
//! Invariants: only the same domain, descriptors and cost are the same request; the time runs on the
//! monotonic clock from when the denial arrived, so that it ends no earlier than the server meant; what
//! was denied before a refund is not remembered after it, also where both were under way at once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_core::{Micros, Request, Verdict};

use crate::bounds::{DENIAL_DECISIONS_MAX, DENIAL_KEY_MAX};
use crate::clock;
use crate::expiring_map::ExpiringMap;
use crate::reply::{ReplyOrigin, ServerReply};

/// The denials of one client.
#[derive(Debug)]
pub(crate) struct DenialMap {
    longest: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    denials: ExpiringMap<DenialKey, RememberedDenial>,
    /// Counts what makes denials doubtful.
    epoch: u64,
}

/// A denial, which may be remembered for less than the time that the server told.
#[derive(Debug)]
struct RememberedDenial {
    reply: ServerReply,
    /// When the same would pass; none for never.
    passes: Option<Instant>,
}

/// A request that may be known to be denied.
#[derive(Debug)]
pub(crate) struct Known {
    key: Option<DenialKey>,
    /// The epoch in which the server is asked.
    epoch: u64,
}

/// Domain, descriptors and cost, in a form that no other request has.
type DenialKey = Box<[u8]>;

impl DenialMap {
    /// At most `capacity` denials, none for longer than `longest`.
    pub(crate) fn new(capacity: usize, longest: Duration) -> Self {
        let inner = Inner { denials: ExpiringMap::new(capacity), epoch: 0 };
        Self { longest, inner: Mutex::new(inner) }
    }

    /// The denial of this request that still holds, or what to [`Self::learn`] the server's reply with.
    pub(crate) fn find(&self, request: &Request<'_>, now: Instant) -> Result<ServerReply, Known> {
        let inner = self.inner.lock();
        let key = key(request);
        if let Some(key) = &key
            && let Some((_, RememberedDenial { reply, passes })) = inner.denials.get(key, now)
        {
            let verdict = Verdict::Deny { retry_after: passes.map(|passes| left(passes, now)) };
            return Ok(ServerReply { verdict, origin: ReplyOrigin::Memory, ..reply.clone() });
        }
        Err(Known { key, epoch: inner.epoch })
    }

    /// Remembers the reply if it is a denial, which arrived at `now`.
    pub(crate) fn learn(&self, known: Known, reply: &ServerReply, now: Instant) {
        let Verdict::Deny { retry_after } = reply.verdict else { return };
        let Some(key) = known.key else { return };
        // A server that has found its store again may decide otherwise.
        let is_degraded = reply.decisions.iter().any(|decision| decision.degraded);
        if is_degraded || reply.decisions.len() > DENIAL_DECISIONS_MAX {
            return;
        }
        // What never passes may pass after a reload of the rules.
        let lasts = retry_after.map_or(self.longest, |span| self.longest.min(span.into()));
        let passes = retry_after.map(|span| clock::after(now, span.into()));
        let mut inner = self.inner.lock();
        if inner.epoch == known.epoch {
            let denial = RememberedDenial { reply: reply.clone(), passes };
            inner.denials.insert(key, denial, clock::after(now, lasts), now);
        }
    }

    /// Forgets all denials of a domain, those under way too: something was given back, and whose counters
    /// it was only the rules know.
    pub(crate) fn forget(&self, domain: &str) {
        let mut prefix = Vec::new();
        put(&mut prefix, domain);
        let mut inner = self.inner.lock();
        inner.epoch += 1;
        inner.denials.retain(|key| !key.starts_with(&prefix));
    }
}

/// The time left, rounded up, so that whoever waits it out does not come too early.
fn left(until: Instant, now: Instant) -> Micros {
    let us = until.saturating_duration_since(now).as_nanos().div_ceil(1_000);
    Micros::new(u64::try_from(us).unwrap_or(u64::MAX))
}

/// None if it is too long, or not a plain question.
fn key(request: &Request<'_>) -> Option<DenialKey> {
    let is_plain = request
        .descriptors
        .iter()
        .all(|descriptor| descriptor.operation.is_none() && descriptor.limit.is_none());
    let texts = request.descriptors.iter().flat_map(|descriptor| descriptor.entries);
    let bytes = request.domain.len() + texts.map(|entry| entry.key.len() + entry.value.len()).sum::<usize>();
    if !is_plain || bytes > DENIAL_KEY_MAX {
        return None;
    }
    let mut key = Vec::with_capacity(2 * bytes + 64);
    put(&mut key, request.domain);
    key.extend(request.cost.to_be_bytes());
    for descriptor in request.descriptors {
        key.extend(descriptor.cost.unwrap_or(request.cost).to_be_bytes());
        key.extend(descriptor.entries.len().to_be_bytes());
        for entry in descriptor.entries {
            put(&mut key, entry.key);
            put(&mut key, entry.value);
        }
    }
    (key.len() <= 4 * DENIAL_KEY_MAX).then(|| key.into())
}

/// The length goes first, so that no two lists of texts look alike.
fn put(key: &mut Vec<u8>, text: &str) {
    key.extend(text.len().to_be_bytes());
    key.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tollgate_core::{Descriptor, Entry};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    fn denial(retry_after: Option<Micros>) -> ServerReply {
        ServerReply { origin: ReplyOrigin::Server, ..ServerReply::unreachable(Verdict::Deny { retry_after }) }
    }

    fn with_request<R>(
        domain: &str,
        entries: &[(&str, &str)],
        cost: u64,
        then: impl FnOnce(&Request<'_>) -> R,
    ) -> R {
        let entries: Vec<Entry<'_>> = entries.iter().map(|pair| Entry::from(*pair)).collect();
        then(&Request::new(domain, &[Descriptor::new(&entries)]).with_cost(cost))
    }

    fn find(denials: &DenialMap, domain: &str, user: &str, now: Instant) -> Result<ServerReply, Known> {
        with_request(domain, &[("user", user)], 1, |request| denials.find(request, now))
    }

    fn learn(denials: &DenialMap, domain: &str, user: &str, retry_ms: u64, now: Instant) {
        let known = find(denials, domain, user, now).unwrap_err();
        denials.learn(known, &denial(Some(Micros::from_millis(retry_ms))), now);
    }

    #[test]
    fn a_denial_holds_until_its_time_and_not_a_microsecond_longer() {
        let denials = DenialMap::new(10, LONGEST);
        let now = Instant::now();
        learn(&denials, "shop", "42", 1_500, now);
        let just_before = now + Duration::from_micros(1_499_999);
        let found = find(&denials, "shop", "42", just_before).unwrap();
        assert_eq!(found.verdict, Verdict::Deny { retry_after: Some(Micros::new(1)) });
        assert_eq!(found.origin, ReplyOrigin::Memory);
        assert!(find(&denials, "shop", "42", now + Duration::from_micros(1_500_000)).is_err());
        assert!(find(&denials, "shop", "43", now).is_err());
        assert!(find(&denials, "other", "42", now).is_err());
    }

    #[test]
    fn a_denial_that_is_remembered_for_less_tells_the_whole_time() {
        let denials = DenialMap::new(10, LONGEST);
        let now = Instant::now();
        learn(&denials, "shop", "42", 3_600_000, now);
        let found = find(&denials, "shop", "42", now + Duration::from_secs(30)).unwrap();
        assert_eq!(found.verdict, Verdict::Deny { retry_after: Some(Micros::from_secs(3_570)) });
        assert!(find(&denials, "shop", "42", now + LONGEST).is_err());
        learn(&denials, "shop", "43", u64::MAX, now);
        assert!(find(&denials, "shop", "43", now).unwrap().verdict.is_deny());
    }

    #[test]
    fn what_never_passes_is_asked_again_after_the_longest_time() {
        let denials = DenialMap::new(10, LONGEST);
        let now = Instant::now();
        let known = find(&denials, "shop", "42", now).unwrap_err();
        denials.learn(known, &denial(None), now);
        let found = find(&denials, "shop", "42", now + LONGEST - Duration::from_micros(1)).unwrap();
        assert_eq!(found.verdict, Verdict::Deny { retry_after: None });
        assert!(find(&denials, "shop", "42", now + LONGEST).is_err());
        learn(&denials, "shop", "42", 3_600_000, now + LONGEST);
        assert!(find(&denials, "shop", "42", now + LONGEST * 2).is_err());
    }

    #[test]
    fn a_refund_forgets_its_domain_and_what_was_asked_before_it() {
        let denials = DenialMap::new(10, LONGEST);
        let now = Instant::now();
        learn(&denials, "shop", "42", 5_000, now);
        learn(&denials, "sho", "42", 5_000, now);
        let under_way = find(&denials, "shop", "7", now).unwrap_err();
        denials.forget("shop");
        assert!(find(&denials, "shop", "42", now).is_err());
        assert!(find(&denials, "sho", "42", now).is_ok());
        denials.learn(under_way, &denial(Some(Micros::SECOND)), now);
        assert!(find(&denials, "shop", "7", now).is_err());
    }

    #[test]
    fn what_is_allowed_too_long_or_no_plain_question_is_not_remembered() {
        let denials = DenialMap::new(10, LONGEST);
        let now = Instant::now();
        let known = find(&denials, "shop", "42", now).unwrap_err();
        denials.learn(known, &ServerReply::unreachable(Verdict::Allow), now);
        assert!(find(&denials, "shop", "42", now).is_err());
        let long = "x".repeat(DENIAL_KEY_MAX);
        learn(&denials, "shop", &long, 5_000, now);
        assert!(find(&denials, "shop", &long, now).is_err());
        let entries = [Entry::from(("user", "42"))];
        let refund = [Descriptor::new(&entries).as_refund()];
        assert!(key(&Request::new("shop", &refund)).is_none());
    }

    /// Every request of few short texts, which all have one length or another in common.
    #[test]
    fn no_two_requests_have_one_key() {
        let texts = ["", "a", "b", "ab", "ba"];
        let pairs: Vec<Entry<'_>> =
            texts.iter().flat_map(|key| texts.iter().map(|value| Entry { key, value })).collect();
        let (mut keys, mut count) = (HashSet::new(), 0);
        let mut add = |domain, descriptors: &[Descriptor<'_>]| {
            for cost in [1, 2] {
                keys.insert(key(&Request::new(domain, descriptors).with_cost(cost)).unwrap());
                count += 1;
            }
        };
        for domain in texts {
            for one in &pairs {
                add(domain, &[Descriptor::new(&[*one])]);
                add(domain, &[Descriptor::new(&[*one]).with_cost(7)]);
                for other in &pairs {
                    add(domain, &[Descriptor::new(&[*one, *other])]);
                    add(domain, &[Descriptor::new(&[*one]), Descriptor::new(&[*other])]);
                }
            }
        }
        assert_eq!(keys.len(), count);
    }
}
