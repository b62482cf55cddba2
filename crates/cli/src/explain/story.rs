//! Everything there is to say about one request, as data.
//!
//! Made from a request and the limiter's reply to it; printed as text or as
//! JSON, and cited by failing rule tests.
//!
//! Invariant: nothing is decided here. The walk is [`RuleSet::trace`]'s, the
//! counters are those of [`RuleSet::charges`], the decisions are the reply's.

use serde::Serialize;
use tollgate_core::ruleset::{Found, Free, How, Level as Walked, Trace};
use tollgate_core::{Entry, Key, Operation, Request, Rule, RuleId, RuleSet, Verdict};
use tollgate_limiter::{Exception, Reply, RuleDecision};

use super::reasons::{how_name, reason};
use crate::words;

/// So many levels that do not match are shown; more help nobody.
const MISSES_SHOWN: usize = 10;

/// A request, what it met, and what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    pub(crate) domain: String,
    pub(crate) domain_known: bool,
    /// What else there is, where the domain is not known.
    pub(crate) known_domains: Vec<String>,
    pub(crate) nearest_domain: Option<String>,
    pub(crate) cost: u64,
    pub(crate) descriptors: Vec<Told>,
    pub(crate) verdict: &'static str,
    pub(crate) wait_us: Option<u64>,
    pub(crate) retry_after_us: Option<u64>,
    /// The name of the rule that the verdict comes from.
    pub(crate) binding: Option<String>,
    #[serde(skip)]
    pub(crate) verdict_words: String,
}

/// One descriptor.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) entries: Vec<EntryTold>,
    pub(crate) levels: Vec<Level>,
    pub(crate) limits: Vec<LimitTold>,
    /// Why nothing is charged.
    pub(crate) free: Option<&'static str>,
    /// A key that no rule of the domain has, where no rule matches.
    pub(crate) unknown_key: Option<String>,
    /// What that key may have been meant to be.
    pub(crate) nearest_key: Option<String>,
    /// What denies it whatever is counted: `deny_list` of the domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exception: Option<&'static str>,
    #[serde(skip)]
    pub(crate) free_words: Option<String>,
    #[serde(skip)]
    pub(crate) exception_words: Option<&'static str>,
}

/// One entry, of a request or of a counter.
#[derive(Debug, Serialize)]
pub(crate) struct EntryTold {
    pub(crate) key: String,
    pub(crate) value: String,
    /// The value is a pattern, and all that fit it count together.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) shared: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// One level of the walk.
#[derive(Debug, Serialize)]
pub(crate) struct Level {
    pub(crate) entry: String,
    pub(crate) chosen: Option<String>,
    pub(crate) how: Option<&'static str>,
    /// The chosen level has limits, which do not apply as more entries follow.
    pub(crate) passed_limits: bool,
    pub(crate) candidates: Vec<CandidateTold>,
    /// How many more do not match.
    pub(crate) left_out: usize,
}

/// Something that a level might have been.
#[derive(Debug, Serialize)]
pub(crate) struct CandidateTold {
    pub(crate) text: String,
    pub(crate) how: Option<&'static str>,
    pub(crate) chosen: bool,
    pub(crate) reason: &'static str,
}

/// One limit that the descriptor reached.
#[derive(Debug, Serialize)]
pub(crate) struct LimitTold {
    pub(crate) rule: String,
    pub(crate) path: String,
    pub(crate) algorithm: &'static str,
    pub(crate) limit: String,
    pub(crate) mode: &'static str,
    /// The rule that makes this one step back.
    pub(crate) replaced_by: Option<String>,
    /// The list that keeps this limit from being asked: `allow_list` or `deny_list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<&'static str>,
    pub(crate) counter: Option<Counter>,
    pub(crate) decision: Option<Decided>,
    #[serde(skip)]
    pub(crate) mode_words: Option<&'static str>,
    #[serde(skip)]
    pub(crate) skipped_words: Option<&'static str>,
}

/// What counts together.
#[derive(Debug, Serialize)]
pub(crate) struct Counter {
    pub(crate) domain: String,
    pub(crate) entries: Vec<EntryTold>,
}

/// What one limit decided.
#[derive(Debug, Serialize)]
pub(crate) struct Decided {
    pub(crate) verdict: &'static str,
    pub(crate) wait_us: Option<u64>,
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after_us: u64,
    pub(crate) soft: bool,
    /// Why it denies, if not because the limit is used up: `penalty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The verdict on the request comes from this one.
    pub(crate) binding: bool,
    #[serde(skip)]
    pub(crate) words: String,
}

impl Story {
    /// Whether any limit was met, enforced or not.
    pub(crate) fn has_limits(&self) -> bool {
        self.descriptors.iter().any(|descriptor| !descriptor.limits.is_empty())
    }

