//! From logs and rules to a report.
//!
//! Every request is decided by the limiter that serves, on a memory store of its own for each rule set,
//! at the time of the log.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use tollgate_core::{Operation, Request, RuleSet, Time, Verdict};
use tollgate_http::Mapping;
use tollgate_limiter::{Capacity, Limiter, MemoryStore, NoSink, Reply, RuleDecision, SystemClock};

use crate::algorithms::AlgorithmTrials;
use crate::batch::{Batch, LoggedRequest, RecordedRequest};
use crate::curve::{Curve, CurveCounts};
use crate::ledger::{self, Ledger, Named, Tally, TallyTable, route_rows, worst};
use crate::line_mapping::LineMapping;
use crate::merge::{MergedLogs, Spread};
use crate::name::HashedName;
use crate::reader::{LogReader, LogSource, ParsedChunk, ReadCounts};
use crate::report::{ChangedKey, KeyRow, ReplayReport, RuleChange, RuleNames, RuleRow};
use crate::share::Share;
use crate::single_charge::SingleCharge;
use crate::story::Stories;
use crate::stream::LogStream;
use crate::suggest::LimitSearch;

/// Chunks of each log that are parsed before they are wanted.
const CHUNKS_AHEAD: usize = 1;

/// What to replay by.
#[derive(Debug, Clone)]
pub struct ReplaySettings {
    /// The rules to try.
    pub rules: Arc<RuleSet>,
    /// The rules to compare them with.
    pub against: Option<Arc<RuleSet>>,
    /// What a request becomes.
    pub mapping: Mapping,
    /// Where in a second its requests are, if the log does not say.
    pub spread: Spread,
    /// Rows of each list.
    pub rows: usize,
    /// Decide by all six algorithms besides.
    pub algorithms: bool,
    /// Look for limits that deny no more than this share.
    pub suggest: Option<Share>,
    /// Tell the story of this key.
    pub explain: Option<String>,
}

/// Why a replay ended.
#[derive(Debug)]
pub struct ReplayError {
    /// Which log.
    pub name: String,
    /// What happened to it.
    pub error: io::Error,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.name, self.error)
    }
}

impl std::error::Error for ReplayError {}

/// A replay that is being made.
#[derive(Debug)]
pub struct Replay {
    new: ReplaySide,
    old: Option<ReplaySide>,
    changes: Changes,
    algorithms: Option<AlgorithmTrials>,
    search: Option<LimitSearch>,
    stories: Option<Stories>,
    routes: TallyTable,
    curve: Curve,
    total: Tally,
    already_429: u64,
    times: Option<(Time, Time)>,
}

type ReplayLimiter = Limiter<MemoryStore, SystemClock, NoSink>;

/// One rule set, and what it decided.
#[derive(Debug)]
struct ReplaySide {
    rules: Arc<RuleSet>,
    limiter: Arc<ReplayLimiter>,
    ledger: Ledger,
    denied: u64,
}

/// Where two rule sets differ; keys by the rule of the side that denies.
#[derive(Debug)]
struct Changes {
    newly_denied: TallyTable,
    newly_allowed: TallyTable,
    denied: u64,
    allowed: u64,
}

impl ReplaySide {
    fn new(rules: &Arc<RuleSet>) -> Self {
        let limiter = Limiter::with(
            Arc::clone(rules),
            MemoryStore::new(Capacity::default()),
            SystemClock::new(),
            NoSink,
        );
        let limiter = Arc::new(limiter);
        Self { rules: Arc::clone(rules), limiter, ledger: Ledger::new(rules.rules().len()), denied: 0 }
    }

    fn decide(&mut self, request: &LoggedRequest<'_>) -> Reply {
        let reply = self.limiter.operate(&request.request, Operation::Check, request.time).at_once();
        self.denied += u64::from(reply.verdict.is_deny());
        for decision in &reply.decisions {
            if let Some(rule) = decision.rule {
                self.ledger.count(rule, request.key(decision.descriptor), decision.verdict);
            }
        }
        reply
    }

    /// The same for a request that meets one limit; see `single_charge.rs`.
    fn decide_single(&mut self, single: &SingleCharge, key: HashedName<'_>, time: Time) -> Verdict {
        let (of_rule, verdict) = single.decide(&self.rules, self.limiter.store(), time);
        self.denied += u64::from(verdict.is_deny());
        self.ledger.count(single.rule, key, of_rule);
        verdict
    }

    fn names(&self, rule: usize) -> RuleNames {
        let Some(named) = self.rules.rules().get(rule) else { return RuleNames::default() };
        let domain = named.path.split('.').next().unwrap_or_default();
        // A domain may have dots; the longest that the path begins with is meant.
        let of_path = |name: &&str| named.path.strip_prefix(*name).is_some_and(|rest| rest.starts_with('.'));
        let domain = self.rules.domains().filter(of_path).max_by_key(|name| name.len()).unwrap_or(domain);
        RuleNames { domain: domain.to_owned(), rule: named.name().to_owned() }
    }
}

