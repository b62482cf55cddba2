//! Whose turn it is at each host: until when nothing may go out, and how far apart calls are.
//!
//! A call reserves its turn before it goes out, and every response is learnt from.
//!
//! Invariants: no turn is before the time that a host told; turns within a scarce window are at least its
//! interval apart; a turn that is not used is somebody else's; few hosts are held, and only as long as they
//! matter. `now` is an argument.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::response_limits::{QuotaLeft, ResponseLimits};
use crate::bounds::{AHEAD_MAX, FREE_TURNS_MAX, HOSTS_MAX, SLOW_REMAINING, TOLD_MAX};
use crate::clock;
use crate::expiring_map::ExpiringMap;

/// What is known of all hosts.
#[derive(Debug)]
pub(super) struct HostPaces {
    slow_below_percent: u8,
    hosts: Mutex<ExpiringMap<String, HostPace>>,
}

/// What is known of one.
#[derive(Debug, Clone)]
struct HostPace {
    block: Option<Block>,
    /// The next turn that nobody has had.
    next: Instant,
    /// Turns before that which were given back.
    free: BTreeSet<Instant>,
    /// How far turns are apart, until then.
    interval: Duration,
    slow_until: Instant,
}

/// When a call may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) at: Instant,
    /// Others wait for the same instant.
    pub(super) is_shared: bool,
}

/// A host has refused, and told when to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) until: Instant,
    pub(super) status: StatusCode,
}

impl HostPaces {
    pub(super) fn new(slow_below_percent: u8) -> Self {
        Self { slow_below_percent, hosts: Mutex::new(ExpiringMap::new(HOSTS_MAX)) }
    }

    /// Takes the next turn at a host, unless it is after `latest`.
    pub(super) fn reserve(&self, host: &str, now: Instant, latest: Instant) -> Result<Turn, Block> {
        let mut hosts = self.hosts.lock();
        let Some((_, pace)) = hosts.get(host, now) else { return Ok(Turn { at: now, is_shared: false }) };
        let mut pace = pace.clone();
        let block = pace.block.filter(|block| block.until > now);
        let is_slow = pace.slow_until > now;
        let earliest = block.map_or(now, |block| block.until);
        let free = pace.free.range(earliest..pace.slow_until.max(earliest)).next().copied();
        // When the window is over, there is quota for all who wait for it.
        let paced = if is_slow { free.unwrap_or(pace.next).max(now).min(pace.slow_until) } else { now };
        let at = earliest.max(paced);
        if at > latest {
            let status = block.map_or(StatusCode::TOO_MANY_REQUESTS, |block| block.status);
            return Err(Block { until: at, status });
        }
        let is_own = is_slow && at < pace.slow_until;
        if is_own {
            pace.free = pace.free.split_off(&now);
            if !pace.free.remove(&at) {
                pace.next = at + pace.interval;
            }
            keep(&mut hosts, host, pace, now);
        }
        Ok(Turn { at, is_shared: at > now && !is_own })
    }

    /// Gives a turn back that was not used.
    pub(super) fn give_back(&self, host: &str, turn: Turn, now: Instant) {
        let mut hosts = self.hosts.lock();
        let Some((_, pace)) = hosts.get(host, now) else { return };
        let is_ahead = turn.at > now && turn.at < pace.next && turn.at < pace.slow_until;
        if turn.is_shared || !is_ahead || pace.free.len() >= FREE_TURNS_MAX {
            return;
        }
        let mut pace = pace.clone();
        pace.free.insert(turn.at);
        keep(&mut hosts, host, pace, now);
    }

    /// Until when nothing may go to a host.
    pub(super) fn block(&self, host: &str, now: Instant) -> Option<Block> {
        let hosts = self.hosts.lock();
        hosts.get(host, now)?.1.block.filter(|block| block.until > now)
    }

    /// Learns from a response that arrived at `now`.
    pub(super) fn learn(&self, host: &str, status: StatusCode, limits: &ResponseLimits, now: Instant) {
        let mut hosts = self.hosts.lock();
        let known = hosts.get(host, now).map(|(_, pace)| pace.clone());
        let mut pace = known.unwrap_or_else(|| HostPace {
            block: None,
            next: now,
            free: BTreeSet::new(),
            interval: Duration::ZERO,
            slow_until: now,
        });
        if is_refusal(status) {
            if let Some(told) = limits.refused_for() {
                let until = clock::after(now, told);
                let until = pace.block.map_or(until, |block| block.until.max(until));
                pace.block = Some(Block { until, status });
            }
        } else {
            self.slow_down(&mut pace, limits, now);
        }
        keep(&mut hosts, host, pace, now);
    }