    /// What there is to say about `request` and the `reply` to it.
    pub(crate) fn new(request: &Request<'_>, reply: &Reply) -> Self {
        let rules = reply.rules();
        let domain_known = rules.has_domain(request.domain);
        let traces: Vec<Option<Trace<'_>>> = request
            .descriptors
            .iter()
            .map(|descriptor| rules.trace(request.domain, descriptor.entries))
            .collect();
        let teller = Teller { request, reply, rules, traces: &traces };
        let mut known_domains: Vec<String> =
            if domain_known { Vec::new() } else { rules.domains().map(str::to_owned).collect() };
        known_domains.sort();
        let (wait_us, retry_after_us) = waits(reply.verdict);
        Self {
            domain: request.domain.to_owned(),
            domain_known,
            nearest_domain: tollgate_yaml::nearest(request.domain, known_domains.iter().map(String::as_str))
                .map(str::to_owned),
            known_domains,
            cost: request.cost,
            descriptors: (0..request.descriptors.len()).map(|index| teller.descriptor(index)).collect(),
            verdict: reply.verdict.word(),
            wait_us,
            retry_after_us,
            binding: reply.binding().and_then(|decision| {
                let exception = decision.exception.map(Exception::reason);
                Some(reply.rule(decision).map(Rule::name).or(exception)?.to_owned())
            }),
            verdict_words: words::verdict(reply.verdict),
        }
    }
}

fn waits(verdict: Verdict) -> (Option<u64>, Option<u64>) {
    match verdict {
        Verdict::Allow => (None, None),
        Verdict::Delay { wait } => (Some(wait.get()), None),
        Verdict::Deny { retry_after } => (None, retry_after.map(|wait| wait.get())),
    }
}

/// What the parts of a story are made from.
struct Teller<'a> {
    request: &'a Request<'a>,
    reply: &'a Reply,
    rules: &'a RuleSet,
    traces: &'a [Option<Trace<'a>>],
}

impl Teller<'_> {
    fn descriptor(&self, index: usize) -> Told {
        let entries = self.request.descriptors.get(index).map_or(&[][..], |descriptor| descriptor.entries);
        let trace = self.traces.get(index).and_then(Option::as_ref);
        let levels = trace.map_or(&[][..], |trace| &trace.levels);
        let why = self.reply.free.get(index).copied().flatten();
        let unknown_key = (why == Some(Free::NoRule)).then(|| self.unknown_key(entries)).flatten();
        let is_domains = |decision: &&RuleDecision| decision.descriptor == index && decision.rule.is_none();
        let exception = self.reply.decisions.iter().find(is_domains).and_then(|decision| decision.exception);
        Told {
            unknown_key: unknown_key.map(str::to_owned),
            nearest_key: unknown_key
                .and_then(|key| tollgate_yaml::nearest(key, self.rules.keys(self.request.domain)))
                .map(str::to_owned),
            entries: entries.iter().map(|entry| entry_told(*entry, None)).collect(),
            levels: levels.iter().zip(entries).map(|(level, entry)| level_told(level, *entry)).collect(),
            limits: trace
                .map_or(&[][..], |trace| &trace.rules)
                .iter()
                .filter_map(|id| self.limit(index, *id))
                .collect(),
            free: why.map(free_name),
            exception: exception.map(Exception::reason),
            exception_words: exception.map(
                |_| "the deny list of the domain has this: denied, nothing counted, waiting does not help",
            ),
            free_words: why.map(|why| self.free_words(why, trace, entries)),
        }
    }

    fn unknown_key<'e>(&self, entries: &[Entry<'e>]) -> Option<&'e str> {
        let mut keys = entries.iter().map(|entry| entry.key);
        keys.find(|key| !self.rules.has_key(self.request.domain, key))
    }

    fn limit(&self, descriptor: usize, id: RuleId) -> Option<LimitTold> {
        let rule = self.rules.rule(id)?;
        let is_it = |decision: &&RuleDecision| decision.descriptor == descriptor && decision.rule == Some(id);
        let decision = self.reply.decisions.iter().find(is_it);
        let skipped = if decision.is_none() { self.skipped(descriptor, rule) } else { None };
        let is_replaced = decision.is_none() && skipped.is_none();
        Some(LimitTold {
            rule: rule.name().to_owned(),
            path: rule.path.clone(),
            algorithm: rule.limit.algorithm().name(),
            limit: words::limit(rule),
            mode: words::mode_name(rule.mode),
            mode_words: words::mode(rule.mode),
            replaced_by: if is_replaced { Some(self.replacing(&rule.label)) } else { None },
            skipped: skipped.map(|(name, _)| name),
            skipped_words: skipped.map(|(_, words)| words),
            counter: self.counter(descriptor, id),
            decision: decision.map(|decision| self.decided(decision, rule)),
        })
    }

    /// The list that keeps a limit from being asked, in one word and in several.
    fn skipped(&self, descriptor: usize, rule: &Rule) -> Option<(&'static str, &'static str)> {
        let entries = self.request.descriptors.get(descriptor)?.entries;
        if self.reply.free.get(descriptor) == Some(&Some(Free::Allowed)) {
            return Some(("allow_list", "an allow list has this"));
        }
        if entries.iter().any(|entry| {
            rule.lists.as_ref().is_some_and(|lists| lists.allow.contains(entry.key, entry.value))
        }) {
            return Some(("allow_list", "its allow list has this"));
        }
        let is_listed = self.reply.decisions.iter().any(|decision| decision.exception.is_some());
        is_listed.then_some(("deny_list", "a deny list has this request, so that no limit is asked"))
    }

    fn decided(&self, decision: &RuleDecision, rule: &Rule) -> Decided {
        let (wait_us, retry_after_us) = waits(decision.verdict);
        Decided {
            verdict: decision.verdict.word(),
            wait_us,
            retry_after_us,
            limit: decision.limit,
            used: decision.used,
            remaining: decision.remaining,
            reset_after_us: decision.reset_after.get(),
            soft: decision.soft,
            reason: decision.reason(),
            binding: self.reply.binding().is_some_and(|binding| std::ptr::eq(binding, decision)),
            words: words::decision(decision, rule),
        }
    }

    fn counter(&self, descriptor: usize, id: RuleId) -> Option<Counter> {
        let mut counter = None;
        self.rules.charges(self.request, Operation::Check, |found| {
            if let Found::Charge(charge) = found
                && (charge.descriptor, charge.rule) == (descriptor, Some(id))
            {
                counter = Some(counter_told(&charge.key));
            }
        });
        counter
    }

    /// The rule that replaces rules of that label in this request.
    fn replacing(&self, label: &str) -> String {
        let met = self.traces.iter().flatten().flat_map(|trace| &trace.rules);
        let by = met
            .filter_map(|id| self.rules.rule(*id))
            .find(|rule| rule.replaces.iter().any(|name| name == label));
        // What is not limited has no rule of its own to name.
        by.map_or_else(|| "a rule that is unlimited".to_owned(), |rule| rule.name().to_owned())
    }

    fn free_words(&self, why: Free, trace: Option<&Trace<'_>>, entries: &[Entry<'_>]) -> String {
        match why {
            Free::UnknownDomain => {
                let domain = self.request.domain;
                format!("no rules for domain '{domain}': allowed, nothing counted")
            }
            Free::Unlimited => "the rule says unlimited: allowed, nothing counted".to_owned(),
            Free::Allowed => "an allow list has this: allowed, nothing counted".to_owned(),
            Free::Replaced => "all rules here are replaced by others: allowed, nothing counted".to_owned(),
            Free::NoRule => {
                let levels = trace.map_or(&[][..], |trace| &trace.levels);
                format!("no rule: allowed, nothing counted; {}", miss(levels, entries))
            }
        }
    }
}

