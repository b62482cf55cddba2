//! One key's story: what it asked for, when, and what became of it.
//!
//! Invariant: bounded: so many episodes, routes and rules as the constants say, however long the log.

use tollgate_core::{Micros, Time, Verdict};
use tollgate_limiter::{Reply, RuleDecision};

use crate::batch::LoggedRequest;
use crate::curve::{Curve, CurveCounts};
use crate::ledger::{Tally, TallyTable, route_rows};
use crate::report::{Episode, KeyStory, RuleNames};

/// Keys that one text may mean.
const STORIES_MAX: usize = 16;
/// Episodes that are told in full.
const EPISODES_MAX: usize = 20;
/// Routes that are told apart.
const ROUTES_MAX: usize = 10_000;
/// Denials further apart than this are two episodes.
const EPISODE_GAP: Micros = Micros::from_secs(60);

/// The stories of the keys that somebody asked for.
#[derive(Debug)]
pub(crate) struct Stories {
    wanted: String,
    stories: Vec<Story>,
}

/// One key under one rule.
#[derive(Debug)]
struct Story {
    rule: usize,
    key: String,
    tally: Tally,
    soft: u64,
    already_429: u64,
    from: Time,
    to: Time,
    /// The most that was taken at once, and of how much.
    peak: (u64, u64),
    longest_wait: Micros,
    episodes: Vec<Episode>,
    episode_count: u64,
    last_denied: Option<Time>,
    routes: TallyTable,
    curve: Curve,
}

impl Stories {
    /// Of `key=value,key=value`, or of all keys with this value.
    pub(crate) fn new(wanted: &str) -> Self {
        Self { wanted: wanted.to_owned(), stories: Vec::new() }
    }

    pub(crate) fn note(&mut self, request: &LoggedRequest<'_>, reply: &Reply) {
        for decision in &reply.decisions {
            let key = request.key(decision.descriptor).text;
            let Some(rule) = decision.rule.map(tollgate_core::RuleId::index) else { continue };
            if !self.is_wanted(request, decision.descriptor, key) {
                continue;
            }
            let known = self.stories.iter().position(|story| story.rule == rule && story.key == key);
            let index = known.unwrap_or_else(|| {
                if self.stories.len() < STORIES_MAX {
                    self.stories.push(Story::new(rule, key, request.time));
                }
                self.stories.len() - 1
            });
            // Beyond the bound the last one is some other key's.
            if let Some(story) = self.stories.get_mut(index).filter(|story| story.key == key) {
                story.note(request, decision);
            }
        }
    }

    fn is_wanted(&self, request: &LoggedRequest<'_>, descriptor: usize, key: &str) -> bool {
        let has_value = || {
            let entries = request.request.descriptors.get(descriptor).map(|descriptor| descriptor.entries);
            entries.unwrap_or_default().iter().any(|entry| entry.value == self.wanted)
        };
        key == self.wanted || has_value()
    }

    pub(crate) fn report(&self, names: impl Fn(usize) -> RuleNames, rows: usize) -> Vec<KeyStory> {
        self.stories.iter().map(|story| story.report(names(story.rule), rows)).collect()
    }
}

impl Story {
    fn new(rule: usize, key: &str, time: Time) -> Self {
        Self {
            rule,
            key: key.to_owned(),
            tally: Tally::default(),
            soft: 0,
            already_429: 0,
            from: time,
            to: time,
            peak: (0, 0),
            longest_wait: Micros::ZERO,
            episodes: Vec::new(),
            episode_count: 0,
            last_denied: None,
            routes: TallyTable::new(ROUTES_MAX),
            curve: Curve::default(),
        }
    }

    fn note(&mut self, request: &LoggedRequest<'_>, decision: &RuleDecision) {
        let time = request.time;
        self.to = time;
        self.tally.count(decision.verdict);
        self.soft += u64::from(decision.soft);
        self.already_429 += u64::from(request.recorded.status == Some(429));
        self.peak = self.peak.max((decision.used, decision.limit));
        if let Some(tally) = self.routes.entry(0, request.batch.route(request.recorded)) {
            tally.count(decision.verdict);
        }
        let mut counts = CurveCounts { requests: 1, ..CurveCounts::default() };
        match decision.verdict {
            Verdict::Allow => {}
            Verdict::Delay { wait } => {
                counts.delayed = 1;
                self.longest_wait = self.longest_wait.max(wait);
            }
            Verdict::Deny { retry_after } => {
                counts.denied = 1;
                self.longest_wait = self.longest_wait.max(retry_after.unwrap_or(Micros::ZERO));
                self.note_denial(time);
            }
        }
        self.curve.add(time, counts);
    }

    fn note_denial(&mut self, time: Time) {
        let second = time.get() / 1_000_000;
        let goes_on = self.last_denied.is_some_and(|last| time.since(last) <= EPISODE_GAP);
        self.last_denied = Some(time);
        if !goes_on {
            self.episode_count += 1;
            if self.episodes.len() < EPISODES_MAX {
                self.episodes.push(Episode { from: second, to: second, denied: 0 });
            }
        }
        let count = u64::try_from(self.episodes.len()).unwrap_or(u64::MAX);
        if let (Some(last), true) = (self.episodes.last_mut(), count == self.episode_count) {
            last.to = second;
            last.denied += 1;
        }
    }

    fn report(&self, names: RuleNames, rows: usize) -> KeyStory {
        let second = |time: Time| time.get() / 1_000_000;
        let Tally { requests, denied, delayed } = self.tally;
        KeyStory {
            names,
            key: self.key.clone(),
            requests,
            denied,
            delayed,
            soft: self.soft,
            already_429: self.already_429,
            from: second(self.from),
            to: second(self.to),
            peak: self.peak.0,
            limit: self.peak.1,
            longest_wait_ms: self.longest_wait.get().div_ceil(1_000),
            episodes: self.episodes.clone(),
            episode_count: self.episode_count,
            routes: route_rows(&self.routes, rows),
            step_s: self.curve.step().get() / 1_000_000,
            curve: self.curve.report(),
        }
    }
}
