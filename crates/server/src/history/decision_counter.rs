//! Decisions become counts.
//!
//! Called on the path of every decision: it adds to counts of the thread's own and
//! never waits. The name of a key is put together only when it is met for the first time
//! since a flush. Refunds and peeks are not counted; reports are.

use std::borrow::Cow;
use std::hash::Hasher;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tollgate_core::{Entry, Time};
use tollgate_history::query::KeyName;
use tollgate_history::route::normalise;
use tollgate_history::{
    DecisionCount, Flush, InstanceId, KeyText, KeyedDecision, Label, Outcome, Recorder, RecorderBatch,
    RequestCount, RuleName,
};
use tollgate_http::PathTemplates;
use tollgate_http::request::mapping::MISSING;
use tollgate_limiter::{Event, EventBatch, EventSink, LimitEvent};
use tollgate_metrics::EventOutcomes;
use tollgate_settings::{HiddenKeys, KeyNames, Secret};

use super::pseudonyms;
use super::routes::RouteResolver;

/// Counts decisions of this process.
#[derive(Debug)]
pub struct DecisionCounter {
    recorder: Recorder,
    routes: RouteResolver,
    keys: KeyNames,
    hidden: ArcSwap<Vec<HiddenKeys>>,
    /// How often `hidden` was replaced: what was named before is named anew.
    hidden_version: AtomicU64,
    /// What is mixed into hashes.
    salt: Secret,
}

impl DecisionCounter {
    /// Counts as settings say.
    pub fn new(settings: &tollgate_settings::HistorySettings) -> Self {
        Self {
            recorder: Recorder::new(InstanceId::random(), settings.caps),
            routes: RouteResolver::new(settings.route_keys.clone(), settings.templates.clone()),
            keys: settings.keys,
            hidden: ArcSwap::from_pointee(settings.hidden.clone()),
            hidden_version: AtomicU64::new(0),
            salt: settings.salt.clone(),
        }
    }

    /// Hides these from now on.
    pub fn hide(&self, hidden: Vec<HiddenKeys>) {
        self.hidden.store(Arc::new(hidden));
        self.hidden_version.fetch_add(1, Ordering::Release);
    }

    /// Hides these, too.
    pub fn hide_also(&self, hidden: &[HiddenKeys]) {
        self.hide(self.hidden.load().iter().chain(hidden).cloned().collect());
    }

    /// What was counted since the last flush.
    pub(super) fn flush(&self, now: Time) -> Flush {
        self.hashed(self.recorder.flush(now))
    }

    /// What the next flush will have, as of a moment ago.
    pub(super) fn peek(&self, now: Time) -> Flush {
        self.hashed(self.recorder.peek(now))
    }

    /// What stands for a key as it is shown at this time.
    #[inline]
    fn shown_number(&self, key: NonZeroU64) -> u64 {
        // Odd, so that no two versions have the same.
        const STEP: u64 = 0xd1b5_4a32_d192_ed03;
        key.get().wrapping_add(self.hidden_version.load(Ordering::Acquire).wrapping_mul(STEP))
    }

    /// How the names of keys are kept.
    pub(crate) const fn key_names(&self) -> KeyNames {
        self.keys
    }

    /// The name of a key as the history has it; none if it has no names.
    pub(crate) fn shown_key(&self, domain: &str, entries: &[Entry<'_>]) -> Option<String> {
        let mut name = String::new();
        EntriesKey { counter: self, domain, entries, number: None }.write(&mut name);
        match self.keys {
            KeyNames::Clear => Some(pseudonyms::hashed(&name, self.salt.expose())),
            KeyNames::Hashed => Some(Label::hashed(&name, self.salt.expose())),
            KeyNames::Off => None,
        }
    }

    /// The name of a key, to be found however it is kept.
    pub(super) fn key_name(&self, key: &str) -> KeyName {
        KeyName::new(key, self.salt.expose())
    }

    fn hashed(&self, mut flush: Flush) -> Flush {
        let salt = self.salt.expose();
        match self.keys {
            KeyNames::Hashed => flush.counts.rename_keys(|_| true, |name| Label::hashed(name, salt)),
            KeyNames::Clear => {
                flush.counts.rename_keys(pseudonyms::has_hidden, |name| pseudonyms::hashed(name, salt));
            }
            KeyNames::Off => {}
        }
        flush
    }

    /// How many names have a series of their own.
    pub(super) fn tracked(&self) -> usize {
        self.recorder.tracked()
    }

    /// The route of a path: the first template that matches, of the settings or else of
    /// the mapping, or else the path itself.
    pub fn route_of<'a>(&'a self, path: &'a [u8], mapped: Option<&'a PathTemplates>) -> Cow<'a, str> {
        let by_template = self.routes.templates.matched(path);
        if let Some(template) = by_template.or_else(|| mapped?.matched(path)) {
            return Cow::Borrowed(template);
        }
        match std::str::from_utf8(path) {
            // No template matches it.
            Ok(path) => normalise(path),
            Err(_) => Cow::Owned(self.routes.of_path(&String::from_utf8_lossy(path)).into_owned()),
        }
    }

    /// Counts a request that no limit applies to.
    pub fn passed(&self, route: &str, now: Time) {
        self.recorder.request(&RequestCount { route: Some(route), outcome: Outcome::Allowed, count: 1 }, now);
    }
}

