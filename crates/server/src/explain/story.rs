//! Everything there is to say about one request, as data.
//!
//! Made from a request and the limiter's reply to it; printed as text or as JSON,
//! cited by failing rule tests, and answered by `/v1/explain`.
//!
//! Invariant: nothing is decided here. The walk is [`RuleSet::trace`]'s, the
//! counters are those of [`RuleSet::charges`], the decisions are the reply's.

use serde::Serialize;
use tollgate_core::ruleset::{Found, Free, How, Level, Trace};
use tollgate_core::{Entry, Key, Operation, Request, Rule, RuleId, RuleSet, Verdict};
use tollgate_limiter::{Exception, Reply, RuleDecision};
use utoipa::ToSchema;

use super::reasons::{how_name, reason};
use super::words;
use crate::rule_log::mode_name;

/// So many levels that do not match are shown; more help nobody.
const MISSES_SHOWN: usize = 10;

/// A request, what it met, and what came of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub struct Story {
    /// The domain of the request.
    pub domain: String,
    /// Whether there are rules for it.
    pub domain_known: bool,
    /// What else there is, where the domain is not known.
    pub known_domains: Vec<String>,
    /// The domain that was probably meant.
    pub nearest_domain: Option<String>,
    /// What the request takes from each limit.
    pub cost: u64,
    /// Its descriptors, each with the rules that it met.
    pub descriptors: Vec<DescriptorTold>,
    /// `allow`, `delay` or `deny`.
    pub verdict: &'static str,
    /// For `delay`: how long, in microseconds.
    pub wait_us: Option<u64>,
    /// For `deny`: when the same request would pass; `null` if it never would.
    pub retry_after_us: Option<u64>,
    /// How the request counts in metrics and history.
    pub outcome: &'static str,
    /// The name of the rule that the verdict comes from.
    pub binding: Option<String>,
    /// The verdict as people read it.
    #[serde(skip)]
    pub verdict_words: String,
}

/// One descriptor.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedDescriptor)]
pub struct DescriptorTold {
    /// Its entries, in their order.
    pub entries: Vec<EntryTold>,
    /// The way through the rules, one level for each entry as far as it went.
    pub levels: Vec<LevelTold>,
    /// The limits that it reached.
    pub limits: Vec<LimitTold>,
    /// Why nothing is charged.
    pub free: Option<&'static str>,
    /// A key that no rule of the domain has, where no rule matches.
    pub unknown_key: Option<String>,
    /// What that key may have been meant to be.
    pub nearest_key: Option<String>,
    /// What denies it whatever is counted: `deny_list` of the domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exception: Option<&'static str>,
    /// Why nothing is charged, as people read it.
    #[serde(skip)]
    pub free_words: Option<String>,
    /// What denies it, as people read it.
    #[serde(skip)]
    pub exception_words: Option<&'static str>,
}

/// One entry, of a request or of a counter.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedEntry)]
pub struct EntryTold {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The value is a pattern, and all that fit it count together.
    #[serde(skip_serializing_if = "is_false")]
    pub shared: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// One level of the walk.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedLevel)]
pub struct LevelTold {
    /// The entry of the request.
    pub entry: String,
    /// What was chosen, as the rule file has it; none if nothing matches.
    pub chosen: Option<String>,
    /// `exact`, `wildcard` or `key_only`.
    pub how: Option<&'static str>,
    /// The chosen level has limits, which do not apply as more entries follow.
    pub passed_limits: bool,
    /// Everything that there was to choose from.
    pub candidates: Vec<CandidateTold>,
    /// How many more do not match.
    pub left_out: usize,
}

/// Something that a level might have been.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedCandidate)]
pub struct CandidateTold {
    /// As the rule file has it.
    pub text: String,
    /// How it matches; none if it does not.
    pub how: Option<&'static str>,
    /// Whether it is the one.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: &'static str,
}

/// One limit that the descriptor reached.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedLimit)]
pub struct LimitTold {
    /// The rule's name, or its path if it has none.
    pub rule: String,
    /// Where the rule stands: the domain and the levels, joined by dots.
    pub path: String,
    /// The algorithm.
    pub algorithm: &'static str,
    /// All of its numbers, as people read them.
    pub limit: String,
    /// What whoever is refused is told; empty if the rule has no words of its own.
    pub message: String,
    /// `enforce`, `shadow`, `quota` or `shadow_quota`.
    pub mode: &'static str,
    /// The rule that makes this one step back.
    pub replaced_by: Option<String>,
    /// The list that keeps this limit from being asked: `allow_list` or `deny_list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub skipped: Option<&'static str>,
    /// What counts together.
    pub counter: Option<CounterTold>,
    /// What it decided; none if it does not apply.
    pub decision: Option<DecisionTold>,
    /// What the mode means; none where a denial simply counts.
    #[serde(skip)]
    pub mode_words: Option<&'static str>,
    /// What keeps this limit from being asked, as people read it.
    #[serde(skip)]
    pub skipped_words: Option<&'static str>,
}

/// What counts together.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedCounter)]
pub struct CounterTold {
    /// The domain.
    pub domain: String,
    /// The entries whose values are equal for all that count together.
    pub entries: Vec<EntryTold>,
}

/// What one limit decided.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedDecision)]
pub struct DecisionTold {
    /// `allow`, `delay` or `deny`.
    pub verdict: &'static str,
    /// For `delay`: how long, in microseconds.
    pub wait_us: Option<u64>,
    /// For `deny`: when the same request would pass; `null` if it never would.
    pub retry_after_us: Option<u64>,
    /// What the limit lets through at once.
    pub limit: u64,
    /// What is taken.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When it is as good as new, nothing else happening.
    pub reset_after_us: u64,
    /// It passes only because the limit is soft.
    pub soft: bool,
    /// It was decided without the store, which could not be asked.
    pub degraded: bool,
    /// By how many percent the limit may be exceeded now.
    pub exceed_percent: u32,
    /// Why it denies, if not because the limit is used up: `penalty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<&'static str>,
    /// The verdict on the request comes from this one.
    pub binding: bool,
    /// All of it as people read it.
    #[serde(skip)]
    pub words: String,
}

impl Story {
    /// Whether any limit was met, enforced or not.
    pub fn has_limits(&self) -> bool {
        self.descriptors.iter().any(|descriptor| !descriptor.limits.is_empty())
    }