    /// Spreads what is left over the time that is left, by the tightest quota.
    fn slow_down(&self, pace: &mut HostPace, limits: &ResponseLimits, now: Instant) {
        let scarce = limits.quotas.iter().filter(|quota| self.is_scarce(quota));
        let Some((interval, reset)) = scarce.map(|quota| (interval(quota), believed_reset(quota))).max()
        else {
            if !limits.quotas.is_empty() {
                pace.slow_until = now;
            }
            return;
        };
        let soonest = clock::after(now, interval);
        pace.next = pace.next.max(soonest);
        // Those of a quicker pace are too close to each other.
        pace.free = if interval > pace.interval { BTreeSet::new() } else { pace.free.split_off(&soonest) };
        pace.interval = interval;
        pace.slow_until = clock::after(now, reset);
    }

    fn is_scarce(&self, quota: &QuotaLeft) -> bool {
        match quota.limit {
            Some(limit) => {
                u128::from(quota.remaining) * 100 < u128::from(limit) * u128::from(self.slow_below_percent)
            }
            None => quota.remaining < SLOW_REMAINING && self.slow_below_percent > 0,
        }
    }

    /// Forgets what a host has said.
    pub(super) fn forget(&self, host: &str) {
        self.hosts.lock().remove(host);
    }
}

/// As many calls as are left fit before the reset; if none is left, the next is after it. Windows may be long,
/// but a host is asked once in [`TOLD_MAX`] whatever it told.
fn interval(quota: &QuotaLeft) -> Duration {
    let turns = u32::try_from(quota.remaining.saturating_add(1)).unwrap_or(u32::MAX);
    // Whole nanoseconds, rounded up.
    (quota.reset.min(AHEAD_MAX) / turns).min(TOLD_MAX) + Duration::from_nanos(1)
}

/// An empty quota holds all calls back, and that for [`TOLD_MAX`] at most.
fn believed_reset(quota: &QuotaLeft) -> Duration {
    if quota.remaining == 0 { quota.reset.min(TOLD_MAX) } else { quota.reset }
}

fn keep(hosts: &mut ExpiringMap<String, HostPace>, host: &str, pace: HostPace, now: Instant) {
    let until = pace.block.map_or(pace.slow_until, |block| block.until.max(pace.slow_until));
    hosts.insert(host.to_owned(), pace, until, now);
}

