//! Decisions become counts.
//!
//! Called on the path of every decision: it adds to cells of the thread's own and
//! never waits. A refund and a peek are no traffic; a report is.

use std::borrow::Cow;
use std::cell::RefCell;

use tollgate_core::{Entry, Time};
use tollgate_history::{DecisionCount, Instance, Outcome, Recorder, RequestCount};
use tollgate_http::PathTemplates;
use tollgate_limiter::{Event, EventSink};

use super::routes::Routes;
use tollgate_settings::KeyNames;

/// Counts decisions of this process.
#[derive(Debug)]
pub struct Counting {
    recorder: Recorder,
    routes: Routes,
    names_keys: bool,
}

impl Counting {
    /// Counts as settings say.
    pub fn new(settings: &tollgate_settings::HistorySettings) -> Self {
        Self {
            recorder: Recorder::new(Instance::random(), settings.caps),
            routes: Routes { keys: settings.route_keys.clone(), templates: settings.templates.clone() },
            names_keys: settings.keys != KeyNames::Off,
        }
    }

    /// What was counted since the last time.
    pub(super) const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The route of a path: by the templates of the settings, or by those of a
    /// mapping, or the path itself.
    pub fn route_of<'a>(&'a self, path: &'a [u8], mapped: Option<&'a PathTemplates>) -> Cow<'a, str> {
        let by_template = self.routes.templates.matched(path);
        if let Some(template) = by_template.or_else(|| mapped?.matched(path)) {
            return Cow::Borrowed(template);
        }
        match String::from_utf8_lossy(path) {
            Cow::Borrowed(path) => self.routes.of_path(path),
            Cow::Owned(path) => Cow::Owned(self.routes.of_path(&path).into_owned()),
        }
    }

    /// A request passed without a question to the limiter.
    pub fn passed(&self, route: &str, now: Time) {
        self.recorder.request(&RequestCount { route: Some(route), outcome: Outcome::Allowed, count: 1 }, now);
    }
}

impl EventSink for Counting {
    fn offer(&self, event: Event<'_>) {
        let route = event.is_request.then(|| self.routes.of_request(event.request)).flatten();
        let outcome = event.reply.outcome();
        let request = event.is_request.then(|| RequestCount { route: route.as_deref(), outcome, count: 1 });
        let now = event.reply.now;
        let Some(outcome) = event.outcome() else { return self.recorder.record(request.as_ref(), None, now) };
        let rule = event.rule_name();
        if !self.names_keys {
            let decision = DecisionCount { rule, key: None, outcome, count: 1 };
            return self.recorder.record(request.as_ref(), Some(&decision), now);
        }
        with_key(event.entries(), |key| {
            let decision = DecisionCount { rule, key: Some(key), outcome, count: 1 };
            self.recorder.record(request.as_ref(), Some(&decision), now);
        });
    }
}

/// The entries as `key=value,key=value`, in a text that is used again.
fn with_key(entries: &[Entry<'_>], act: impl FnOnce(&str)) {
    thread_local! {
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    TEXT.with_borrow_mut(|text| {
        text.clear();
        for (place, entry) in entries.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            // The counter of a limit that the caller brings has a name and no key.
            if !entry.key.is_empty() {
                text.push_str(entry.key);
                text.push('=');
            }
            text.push_str(entry.value);
        }
        act(text);
        // One long value must not keep its room for ever.
        text.shrink_to(KEY_BYTES_KEPT);
    });
}

/// Room for a key's text that each thread keeps: more than any usual key has.
const KEY_BYTES_KEPT: usize = 4 << 10;
