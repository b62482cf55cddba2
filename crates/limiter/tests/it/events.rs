//! One event per decision.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tollgate_core::rule::DescriptorSpec;
use tollgate_core::{Descriptor, Entry, Mode, Request, Shape};
use tollgate_limiter::{Event, EventBatch, EventSink, LimitEvent, Limiter, ManualClock, MemoryStore};

use crate::support::{START, limit, node, rule, rules, with_request};

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl EventSink for Seen {
    fn offer(&self, event: Event<'_>) {
        let rule = event.decision.and_then(|decision| event.reply.rule(decision));
        let line = format!(
            "{:?} {} {} {}",
            event.operation,
            event.request.domain,
            rule.map_or("-", |rule| rule.name()),
            event.decision.map_or("-", |decision| decision.verdict.word()),
        );
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn every_decision_is_offered_once_a_request_without_rules_too_and_a_peek_never() {
    let fixed = |count| limit(count, Shape::FixedWindow);
    let limits = vec![rule("one", fixed(1), Mode::Enforce), rule("two", fixed(2), Mode::Enforce)];
    let sink = Arc::new(Seen::default());
    let limiter = Limiter::with(
        rules(vec![node("user", limits)]),
        MemoryStore::default(),
        ManualClock::at(START),
        Arc::clone(&sink),
    );
    with_request(&[("user", "42")], |request| {
        limiter.check(request).at_once();
        limiter.peek(request).at_once();
        limiter.check(request).at_once();
        limiter.refund(request).at_once();
    });
    with_request(&[("nobody", "x")], |request| limiter.check(request).at_once());
    let seen = sink.0.lock().unwrap();
    let checks = ["Check d one allow", "Check d two allow", "Check d one deny", "Check d two allow"];
    assert_eq!(seen[..4], checks);
    assert_eq!(seen[4..], ["Refund d one allow", "Refund d two allow", "Check d - -"]);
}

/// What was done, and whether the request is counted with it.
#[derive(Default)]
struct Done(Mutex<Vec<String>>);

impl EventSink for Done {
    fn offer(&self, event: Event<'_>) {
        let counted = if event.is_request { " request" } else { "" };
        let cost = event.decision.map_or(0, |decision| decision.cost);
        self.0.lock().unwrap().push(format!("{:?} {cost}{counted}", event.operation));
    }
}

#[test]
fn an_event_says_what_was_done_and_a_request_is_counted_once() {
    let limits = vec![rule("ten", limit(10, Shape::FixedWindow), Mode::Enforce)];
    let sink = Arc::new(Done::default());
    let limiter = Limiter::with(
        rules(vec![node("user", limits)]),
        MemoryStore::default(),
        ManualClock::at(START),
        Arc::clone(&sink),
    );
    let entries = [Entry::from(("user", "42"))];
    let one = Descriptor::new(&entries);
    let (refund, peek, two) = (one.as_refund(), one.with_cost(0), one.with_cost(2));
    let nobody = [Entry::from(("nobody", "x"))];
    let done = |limiter: &dyn Fn()| {
        limiter();
        std::mem::take(&mut *sink.0.lock().unwrap())
    };
    let check = |descriptors: &[Descriptor<'_>]| {
        done(&|| drop(limiter.check(&Request::new("d", descriptors)).at_once()))
    };
    assert_eq!(check(&[peek]), [""; 0]);
    assert_eq!(check(&[peek, refund, one, two]), ["Refund 1", "Check 1 request", "Check 2"]);
    assert_eq!(check(&[refund]), ["Refund 1"]);
    assert_eq!(check(&[Descriptor::new(&nobody).as_refund()]), ["Refund 0"]);
    assert_eq!(check(&[Descriptor::new(&nobody)]), ["Check 0 request"]);
    let asked = [two];
    let request = Request::new("d", &asked);
    assert_eq!(done(&|| drop(limiter.refund(&request).at_once())), ["Refund 2"]);
    assert_eq!(done(&|| drop(limiter.report(&request).at_once())), ["Report 2 request"]);
}

#[test]
fn a_check_of_cost_0_is_counted_only_where_a_postpaid_limit_denies_it() {
    let tokens = rule("tokens", limit(1, Shape::SlidingLog).with_postpaid(true), Mode::Enforce);
    let sink = Arc::new(Done::default());
    let limiter = Limiter::with(
        rules(vec![node("user", vec![tokens])]),
        MemoryStore::default(),
        ManualClock::at(START),
        Arc::clone(&sink),
    );
    with_request(&[("user", "42")], |request| {
        for cost in [0, 5, 0] {
            limiter.check(&request.with_cost(cost)).at_once();
        }
    });
    assert_eq!(*sink.0.lock().unwrap(), ["Check 5 request", "Check 0 request"]);
}

/// The keys that something was prefetched for, and those of the events.
#[derive(Default)]
struct KeyNumbers {
    prefetched: Mutex<Vec<(u64, NonZeroU64)>>,
    offered: Mutex<Vec<(Option<u64>, Option<NonZeroU64>)>>,
    batches: AtomicU64,
}

impl EventSink for KeyNumbers {
    fn offer(&self, event: Event<'_>) {
        let decision = event.decision.unwrap();
        let (rule, key) = (event.reply.rule_number(decision), decision.key_number);
        let is_prefetched = rule.zip(key).is_none_or(|key| self.prefetched.lock().unwrap().contains(&key));
        assert!(is_prefetched, "{rule:?} {key:?}");
        self.offered.lock().unwrap().push((rule, key));
    }

    fn batch<T>(&self, act: impl FnOnce(&mut dyn EventBatch) -> T) -> T {
        self.batches.fetch_add(1, Ordering::Relaxed);
        act(&mut NumberBatch(self))
    }
}

struct NumberBatch<'a>(&'a KeyNumbers);

impl EventBatch for NumberBatch<'_> {
    fn offer(&mut self, event: Event<'_>) {
        self.0.offer(event);
    }

    fn offer_limit(&mut self, event: LimitEvent<'_>) {
        self.0.offer_limit(event);
    }

    fn prefetch(&mut self, rule: u64, key: NonZeroU64) -> bool {
        self.0.prefetched.lock().unwrap().push((rule, key));
        true
    }
}

