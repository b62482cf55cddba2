//! A denial tells the exact time, whatever stands beside it: denied one
//! microsecond before, let through at that instant, nothing else happening.

use tollgate_core::rule::RuleSpec;
use tollgate_core::{Limit, Micros, Mode, Operation, Time, Verdict};
use tollgate_limiter::Reply;

use crate::support::{START, TestLimiter, limiter, node, rule, shapes, with_request};

/// Two rules of one descriptor, decided together.
struct RetryCase {
    rules: Vec<RuleSpec>,
    /// What each request of the case asks for.
    entries: Vec<(&'static str, &'static str)>,
    /// The gaps between requests, in microseconds; the last request is denied.
    gaps: Vec<u64>,
}

impl RetryCase {
    fn limiter(&self) -> TestLimiter {
        limiter(vec![node("u", self.rules.clone())])
    }

    /// Plays all requests, then one more after `span`; what the last two got.
    fn play(&self, requests: usize, span: Option<Micros>) -> (Reply, Option<Reply>) {
        let limiter = self.limiter();
        let mut now = START;
        let mut last = None;
        for gap in self.gaps.iter().take(requests) {
            now = now + Micros::new(*gap);
            last = Some(self.ask(&limiter, now));
        }
        let again = span.map(|span| self.ask(&limiter, now + span));
        (last.unwrap(), again)
    }

    fn ask(&self, limiter: &TestLimiter, now: Time) -> Reply {
        with_request(&self.entries, |request| limiter.operate(request, Operation::Check, now).at_once())
    }

    /// Holds every denial of the case to its promise; how many there were.
    fn check(&self) -> usize {
        let mut denials = 0;
        for requests in 1..=self.gaps.len() {
            let (reply, _) = self.play(requests, None);
            let Verdict::Deny { retry_after } = reply.verdict else { continue };
            denials += 1;
            let told = || format!("{:?} {:?} {:?}", self.rules, self.entries, &self.gaps[..requests]);
            let at = |span: Micros| self.play(requests, Some(span)).1.unwrap().verdict;
            let Some(retry_after) = retry_after else {
                let verdict = at(Micros::from_secs(100_000_000));
                assert!(verdict.is_deny(), "told never, and passes: {}", told());
                continue;
            };
            assert!(!at(retry_after).is_deny(), "still denied after {retry_after:?}: {}", told());
            let before = Micros::new(retry_after.get() - 1);
            assert!(at(before).is_deny(), "passes before {retry_after:?}: {}", told());
        }
        denials
    }
}

fn fixed(count: u32, seconds: u64) -> RuleSpec {
    let limit = Limit::new(count, Micros::from_secs(seconds), tollgate_core::Shape::FixedWindow).unwrap();
    rule(&format!("{count} in {seconds} s"), limit.counting_rejected(true), Mode::Enforce)
}

#[test]
fn a_denied_request_that_fills_another_limit_waits_for_that_one() {
    let case = RetryCase {
        rules: vec![fixed(1, 1), fixed(2, 60)],
        entries: vec![("u", "x")],
        gaps: vec![0, 100_000],
    };
    let (denied, _) = case.play(2, None);
    let minute = Micros::new(59_900_000);
    assert_eq!(denied.verdict, Verdict::Deny { retry_after: Some(minute) });
    assert_eq!(case.check(), 1);
}

#[test]
fn charges_that_share_a_counter_wait_until_all_of_them_fit() {
    let log =
        |count| rule("log", crate::support::limit(count, tollgate_core::Shape::SlidingLog), Mode::Enforce);
    let thrice = vec![("u", "x"); 3];
    let never = RetryCase { rules: vec![log(2)], entries: thrice.clone(), gaps: vec![0, 1_000_000] };
    let (denied, _) = never.play(1, None);
    assert_eq!(denied.verdict, Verdict::Deny { retry_after: None }, "three never fit into two");
    assert_eq!(never.check(), 2);
    let later = RetryCase { rules: vec![log(4)], entries: thrice, gaps: vec![0, 5_000_000] };
    assert_eq!(later.check(), 1);
}

/// In a request of 21 charges equal keys are found by their hashes, in a shorter one by comparing them.
#[test]
fn charges_of_one_counter_are_found_wherever_they_stand_in_a_long_request() {
    const OTHERS: [&str; 18] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"];
    let log = crate::support::limit(4, tollgate_core::Shape::SlidingLog);
    for others in [3, OTHERS.len()] {
        let mut values = OTHERS[..others].to_vec();
        for at in [0, 2, others] {
            values.insert(at, "x");
        }
        let entries = values.into_iter().map(|value| ("u", value)).collect();
        let case =
            RetryCase { rules: vec![rule("log", log, Mode::Enforce)], entries, gaps: vec![0, 5_000_000] };
        assert_eq!(case.check(), 1, "beside {others} others");
    }
}

/// Every pair of algorithms, with and without counting what is rejected, one
/// descriptor or several on one counter, at random times.
#[test]
fn every_denial_is_exact_whatever_stands_beside_it() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut denials = 0;
    for first in shapes(3) {
        for second in shapes(5) {
            for counting in 0..4_u8 {
                let of = |count: u32, seconds: u64, shape, counts: bool| {
                    let limit = Limit::new(count, Micros::from_secs(seconds), shape).unwrap();
                    rule(&format!("{shape:?}"), limit.counting_rejected(counts), Mode::Enforce)
                };
                let short = of(3, 10, first, counting & 1 != 0);
                let long = of(5, 60, second, counting & 2 != 0);
                for width in 1..=3 {
                    let case = RetryCase {
                        rules: vec![short.clone(), long.clone()],
                        entries: vec![("u", "x"); width],
                        gaps: (0..6).map(|_| random(8_000_000)).collect(),
                    };
                    denials += case.check();
                }
            }
        }
    }
    assert!(denials > 1_000, "{denials}");
}
