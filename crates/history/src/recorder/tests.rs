//! What is counted is flushed: once, whoever counts, whatever the clock does.

use std::sync::Arc;

use super::*;
use crate::bytes::wide;
use crate::counts::Counts;

const NOW: Time = Time::from_secs(1_800_000_000);

fn total(flush: &Flush, label: &Label) -> u64 {
    flush.counts.minutes.values().filter_map(|counts| counts.get(label)).map(Counts::total).sum()
}

fn request(route: &str) -> RequestCount<'_> {
    RequestCount { route: Some(route), outcome: Outcome::Allowed, count: 1 }
}

#[test]
fn a_flush_has_what_came_since_the_last_under_the_next_number() {
    let recorder = Recorder::new(InstanceId([1; 16]), Caps::default());
    recorder.request(&request("/a"), NOW);
    recorder.request(&RequestCount { route: None, outcome: Outcome::Denied, count: 3 }, NOW);
    recorder.decision(
        &DecisionCount { domain: "d", rule: "r", key: Some("k"), outcome: Outcome::Denied, count: 2 },
        NOW,
    );
    recorder.decision(
        &DecisionCount { domain: "d", rule: "r", key: None, outcome: Outcome::Allowed, count: 1 },
        NOW,
    );
    let flush = recorder.flush(NOW);
    assert_eq!(flush.id, FlushId { instance: InstanceId([1; 16]), seq: 1 });
    let expected = [
        (Label::Requests, 4),
        (Label::Route("/a".into()), 1),
        (Label::Decisions, 3),
        (Label::Rule { domain: "d".into(), name: "r".into() }, 3),
        (Label::Key { domain: "d".into(), rule: "r".into(), name: "k".into() }, 2),
    ];
    for (label, count) in expected {
        assert_eq!(total(&flush, &label), count, "{label:?}");
    }
    let next = recorder.flush(NOW);
    assert_eq!((next.id.seq, total(&next, &Label::Requests)), (2, 0));
    assert_eq!(next.counts.minutes().count(), 1, "an idle process says that it was there");
}

#[test]
fn a_peek_has_what_the_next_flush_has_and_takes_nothing() {
    let recorder = Recorder::new(InstanceId([1; 16]), Caps::default());
    for count in 1..=3 {
        recorder.request(&request("/a"), NOW);
        let peek = recorder.peek(NOW + Micros::from_secs(count));
        assert_eq!((peek.id.seq, total(&peek, &Label::Route("/a".into()))), (1, count));
    }
    let flush = recorder.flush(NOW);
    assert_eq!((flush.id.seq, total(&flush, &Label::Requests)), (1, 3));
    let next = recorder.peek(NOW + Micros::from_secs(9));
    assert_eq!((next.id.seq, total(&next, &Label::Requests)), (2, 0));
}

#[test]
fn counts_stay_in_their_minute_when_the_clock_steps() {
    let recorder = Recorder::new(InstanceId([1; 16]), Caps::default());
    let minutes = [30_000_000_u32, 30_000_001, 29_999_999, 30_000_000];
    for minute in minutes {
        recorder.request(&request("/a"), Time::from_secs(u64::from(minute) * 60 + 59));
    }
    let flush = recorder.flush(Time::from_secs(30_000_001 * 60));
    let by_minute: Vec<(u32, u64)> = flush
        .counts
        .minutes
        .iter()
        .map(|(minute, counts)| (*minute, counts[&Label::Requests].total()))
        .collect();
    assert_eq!(by_minute, [(29_999_999, 1), (30_000_000, 2), (30_000_001, 1)]);
}

#[test]
fn a_clock_gone_mad_loses_nothing() {
    let recorder = Recorder::new(InstanceId([1; 16]), Caps::default());
    for minute in 0..1_000 {
        recorder.request(&request("/a"), Time::from_secs(minute * 60));
        recorder.decision(
            &DecisionCount { domain: "d", rule: "r", key: None, outcome: Outcome::Soft, count: 1 },
            NOW,
        );
    }
    let flush = recorder.flush(NOW);
    assert_eq!(total(&flush, &Label::Requests), 1_000);
    assert_eq!(total(&flush, &Label::Decisions), 1_000);
}

#[test]
fn threads_and_flushes_at_once_lose_nothing_and_count_nothing_twice() {
    const THREADS: usize = 24;
    const EACH: u64 = 20_000;
    let recorder = Arc::new(Recorder::new(InstanceId([1; 16]), Caps::default()));
    let (mut requests, mut routes) = (0, 0);
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let recorder = &recorder;
                scope.spawn(move || {
                    let route = format!("/{}", thread % 5);
                    (0..EACH).for_each(|_| recorder.request(&request(&route), NOW));
                })
            })
            .collect();
        let mut is_running = true;
        while is_running {
            is_running = adders.iter().any(|adder| !adder.is_finished());
            let flush = recorder.flush(NOW);
            requests += total(&flush, &Label::Requests);
            routes += (0..5).map(|n| total(&flush, &Label::Route(format!("/{n}").into()))).sum::<u64>();
        }
    });
    assert_eq!(requests, wide(THREADS) * EACH);
    assert!(routes <= requests);
}