impl Replay {
    /// Decides the requests of all logs, and says what came of it. `progress` gets the lines that are
    /// done, now and then.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub fn run(
        settings: &ReplaySettings,
        sources: Vec<LogSource>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<ReplayReport, ReplayError> {
        let rules = [&settings.rules].into_iter().chain(&settings.against).map(|rules| &**rules).collect();
        let replay = Self::new(settings);
        let limiter = Arc::clone(&replay.new.limiter);
        let line_mapping = &LineMapping::new(&settings.mapping, rules, limiter.store());
        let logs = sources.len();
        std::thread::scope(|scope| {
            let mut streams = Vec::with_capacity(logs);
            for source in sources {
                let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
                streams.push(LogStream::new(source.name.clone(), chunks));
                let reader = LogReader::new(source, line_mapping, logs);
                scope.spawn(move || send_chunks(reader, &sender));
            }
            replay.decide_all(MergedLogs::new(streams, settings.spread), settings, progress)
        })
    }

    fn decide_all(
        mut self,
        mut logs: MergedLogs,
        settings: &ReplaySettings,
        progress: &mut dyn FnMut(u64),
    ) -> Result<ReplayReport, ReplayError> {
        let domain = settings.mapping.domain();
        loop {
            let more = logs.next_second(|batch, request, time| self.count(domain, batch, request, time));
            match more {
                Ok(true) => progress(self.total.requests),
                Ok(false) => break,
                Err((name, error)) => return Err(ReplayError { name, error }),
            }
        }
        let mut counts = ReadCounts::default();
        let mut formats = BTreeSet::new();
        for stream in logs.streams() {
            counts.add(stream.counts.clone());
            formats.extend(stream.format.as_ref().map(|format| format.name().to_owned()));
        }
        let formats = formats.into_iter().collect();
        Ok(ReplayReport { formats, ..self.report(counts, settings) })
    }

    fn new(settings: &ReplaySettings) -> Self {
        Self {
            new: ReplaySide::new(&settings.rules),
            old: settings.against.as_ref().map(ReplaySide::new),
            changes: Changes {
                newly_denied: ledger::keys(),
                newly_allowed: ledger::keys(),
                denied: 0,
                allowed: 0,
            },
            algorithms: settings.algorithms.then(|| AlgorithmTrials::new(&settings.rules)),
            search: settings.suggest.map(|share| LimitSearch::new(&settings.rules, share)),
            stories: settings.explain.as_deref().map(Stories::new),
            routes: ledger::routes(),
            curve: Curve::default(),
            total: Tally::default(),
            already_429: 0,
            times: None,
        }
    }

    fn count(&mut self, domain: &str, batch: &Batch, recorded: &RecordedRequest, time: Time) {
        let (from, to) = self.times.unwrap_or((time, time));
        self.times = Some((from.min(time), to.max(time)));
        self.already_429 += u64::from(recorded.status == Some(429));
        let verdict = match batch.single(recorded.group) {
            Some(single) if self.is_plain() => {
                self.new.decide_single(&single, batch.key(recorded, single.descriptor), time)
            }
            Some(_) | None => {
                let entries = batch.entries(recorded.group);
                let descriptors = batch.descriptors(recorded.group, &entries);
                let request = Request::new(domain, &descriptors);
                match descriptors.is_empty() {
                    true => Verdict::Allow,
                    false => self.decide(&LoggedRequest { request, batch, recorded, time }),
                }
            }
        };
        self.total.count(verdict);
        if let Some(tally) = self.routes.entry(0, batch.route(recorded)) {
            tally.count(verdict);
        }
        let mut one = Tally::default();
        one.count(verdict);
        self.curve.add(time, CurveCounts { requests: 1, denied: one.denied, delayed: one.delayed });
    }

    /// Whether nothing is asked for but the report itself.
    const fn is_plain(&self) -> bool {
        self.old.is_none() && self.algorithms.is_none() && self.search.is_none() && self.stories.is_none()
    }

    /// Decides by all that was asked for, and notes where they differ.
    fn decide(&mut self, request: &LoggedRequest<'_>) -> Verdict {
        let new = self.new.decide(request);
        // What lists deny no limit is asked about, whatever its numbers.
        let is_list_denial = |decision: &RuleDecision| decision.exception.is_some();
        let is_by_lists = new.verdict.is_deny() && new.decisions.iter().all(is_list_denial);
        match &mut self.algorithms {
            Some(trials) if is_by_lists => trials.deny(request, &new),
            Some(trials) => trials.decide(&self.new.rules, request),
            None => {}
        }
        if let (Some(search), false) = (&mut self.search, is_by_lists) {
            search.decide(&self.new.rules, request);
        }
        if let Some(stories) = &mut self.stories {
            stories.note(request, &new);
        }
        if let Some(side) = &mut self.old {
            let old = side.decide(request);
            self.changes.note(request, &new, &old);
        }
        new.verdict
    }

