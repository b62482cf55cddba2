//! One event per decision.

use std::sync::{Arc, Mutex};

use tollgate_core::{Mode, Shape};
use tollgate_limiter::{Event, EventSink, Limiter, ManualClock, MemoryStore};

use crate::support::{START, limit, node, rule, rules, with_request};

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl EventSink for Seen {
    fn offer(&self, event: Event<'_>) {
        let rule = event.ruling.and_then(|ruling| event.reply.rule(ruling));
        let line = format!(
            "{:?} {} {} {}",
            event.operation,
            event.request.domain,
            rule.map_or("-", |rule| rule.name()),
            event.ruling.map_or("-", |ruling| ruling.decision.verdict.word()),
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
        limiter.check(request);
        limiter.peek(request);
        limiter.check(request);
        limiter.refund(request);
    });
    with_request(&[("nobody", "x")], |request| limiter.check(request));
    let seen = sink.0.lock().unwrap();
    let checks = ["Check d one allow", "Check d two allow", "Check d one deny", "Check d two allow"];
    assert_eq!(seen[..4], checks);
    assert_eq!(seen[4..], ["Refund d one allow", "Refund d two allow", "Check d - -"]);
}