/// One by one and together; values of their own have keys of their own, and what shares one has no number.
#[test]
fn what_an_event_needs_is_prefetched_and_every_value_has_a_number() {
    let by = |key: &str, value: Option<&str>| DescriptorSpec {
        value: value.map(str::to_owned),
        ..node(key, vec![rule(&format!("{key} {value:?}"), limit(9, Shape::FixedWindow), Mode::Enforce)])
    };
    let both = vec![
        rule("one", limit(9, Shape::FixedWindow), Mode::Enforce),
        rule("two", limit(9, Shape::SlidingLog), Mode::Enforce),
    ];
    let shared = DescriptorSpec { share_threshold: true, ..by("file", Some("*.pdf")) };
    let specs = || {
        let user = [by("user", None), by("user", Some("root")), by("ip", None), node("both", both.clone())];
        user.into_iter().chain([shared.clone()]).collect()
    };
    let sink = Arc::new(KeyNumbers::default());
    let limiter =
        Limiter::with(rules(specs()), MemoryStore::default(), ManualClock::at(START), Arc::clone(&sink));
    let known = [("user", "a"), ("user", "b"), ("user", "a"), ("ip", "a"), ("user", "root"), ("both", "a")];
    // All but the first ask for a key and a value by their text, with other keys than the rule has.
    let numberless = [("file", "a.pdf"), ("file_*.pdf", "x"), ("file_*.pdf", "y"), ("user_root", "x")];
    let asked = [&known[..], &numberless].concat();
    let entries: Vec<_> = asked.into_iter().map(|entry| [Entry::from(entry)]).collect();
    let descriptors: Vec<_> = entries.iter().map(|entries| [Descriptor::new(entries)]).collect();
    let requests: Vec<_> = descriptors.iter().map(|own| Request::new("d", own)).collect();
    let take = || {
        let offered = std::mem::take(&mut *sink.offered.lock().unwrap());
        (std::mem::take(&mut *sink.prefetched.lock().unwrap()), offered)
    };
    requests.iter().for_each(|request| drop(limiter.check(request).at_once()));
    let (prefetched, offered) = take();
    let [(rule, a), (_, b), again, (other_rule, ip), root, one, two] = prefetched[..] else {
        panic!("{prefetched:?}")
    };
    assert_eq!(again, (rule, a));
    let all: HashSet<NonZeroU64> = [a, b, ip, root.1, one.1, two.1].into();
    assert!(rule != other_rule && all.len() == 6, "{prefetched:?}");
    let numbers: Vec<_> = prefetched.iter().map(|(rule, key)| (Some(*rule), Some(*key))).collect();
    assert_eq!(offered[..7], numbers);
    assert!(offered.len() == 11 && offered[7..].iter().all(|(rule, key)| rule.is_some() && key.is_none()));
    assert_eq!(sink.batches.swap(0, Ordering::Relaxed), 10, "a batch for each request");
    limiter.check_batch_at_once(&requests, START, |_, _| ());
    let (prefetched_together, offered_together) = take();
    assert_eq!(offered_together, offered);
    assert_eq!(prefetched_together.iter().collect::<HashSet<_>>(), prefetched.iter().collect());
    assert_eq!(sink.batches.load(Ordering::Relaxed), 1, "and one for all");
    // Rules that were read again have other numbers, and the same keys.
    limiter.replace_rules(rules(specs()));
    limiter.check(&requests[0]).at_once();
    let (reloaded, _) = take();
    let [(reloaded_rule, reloaded_a)] = reloaded[..] else { panic!("{reloaded:?}") };
    assert!(reloaded_a == a && reloaded_rule != rule);
}