    fn report(&self, counts: ReadCounts, settings: &ReplaySettings) -> ReplayReport {
        let (from, to) = self.times.unwrap_or_default();
        let second = |time: Time| time.get() / 1_000_000;
        ReplayReport {
            lines: counts.lines,
            requests: self.total.requests,
            not_understood: counts.not_understood,
            examples_not_understood: counts.shown,
            late: counts.late,
            denied_by_mapping: counts.unmapped,
            already_429: self.already_429,
            from: second(from),
            to: second(to),
            denied: self.total.denied,
            delayed: self.total.delayed,
            spread: settings.spread.name(),
            formats: Vec::new(),
            keys_beyond_bound: self.new.ledger.keys.is_full,
            rules: self.rule_rows(),
            keys: self.key_rows(settings.rows),
            routes: route_rows(&self.routes, settings.rows),
            step_s: self.curve.step().get() / 1_000_000,
            curve: self.curve.report(),
            against: self.old.as_ref().map(|old| self.changes.report(&self.new, old, settings.rows)),
            algorithms: self.algorithms.as_ref().map(AlgorithmTrials::rows),
            suggest: self
                .search
                .as_ref()
                .map(|search| search.rows(&self.new.rules, |rule| self.new.names(rule))),
            explain: self
                .stories
                .as_ref()
                .map(|stories| stories.report(|rule| self.new.names(rule), settings.rows)),
        }
    }

    fn rule_rows(&self) -> Vec<RuleRow> {
        let side = &self.new;
        let mut keys = vec![(0, 0); side.ledger.rules.len()];
        for key in side.ledger.keys.iter() {
            if let Some((all, denied)) = keys.get_mut(key.rule) {
                *all += 1;
                *denied += u64::from(key.value.denied > 0);
            }
        }
        let row = |((index, tally), (keys, keys_denied)): ((usize, &Tally), (u64, u64))| {
            let RuleNames { domain, rule } = side.names(index);
            let shadow = side.rules.rules().get(index).is_some_and(|rule| rule.mode.is_shadow());
            let Tally { requests, denied, delayed } = *tally;
            RuleRow { domain, rule, requests, denied, delayed, keys, keys_denied, shadow }
        };
        let mut rows: Vec<RuleRow> = side.ledger.rules.iter().enumerate().zip(keys).map(row).collect();
        rows.sort_by(|a, b| (b.denied, b.requests, &a.rule).cmp(&(a.denied, a.requests, &b.rule)));
        rows
    }

    fn key_rows(&self, most: usize) -> Vec<KeyRow> {
        let row = |key: &Named<Tally>| {
            let RuleNames { domain, rule } = self.new.names(key.rule);
            let Tally { requests, denied, delayed } = key.value;
            KeyRow { domain, rule, key: key.name.to_string(), requests, denied, delayed }
        };
        worst(&self.new.ledger.keys, most).into_iter().map(row).collect()
    }
}

/// Reads a log until its end, or until nobody wants the rest.
fn send_chunks(mut reader: LogReader<'_>, chunks: &SyncSender<io::Result<ParsedChunk>>) {
    while let Some(chunk) = reader.next_chunk().transpose() {
        let is_over = chunk.is_err();
        if chunks.send(chunk).is_err() || is_over {
            return;
        }
    }
}

impl Changes {
    fn note(&mut self, request: &LoggedRequest<'_>, new: &Reply, old: &Reply) {
        let (table, by) = match (old.verdict.is_deny(), new.verdict.is_deny()) {
            (false, true) => {
                self.denied += 1;
                (&mut self.newly_denied, new)
            }
            (true, false) => {
                self.allowed += 1;
                (&mut self.newly_allowed, old)
            }
            (false, false) | (true, true) => return,
        };
        let Some(decision) = by.binding() else { return };
        let Some(rule) = decision.rule else { return };
        if let Some(tally) = table.entry(rule.index(), request.key(decision.descriptor)) {
            tally.count(Verdict::Deny { retry_after: None });
        }
    }

    fn report(&self, new: &ReplaySide, old: &ReplaySide, rows: usize) -> RuleChange {
        let row = |side: &ReplaySide, key: &Named<Tally>, is_denied: bool| {
            let RuleNames { domain, rule } = side.names(key.rule);
            let count = key.value.denied;
            let (newly_denied, newly_allowed) = if is_denied { (count, 0) } else { (0, count) };
            ChangedKey { domain, rule, key: key.name.to_string(), newly_denied, newly_allowed }
        };
        let denied = worst(&self.newly_denied, rows).into_iter().map(|key| row(new, key, true));
        let allowed = worst(&self.newly_allowed, rows).into_iter().map(|key| row(old, key, false));
        let keys = denied.chain(allowed).collect();
        RuleChange { denied: old.denied, newly_denied: self.denied, newly_allowed: self.allowed, keys }
    }
}