    /// What there is to say about `request` and the `reply` to it.
    pub fn new(request: &Request<'_>, reply: &Reply) -> Self {
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
            outcome: reply.outcome().name(),
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
    fn descriptor(&self, index: usize) -> DescriptorTold {
        let entries = self.request.descriptors.get(index).map_or(&[][..], |descriptor| descriptor.entries);
        let trace = self.traces.get(index).and_then(Option::as_ref);
        let levels = trace.map_or(&[][..], |trace| &trace.levels);
        let why = self.reply.free.get(index).copied().flatten();
        let unknown_key = (why == Some(Free::NoRule)).then(|| self.unknown_key(entries)).flatten();
        let is_domains = |decision: &&RuleDecision| decision.descriptor == index && decision.rule.is_none();
        let exception = self.reply.decisions.iter().find(is_domains).and_then(|decision| decision.exception);
        DescriptorTold {
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
            message: rule.message.clone(),
            mode: mode_name(rule.mode),
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

    fn decided(&self, decision: &RuleDecision, rule: &Rule) -> DecisionTold {
        let (wait_us, retry_after_us) = waits(decision.verdict);
        DecisionTold {
            verdict: decision.verdict.word(),
            wait_us,
            retry_after_us,
            limit: decision.limit,
            used: decision.used,
            remaining: decision.remaining,
            reset_after_us: decision.reset_after.get(),
            soft: decision.soft,
            degraded: decision.degraded,
            exceed_percent: decision.exceed_percent,
            reason: decision.reason(),
            binding: self.reply.binding().is_some_and(|binding| std::ptr::eq(binding, decision)),
            words: words::decision(decision, rule),
        }
    }

    fn counter(&self, descriptor: usize, id: RuleId) -> Option<CounterTold> {
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
            Free::Overridden => "an operator lets this pass for a while: nothing counted".to_owned(),
            Free::Replaced => "all rules here are replaced by others: allowed, nothing counted".to_owned(),
            Free::NoRule => {
                let levels = trace.map_or(&[][..], |trace| &trace.levels);
                format!("no rule: allowed, nothing counted; {}", miss(levels, entries))
            }
        }
    }
}

/// Where the walk ended.
fn miss(levels: &[Level<'_>], entries: &[Entry<'_>]) -> String {
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
        Free::Overridden => "override",
    }
}

fn entry_told(entry: Entry<'_>, shared: Option<&str>) -> EntryTold {
    EntryTold {
        key: entry.key.to_owned(),
        value: shared.unwrap_or(entry.value).to_owned(),
        shared: shared.is_some(),
    }
}

fn counter_told(key: &Key<'_>) -> CounterTold {
    let shared = key.shared.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    let entries = key.entries.iter().zip(shared).map(|(entry, shared)| entry_told(*entry, shared)).collect();
    CounterTold { domain: key.domain.to_owned(), entries }
}

fn level_told(level: &Level<'_>, entry: Entry<'_>) -> LevelTold {
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
    LevelTold {
        entry: words::descriptor([(entry.key, entry.value)]),
        chosen: level.chosen.map(|(text, _): (&str, How)| text.to_owned()),
        how: how.map(how_name),
        passed_limits: level.passed_limits,
        candidates,
        left_out: misses.saturating_sub(MISSES_SHOWN),
    }
}