/// Where the walk ended.
fn miss(levels: &[Walked<'_>], entries: &[Entry<'_>]) -> String {
    let Some((last, entry)) = levels.last().zip(entries.get(levels.len().saturating_sub(1))) else {
        return "the descriptor has no entries".to_owned();
    };
    let entry = words::descriptor([(entry.key, entry.value)]);
    match last.chosen {
        Some((text, _)) => format!("the walk ends at '{text}', which has no limit"),
        None if last.candidates.is_empty() && levels.len() == 1 => "the domain has no descriptors".to_owned(),
        None if last.candidates.is_empty() => format!("no rule goes deeper, to '{entry}'"),
        None => format!("nothing at this level matches '{entry}'"),
    }
}

const fn free_name(why: Free) -> &'static str {
    match why {
        Free::UnknownDomain => "unknown_domain",
        Free::NoRule => "no_rule",
        Free::Unlimited => "unlimited",
        Free::Replaced => "replaced",
        Free::Allowed => "allow_list",
    }
}

fn entry_told(entry: Entry<'_>, shared: Option<&str>) -> EntryTold {
    EntryTold {
        key: entry.key.to_owned(),
        value: shared.unwrap_or(entry.value).to_owned(),
        shared: shared.is_some(),
    }
}

fn counter_told(key: &Key<'_>) -> Counter {
    let shared = key.shared.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    let entries = key.entries.iter().zip(shared).map(|(entry, shared)| entry_told(*entry, shared)).collect();
    Counter { domain: key.domain.to_owned(), entries }
}

fn level_told(level: &Walked<'_>, entry: Entry<'_>) -> Level {
    let how = level.chosen.map(|(_, how)| how);
    let mut misses = 0;
    let mut candidates = Vec::new();
    for candidate in &level.candidates {
        if candidate.how.is_none() {
            misses += 1;
            if misses > MISSES_SHOWN {
                continue;
            }
        }
        candidates.push(CandidateTold {
            text: candidate.text.to_owned(),
            how: candidate.how.map(how_name),
            chosen: candidate.is_chosen,
            reason: reason(candidate, entry, how),
        });
    }
    Level {
        entry: words::descriptor([(entry.key, entry.value)]),
        chosen: level.chosen.map(|(text, _): (&str, How)| text.to_owned()),
        how: how.map(how_name),
        passed_limits: level.passed_limits,
        candidates,
        left_out: misses.saturating_sub(MISSES_SHOWN),
    }
}