/// The statuses by which a server refuses for now.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_secs(3_600);

    fn at_once(now: Instant) -> Turn {
        Turn { at: now, is_shared: false }
    }

    fn limits(retry_after_s: Option<u64>, quotas: &[(u64, u64, Option<u64>)]) -> ResponseLimits {
        let quota = |(remaining, reset_s, limit): &(u64, u64, Option<u64>)| QuotaLeft {
            remaining: *remaining,
            reset: Duration::from_secs(*reset_s),
            limit: *limit,
        };
        ResponseLimits {
            retry_after: retry_after_s.map(Duration::from_secs),
            quotas: quotas.iter().map(quota).collect(),
        }
    }

    /// As it is read, with a reset that is so far away.
    fn told(lines: &[(&'static str, &'static str)], reset: Duration) -> ResponseLimits {
        let mut headers = http::HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, http::HeaderValue::from_static(value));
        }
        headers.insert("x-ratelimit-reset", reset.as_secs().into());
        ResponseLimits::read(&headers, std::time::SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn a_refusal_holds_all_calls_to_its_host_and_no_others() {
        let (paces, now) = (HostPaces::new(20), Instant::now());
        let refused = StatusCode::SERVICE_UNAVAILABLE;
        paces.learn("a", refused, &limits(Some(10), &[]), now);
        // An answer that was under way, and a shorter refusal, take nothing back.
        paces.learn("a", StatusCode::OK, &limits(None, &[]), now);
        paces.learn("a", StatusCode::TOO_MANY_REQUESTS, &limits(Some(1), &[]), now);
        let until = now + Duration::from_secs(10);
        assert_eq!(paces.reserve("a", now, now + FAR), Ok(Turn { at: until, is_shared: true }));
        let soon = now + Duration::from_secs(9);
        assert_eq!(paces.reserve("a", now, soon).map_err(|block| block.until), Err(until));
        assert_eq!(paces.reserve("b", now, soon), Ok(at_once(now)));
        assert_eq!(paces.reserve("a", until, until), Ok(at_once(until)));
        paces.forget("a");
        assert_eq!(paces.reserve("a", now, soon), Ok(at_once(now)));
    }

    #[test]
    fn scarce_quota_is_spread_over_the_rest_of_its_window() {
        let (paces, now) = (HostPaces::new(20), Instant::now());
        // A fifth is left and not less: no need to slow down.
        paces.learn("a", StatusCode::OK, &limits(None, &[(20, 60, Some(100))]), now);
        assert_eq!(paces.reserve("a", now, now), Ok(at_once(now)));
        paces.learn("a", StatusCode::OK, &limits(None, &[(5, 60, Some(100)), (999, 1, Some(1_000))]), now);
        let reset = now + Duration::from_secs(60);
        let turns: Vec<Instant> = (0..8).map(|_| paces.reserve("a", now, now + FAR).unwrap().at).collect();
        assert!(turns[..5].windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(10)), "{turns:?}");
        assert!(turns[4] < reset && turns[5..].iter().all(|turn| *turn == reset), "{turns:?}");
        // The window is over.
        assert_eq!(paces.reserve("a", reset, reset), Ok(at_once(reset)));
    }

    #[test]
    fn an_empty_quota_is_waited_for_before_it_is_refused() {
        let (paces, now) = (HostPaces::new(20), Instant::now());
        paces.learn("a", StatusCode::OK, &limits(None, &[(0, 30, None)]), now);
        let reset = now + Duration::from_secs(30);
        for _ in 0..3 {
            assert_eq!(paces.reserve("a", now, now + FAR), Ok(Turn { at: reset, is_shared: true }));
        }
        assert!(paces.reserve("a", now, now + Duration::from_secs(29)).is_err());
        // Plenty again, as a later answer says.
        paces.learn("a", StatusCode::OK, &limits(None, &[(90, 30, Some(100))]), now);
        assert_eq!(paces.reserve("a", now, now), Ok(at_once(now)));
    }

    #[test]
    fn the_pace_of_a_long_quota_is_that_of_its_whole_window() {
        let (paces, now) = (HostPaces::new(20), Instant::now());
        let days = |count: u64| Duration::from_secs(count * 86_400);
        let left = [("x-ratelimit-limit", "10000"), ("x-ratelimit-remaining", "1000")];
        paces.learn("a", StatusCode::OK, &told(&left, days(20)), now);
        let turns: Vec<Instant> =
            (0..3).map(|_| paces.reserve("a", now, now + FAR * 2).unwrap().at).collect();
        assert_eq!((turns[0] - now).as_secs(), 20 * 86_400 / 1_001);
        assert_eq!((turns[1] - turns[0]).as_secs(), 20 * 86_400 / 1_001);
        // More than a day later it is still slow.
        let later = now + days(19);
        assert!(paces.reserve("a", later, later).is_ok_and(|turn| turn.at == later));
        assert!(paces.reserve("a", later, later).is_err(), "the next turn is half an hour away");
    }

    #[test]
    fn nothing_is_held_back_wholly_for_longer_than_a_day() {
        let (now, years) = (Instant::now(), Duration::from_secs(10 * 365 * 86_400));
        let day = now + TOLD_MAX;
        let left = |remaining| [("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", remaining)];
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
            let paces = HostPaces::new(20);
            paces.learn("a", status, &told(&left("0"), years), now);
            assert_eq!(paces.reserve("a", now, day - FAR).map_err(|block| block.until), Err(day), "{status}");
            assert_eq!(paces.reserve("a", now, day), Ok(Turn { at: day, is_shared: true }), "{status}");
            assert_eq!(paces.reserve("a", day, day), Ok(at_once(day)), "{status}");
        }
        // Where something is left, there is a call a day.
        let paces = HostPaces::new(20);
        paces.learn("a", StatusCode::OK, &told(&left("1"), years), now);
        assert!(paces.reserve("a", now, day - FAR).is_err());
        let turns: Vec<Instant> =
            (1..3).map(|_| paces.reserve("a", now, day + 2 * TOLD_MAX).unwrap().at).collect();
        assert_eq!(
            turns.iter().map(|turn| (*turn - now).as_secs()).collect::<Vec<_>>(),
            [86_400, 2 * 86_400]
        );
    }

    #[test]
    fn slowing_down_can_be_turned_off() {
        let (paces, now) = (HostPaces::new(0), Instant::now());
        paces.learn("a", StatusCode::OK, &limits(None, &[(0, 30, Some(10)), (0, 30, None)]), now);
        assert_eq!(paces.reserve("a", now, now), Ok(at_once(now)));
    }
}
