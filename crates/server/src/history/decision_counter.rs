//! Decisions become counts.
//!
//! Called on the path of every decision: it adds to counts of the thread's own and
//! never waits. Refunds and peeks are not counted; reports are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_core::{Entry, Time};
use tollgate_history::query::KeyName;
use tollgate_history::route::normalise;
use tollgate_history::{DecisionCount, Flush, InstanceId, Label, Outcome, Recorder, RequestCount};
use tollgate_http::PathTemplates;
use tollgate_http::request::mapping::MISSING;
use tollgate_limiter::{Event, EventSink, LimitEvent};
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
    /// What is mixed into hashes.
    salt: Secret,
}

impl DecisionCounter {
    /// Counts as settings say.
    pub fn new(settings: &tollgate_settings::HistorySettings) -> Self {
        Self {
            recorder: Recorder::new(InstanceId::random(), settings.caps),
            routes: RouteResolver {
                keys: settings.route_keys.clone(),
                templates: settings.templates.clone(),
            },
            keys: settings.keys,
            hidden: ArcSwap::from_pointee(settings.hidden.clone()),
            salt: settings.salt.clone(),
        }
    }

    /// Hides these from now on.
    pub fn hide(&self, hidden: Vec<HiddenKeys>) {
        self.hidden.store(Arc::new(hidden));
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

    /// How the names of keys are kept.
    pub(crate) const fn key_names(&self) -> KeyNames {
        self.keys
    }

    /// The name of a key as the history has it; none if it has no names.
    pub(crate) fn shown_key(&self, domain: &str, entries: &[Entry<'_>]) -> Option<String> {
        let mut shown = None;
        self.with_key(domain, entries, |key| {
            shown = match self.keys {
                KeyNames::Clear => Some(key.to_owned()),
                KeyNames::Hashed => Some(Label::hashed(key, self.salt.expose())),
                KeyNames::Off => None,
            };
        });
        shown
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

impl EventSink for DecisionCounter {
    fn offer(&self, event: Event<'_>) {
        let route = event.is_request.then(|| self.routes.of_request(event.request)).flatten();
        let outcome = event.reply.outcome();
        let request = event.is_request.then_some(RequestCount { route: route.as_deref(), outcome, count: 1 });
        let now = event.reply.now;
        let Some(outcome) = event.outcome() else { return self.recorder.record(request.as_ref(), None, now) };
        let (domain, rule) = (event.request.domain, event.rule_name());
        if self.keys == KeyNames::Off {
            let decision = DecisionCount { domain, rule, key: None, outcome, count: 1 };
            return self.recorder.record(request.as_ref(), Some(&decision), now);
        }
        self.with_key(event.request.domain, event.entries(), |key| {
            let decision = DecisionCount { domain, rule, key: Some(key), outcome, count: 1 };
            self.recorder.record(request.as_ref(), Some(&decision), now);
        });
    }

    fn offer_limit(&self, event: LimitEvent<'_>) {
        let (outcome, now) = (event.reply.outcome, event.reply.now);
        let request = RequestCount { route: None, outcome, count: 1 };
        // The counter has a name and no key.
        let key = Some(event.name).filter(|_| self.keys != KeyNames::Off).map(pseudonyms::plain);
        let key = key.as_deref();
        let decision = DecisionCount { domain: "", rule: LimitEvent::RULE_NAME, key, outcome, count: 1 };
        self.recorder.record(Some(&request), Some(&decision), now);
    }
}

impl DecisionCounter {
    /// The entries as `key=value,key=value`, in a buffer that is reused.
    fn with_key(&self, domain: &str, entries: &[Entry<'_>], act: impl FnOnce(&str)) {
        thread_local! {
            static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
        }
        TEXT.with_borrow_mut(|text| {
            self.write_key(text, domain, entries);
            act(text);
            // One long value must not keep its memory for ever.
            text.shrink_to(KEY_BYTES_KEPT);
        });
    }
}

impl DecisionCounter {
    fn write_key(&self, text: &mut String, domain: &str, entries: &[Entry<'_>]) {
        // Where whole names are hashed, there is nothing to read.
        let hidden = (self.keys == KeyNames::Clear).then(|| self.hidden.load());
        let is_hidden = |entry: &Entry<'_>| {
            let is_listed = |hidden: &HiddenKeys| {
                hidden.domain == domain && hidden.keys.iter().any(|key| key == entry.key)
            };
            let lists = hidden.as_ref().map(|lists| lists.as_slice()).unwrap_or_default();
            entry.value != MISSING && lists.iter().any(is_listed)
        };
        text.clear();
        let mut marks = 0;
        for entry in entries {
            pseudonyms::push_separator(text);
            text.push_str(entry.key);
            text.push('=');
            marks += pseudonyms::push_value(text, entry.value, is_hidden(entry));
        }
        // Nearly nobody sends marks, so that they are looked for once.
        if pseudonyms::marks_in(text) != marks {
            text.clear();
            for entry in entries {
                pseudonyms::push_separator(text);
                pseudonyms::push_text(text, entry.key);
                text.push('=');
                match is_hidden(entry) {
                    true => pseudonyms::push_hidden(text, entry.value, self.salt.expose()),
                    false => pseudonyms::push_text(text, entry.value),
                }
            }
        }
    }
}

/// Bytes of the buffer that each thread keeps: more than any usual key has.
const KEY_BYTES_KEPT: usize = 4 << 10;