impl DecisionCounter {
    /// Counts a request that a level denied, so that no rule was asked.
    pub fn denied(&self, route: &str, now: Time) {
        self.recorder.request(&RequestCount { route: Some(route), outcome: Outcome::Denied, count: 1 }, now);
    }

    /// Counts what a level decided, under the name of its setting and no domain.
    pub fn level(&self, rule: &str, address: Option<&str>, outcome: Outcome, now: Time) {
        let key = address.filter(|_| self.keys != KeyNames::Off);
        let key = key.map(|address| format!("remote_address={address}"));
        let decision = DecisionCount { domain: "", rule, key: key.as_deref(), outcome, count: 1 };
        self.recorder.decision(&decision, now);
    }
}

impl DecisionCounter {
    /// Makes ready to count several in a row.
    #[inline]
    pub(crate) fn start_batch(&self) -> DecisionBatch<'_> {
        DecisionBatch { counter: self, recorder: self.recorder.start_batch() }
    }
}

/// Counts several decisions in a row.
#[derive(Debug)]
pub(crate) struct DecisionBatch<'a> {
    counter: &'a DecisionCounter,
    recorder: RecorderBatch<'a>,
}

impl DecisionBatch<'_> {
    /// Counts an event.
    pub(crate) fn count(&mut self, event: &Event<'_>, outcomes: EventOutcomes) {
        let counter = self.counter;
        let route = event.is_request.then(|| counter.routes.of_request(event.request)).flatten();
        let request =
            outcomes.request.map(|outcome| RequestCount { route: route.as_deref(), outcome, count: 1 });
        let now = event.reply.now;
        let Some(outcome) = outcomes.decision else {
            return self.recorder.record(request.as_ref(), None, now);
        };
        let (domain, rule) = (event.request.domain, event.rule_name());
        if counter.keys == KeyNames::Off {
            let decision = DecisionCount { domain, rule, key: None, outcome, count: 1 };
            return self.recorder.record(request.as_ref(), Some(&decision), now);
        }
        let number = event.decision.and_then(|decision| event.reply.rule_number(decision));
        let rule = RuleName { domain, name: rule, number };
        let number = event.decision.and_then(|decision| decision.key_number);
        let key = EntriesKey { counter, domain, entries: event.entries(), number };
        self.recorder.record_keyed(request.as_ref(), KeyedDecision { rule, key, outcome }, now);
    }

    /// Counts a decision of a limit without rules.
    pub(crate) fn count_limit(&mut self, event: LimitEvent<'_>) {
        let (outcome, now) = (event.reply.outcome, event.reply.now);
        let request = RequestCount { route: None, outcome, count: 1 };
        let (domain, rule) = ("", LimitEvent::RULE_NAME);
        if self.counter.keys == KeyNames::Off {
            let decision = DecisionCount { domain, rule, key: None, outcome, count: 1 };
            return self.recorder.record(Some(&request), Some(&decision), now);
        }
        // The counter has a name and no key. No rule in force has this number.
        let rule = RuleName { domain, name: rule, number: Some(0) };
        let decision = KeyedDecision { rule, key: CounterName(event.name), outcome };
        self.recorder.record_keyed(Some(&request), decision, now);
    }
}

