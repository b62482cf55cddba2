//! Logs of all kinds of gaps and costs come back as they were, and take what the page says.

use super::*;

/// Numbers that look random and are the same in every run.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn head(gaps: &[(u64, u64)], first: u64, last_cost: u64) -> LogHead {
    let last = first + gaps.iter().map(|(gap, _)| gap).sum::<u64>();
    let total = last_cost + gaps.iter().map(|(_, cost)| cost).sum::<u64>();
    LogHead { deadline: Time::new(last + 77), first, last, last_cost, total }
}

/// Some gaps and costs, from all equal to all sizes there are.
fn gaps(seed: &mut u64) -> Vec<(u64, u64)> {
    let (count, gap_bits, cost_bits) = (random(seed) % 60, random(seed) % 45, random(seed) % 36);
    let up_to = |bits: u64, seed: &mut u64| {
        1 + (random(seed) << 31 | random(seed)) % (1 << (random(seed) % (bits + 1)))
    };
    (0..count).map(|_| (up_to(gap_bits, seed), up_to(cost_bits * (count % 3) / 2, seed))).collect()
}

#[test]
fn entries_come_back_as_they_were() {
    let mut seed = 1;
    for _ in 0..2_000 {
        let gaps = gaps(&mut seed);
        let head = head(&gaps, random(&mut seed), 1 + random(&mut seed) % 9);
        let log = Log::new(head, gaps.iter().copied());
        assert_eq!(log.parts().0, head);
        assert_eq!(log.parts().1.collect::<Vec<_>>(), gaps);
        assert_eq!(log.deadline(), head.deadline);
        assert_eq!(Log::of_entries(&log.entries().collect::<Vec<_>>(), head.deadline), Some(log));
    }
}

#[test]
fn a_log_that_grows_and_forgets_equals_one_that_is_built_anew() {
    let mut seed = 2;
    for _ in 0..200 {
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut log = Log::new(head(&[], 5, 1), std::iter::empty());
        for entry in gaps(&mut seed) {
            let dropped = usize::try_from(random(&mut seed) % 3).unwrap().min(all.len());
            let ((before, mut rest), last_cost) = (log.parts(), 1 + random(&mut seed) % 2);
            let first = before.first + rest.by_ref().take(dropped).map(|(gap, _)| gap).sum::<u64>();
            all.drain(..dropped);
            all.push((entry.0, before.last_cost));
            let head = head(&all, first, last_cost);
            log = Log::with_gap(head, rest, Some((entry.0, before.last_cost)));
            assert_eq!(log, Log::new(head, all.iter().copied()));
            assert_eq!(log.parts().1.collect::<Vec<_>>(), all);
        }
    }
}

#[test]
fn equal_is_what_has_equal_entries() {
    let gaps = [(3, 1), (9, 1)];
    let log = Log::new(head(&gaps, 5, 1), gaps.into_iter());
    assert_ne!(log, Log::new(head(&gaps, 6, 1), gaps.into_iter()));
    assert_ne!(log, Log::new(head(&gaps, 5, 1), [(4, 1), (8, 1)].into_iter()));
}

#[test]
fn a_full_log_takes_24_to_26_bits_a_request_however_they_are_spread() {
    let hour = 3_600_000_000;
    let mut seed = 3;
    let uniform: Vec<u64> = (0..500).map(|_| (random(&mut seed) << 31 | random(&mut seed)) % hour).collect();
    let even = (0..500).map(|n| n * hour / 500).collect();
    let in_one_second = (0..499).map(|n| n * 2_000).chain([hour - 1]).collect();
    for (most, mut times) in [(1_560, uniform), (1_550, even), (1_590, in_one_second)] {
        times.sort_unstable();
        let entries: Vec<(u64, u64)> = times.into_iter().map(|at| (at + (1 << 50), 1)).collect();
        let log = Log::of_entries(&entries, Time::new((1 << 50) + 2 * hour)).unwrap();
        assert!(log.heap_bytes() <= most, "{} bytes", log.heap_bytes());
    }
}

#[test]
fn the_sub_windows_of_500_an_hour_take_a_byte_each() {
    let entries: Vec<(u64, u64)> = (0..61).map(|n| (30_000_000 + n, 8 + n % 2)).collect();
    let log = Log::of_entries(&entries, Time::new(1_800_000_000_000_000)).unwrap();
    assert!(log.heap_bytes() <= 84, "{} bytes", log.heap_bytes());
}
