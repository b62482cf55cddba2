//! Decisions become counts.
//!
//! Called on the path of every decision: it adds to cells of the thread's own and
//! never waits. A refund and a peek are no traffic; a report is.

use std::borrow::Cow;
use std::cell::RefCell;

use tollgate_core::{Entry, Operation, Time, Verdict};
use tollgate_gateway::Paths;
use tollgate_history::{Circumstances, DecisionCount, Instance, Outcome, Recorder, RequestCount};
use tollgate_limiter::{Event, EventSink, Reply, RuleDecision};

use super::routes::Routes;
use tollgate_settings::KeyNames;

/// The rule that is told where the caller brought the limit, as metrics have it.
const OVERRIDE: &str = "override";
/// The same for limits that come over RESP.
const THROTTLE: &str = "throttle";

/// Counts decisions of this process.
#[derive(Debug)]
pub struct Counting {
    recorder: Recorder,
    routes: Routes,
    names_keys: bool,
    /// Every denial is in the shadow.
    shadow: bool,
}

impl Counting {
    /// Counts as settings say; `shadow` if nothing is enforced at all.
    pub fn new(settings: &tollgate_settings::History, shadow: bool) -> Self {
        Self {
            recorder: Recorder::new(Instance::random(), settings.caps),
            routes: Routes { keys: settings.route_keys.clone(), templates: settings.templates.clone() },
            names_keys: settings.keys != KeyNames::Off,
            shadow,
        }
    }

    /// What was counted since the last time.
    pub(super) const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The route of a path: by the templates of the settings, or by those of a
    /// mapping, or the path itself.
    pub fn route_of<'a>(&'a self, path: &'a [u8], mapped: Option<&'a Paths>) -> Cow<'a, str> {
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

    /// A limit that came over RESP decided about a key.
    pub fn throttled(&self, key: &str, verdict: Verdict, now: Time) {
        let outcome = Outcome::of(verdict, Circumstances { shadow: self.shadow, ..Circumstances::default() });
        let asked = RequestCount { route: None, outcome, count: 1 };
        let key = self.names_keys.then_some(key);
        self.recorder.record(
            Some(&asked),
            Some(&DecisionCount { rule: THROTTLE, key, outcome, count: 1 }),
            now,
        );
    }

    /// What a rule said.
    fn outcome_of_decision(&self, decision: &RuleDecision) -> Outcome {
        let circumstances = Circumstances {
            soft: decision.soft,
            shadow: self.shadow || decision.mode.is_shadow(),
            degraded: decision.degraded,
        };
        Outcome::of(decision.verdict, circumstances)
    }

    /// What became of the request as a whole.
    fn outcome_of(&self, reply: &Reply) -> Outcome {
        let circumstances =
            Circumstances { soft: reply.is_soft(), shadow: self.shadow, degraded: reply.is_degraded() };
        let outcome = Outcome::of(reply.verdict, circumstances);
        let is_shadowed = || reply.decisions.iter().any(RuleDecision::is_shadow_deny);
        if outcome == Outcome::Allowed && is_shadowed() { Outcome::ShadowDenied } else { outcome }
    }
}

impl EventSink for Counting {
    fn offer(&self, event: Event<'_>) {
        let route = event.is_request.then(|| self.routes.of_request(event.request)).flatten();
        let asked = event.is_request.then(|| RequestCount {
            route: route.as_deref(),
            outcome: self.outcome_of(event.reply),
            count: 1,
        });
        let now = event.reply.now;
        let Some(decision) = event.decision.filter(|_| event.operation != Operation::Refund) else {
            return self.recorder.record(asked.as_ref(), None, now);
        };
        let rule = decision.rule.and_then(|id| event.reply.rules().full_name(id)).unwrap_or(OVERRIDE);
        let outcome = self.outcome_of_decision(decision);
        if !self.names_keys {
            let ruled = DecisionCount { rule, key: None, outcome, count: 1 };
            return self.recorder.record(asked.as_ref(), Some(&ruled), now);
        }
        let entries = event.request.descriptors.get(decision.descriptor).map_or(&[][..], |own| own.entries);
        with_key(entries, |key| {
            let ruled = DecisionCount { rule, key: Some(key), outcome, count: 1 };
            self.recorder.record(asked.as_ref(), Some(&ruled), now);
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
            text.push_str(entry.key);
            text.push('=');
            text.push_str(entry.value);
        }
        act(text);
        // One long value must not keep its room for ever.
        text.shrink_to(KEY_BYTES_KEPT);
    });
}

/// Room for a key's text that each thread keeps: more than any usual key has.
const KEY_BYTES_KEPT: usize = 4 << 10;