/// By itself, without metrics.
impl EventSink for DecisionCounter {
    fn offer(&self, event: Event<'_>) {
        self.start_batch().offer(event);
    }

    fn offer_limit(&self, event: LimitEvent<'_>) {
        self.start_batch().offer_limit(event);
    }

    fn batch<T>(&self, act: impl FnOnce(&mut dyn EventBatch) -> T) -> T {
        act(&mut self.start_batch())
    }
}

impl EventBatch for DecisionBatch<'_> {
    fn offer(&mut self, event: Event<'_>) {
        self.count(&event, EventOutcomes::of(&event));
    }

    fn offer_limit(&mut self, event: LimitEvent<'_>) {
        self.count_limit(event);
    }

    fn prefetch(&mut self, rule: u64, key: NonZeroU64) -> bool {
        let has_keys = self.counter.keys != KeyNames::Off;
        if has_keys {
            self.recorder.prefetch(rule, self.counter.shown_number(key));
        }
        has_keys
    }
}

/// Stands between texts that are hashed. No text has such a byte.
const TEXT_END: u8 = 0xff;

/// The name of a counter whose limit the caller brought along.
struct CounterName<'a>(&'a str);

impl KeyText for CounterName<'_> {
    #[inline]
    fn identify(&self, hasher: &mut impl Hasher) {
        hasher.write(self.0.as_bytes());
    }

    fn write(&self, text: &mut String) {
        text.push_str(&pseudonyms::plain(self.0));
    }
}

/// The entries of a descriptor, named as `key=value,key=value`.
struct EntriesKey<'a> {
    counter: &'a DecisionCounter,
    domain: &'a str,
    entries: &'a [Entry<'a>],
    /// What the limiter tells them by from others of the same rule, if it does.
    number: Option<NonZeroU64>,
}

impl KeyText for EntriesKey<'_> {
    #[inline]
    fn number(&self) -> Option<u64> {
        Some(self.counter.shown_number(self.number?))
    }

    #[inline]
    fn identify(&self, hasher: &mut impl Hasher) {
        hasher.write_u64(self.counter.hidden_version.load(Ordering::Acquire));
        for text in self.entries.iter().flat_map(|entry| [entry.key, entry.value]) {
            hasher.write(text.as_bytes());
            hasher.write_u8(TEXT_END);
        }
    }

    fn write(&self, text: &mut String) {
        // Where whole names are hashed, there is nothing to read.
        let is_clear = self.counter.keys == KeyNames::Clear;
        let hidden = is_clear.then(|| self.counter.hidden.load());
        let is_hidden = |entry: &Entry<'_>| {
            let is_listed = |hidden: &HiddenKeys| {
                hidden.domain == self.domain && hidden.keys.iter().any(|key| key == entry.key)
            };
            let lists = hidden.as_ref().map(|lists| lists.as_slice()).unwrap_or_default();
            entry.value != MISSING && lists.iter().any(is_listed)
        };
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            pseudonyms::push_text(text, entry.key);
            text.push('=');
            match is_hidden(entry) {
                true => pseudonyms::push_hidden(text, entry.value, self.counter.salt.expose()),
                false => pseudonyms::push_text(text, entry.value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use futures_util::FutureExt as _;
    use tollgate_core::{Descriptor, Operation, Request};
    use tollgate_settings::{Flags, Settings};

    use super::*;
    use crate::service::Service;
    use crate::testing::{self, START};

    const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: { requests_per_unit: 9, unit: hour }
    descriptors: [{ key: c, rate_limit: { requests_per_unit: 9, unit: hour } }]
  - key: ab
    rate_limit: { requests_per_unit: 9, unit: hour }
";

    fn counter() -> DecisionCounter {
        let (settings, _) = Settings::resolve(&Flags::default(), &HashMap::new(), None).unwrap();
        DecisionCounter::new(&settings.history.unwrap())
    }

    fn check(counter: &DecisionCounter, service: &Service, entries: &[(&str, &str)]) {
        let entries: Vec<Entry<'_>> = entries.iter().map(|entry| Entry::from(*entry)).collect();
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("d", &descriptors);
        let reply = service.operate(&request, Operation::Check, START).now_or_never().unwrap().unwrap();
        let (decision, operation) = (reply.decisions.first(), Operation::Check);
        counter.offer(Event { request: &request, reply: &reply, decision, operation, is_request: true });
    }

    /// The names of all keys of a flush.
    fn names(flush: &mut Flush) -> Vec<String> {
        let names = RefCell::new(Vec::new());
        let note = |name: &str| {
            names.borrow_mut().push(name.to_owned());
            false
        };
        flush.counts.rename_keys(note, str::to_owned);
        let mut names = names.into_inner();
        names.sort();
        names
    }

    #[test]
    fn keys_that_run_together_have_names_of_their_own() {
        let (counter, service) = (counter(), testing::service(RULES));
        for entries in [&[("a", "bc")][..], &[("ab", "c")], &[("a", "b"), ("c", "d")], &[("a", "bc")]] {
            check(&counter, &service, entries);
        }
        let mut flush = counter.flush(START);
        assert_eq!(flush.counts.requests(), 4);
        assert_eq!(names(&mut flush), ["a=b,c=d", "a=bc", "ab=c"]);
    }

    #[test]
    fn keys_under_a_pattern_have_names_of_their_own() {
        const PATTERN: &str = "domain: d\ndescriptors:\n  - key: \"user*\"\n    rate_limit: { requests_per_unit: 9, unit: hour }\n";
        let (counter, service) = (counter(), testing::service(PATTERN));
        for key in ["user1", "user2", "user1"] {
            check(&counter, &service, &[(key, "x")]);
        }
        assert_eq!(names(&mut counter.flush(START)), ["user1=x", "user2=x"]);
    }

    /// Rules are read again in the middle of a minute: the number of the rule is another, the key is the same.
    #[test]
    fn rules_that_were_read_again_change_no_name_and_lose_no_count() {
        let (counter, service) = (counter(), testing::service(RULES));
        check(&counter, &service, &[("a", "b")]);
        check(&counter, &service, &[("a", "b")]);
        service.limiter().replace_rules(testing::rule_set(RULES));
        check(&counter, &service, &[("a", "b")]);
        let mut flush = counter.flush(START);
        assert_eq!((flush.counts.requests(), names(&mut flush)), (3, vec!["a=b".to_owned()]));
    }

    /// A key is known by its number and by its entries, and its rule by its number and by its text, as one thing or
    /// another was found out; and a line of memory may have been fetched for it.
    #[test]
    fn however_a_key_is_known_it_has_one_name() {
        let (counter, service) = (counter(), testing::service(RULES));
        let entries = [Entry::from(("a", "b"))];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("d", &descriptors);
        let reply = service.operate(&request, Operation::Check, START).now_or_never().unwrap().unwrap();
        let known = *reply.decisions.first().unwrap();
        let mut batch = counter.start_batch();
        assert!(batch.prefetch(reply.rule_number(&known).unwrap(), known.key_number.unwrap()));
        let (mut by_entries, mut by_text) = (known, known);
        by_entries.key_number = None;
        (by_text.key_number, by_text.rule) = (None, None);
        for decision in [known, by_entries, by_text, known] {
            let (operation, decision) = (Operation::Check, Some(&decision));
            batch.offer(Event { request: &request, reply: &reply, decision, operation, is_request: true });
        }
        drop(batch);
        let mut flush = counter.flush(START);
        assert_eq!(flush.counts.requests(), 4);
        // One of the rule, and one of a limit without a rule.
        assert_eq!(names(&mut flush), ["a=b", "a=b"]);
    }

    #[test]
    fn what_is_hidden_is_hidden_from_then_on_and_on_other_pages_too() {
        let (counter, service) = (counter(), testing::service(RULES));
        let (entry, hash) = (Entry::from(("a", "secret")), format!("a={}", Label::hashed("secret", "")));
        check(&counter, &service, &[("a", "secret")]);
        assert_eq!(counter.shown_key("d", &[entry]).as_deref(), Some("a=secret"));
        counter.hide(vec![HiddenKeys { domain: "d".into(), keys: vec!["a".into()] }]);
        check(&counter, &service, &[("a", "secret")]);
        check(&counter, &service, &[("ab", "secret")]);
        assert_eq!(counter.shown_key("d", &[entry]), Some(hash.clone()));
        let mut expected = vec![hash, "a=secret".to_owned(), "ab=secret".to_owned()];
        expected.sort();
        assert_eq!(names(&mut counter.flush(START)), expected);
    }
}
