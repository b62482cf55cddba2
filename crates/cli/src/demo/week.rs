//! The history of the last week: the callers of the demo, decided by the limiter that serves, on a
//! clock that runs through the week.
//!
//! Before the server is started, which then goes on with it.

use std::path::Path;

use tollgate_core::{Descriptor, Entry, Operation, Request, RuleSet, Time, Verdict};
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, Caps, Error, History as _, InstanceId, LocalHistory, Recorder};
use tollgate_history::{DecisionCount, RequestCount};
use tollgate_limiter::{Event, EventSink, Limiter, ManualClock, MemoryStore};

use super::DOMAIN;
use super::callers::{DemoCall, DemoCallers};

const WEEK_S: u64 = 7 * 86_400;
/// A quarter of an hour is written at once.
const FLUSH_S: u64 = 900;

/// Counts as the server does it.
struct WeekCounter(Recorder);

impl EventSink for WeekCounter {
    fn offer(&self, event: Event<'_>) {
        let now = event.reply.now;
        let route =
            event.request.descriptors.iter().flat_map(|own| own.entries).find(|own| own.key == "path");
        let request = event.is_request.then(|| RequestCount {
            route: route.map(|entry| entry.value),
            outcome: event.reply.outcome(),
            count: 1,
        });
        let pairs = event.entries().iter().map(|entry| format!("{}={}", entry.key, entry.value));
        let key = pairs.collect::<Vec<_>>().join(",");
        let decision = event.outcome().map(|outcome| DecisionCount {
            domain: event.domain(),
            rule: event.rule_name(),
            key: Some(&key),
            outcome,
            count: 1,
        });
        self.0.record(request.as_ref(), decision.as_ref(), now);
    }
}

/// Fills a folder with the week before `now_s`.
///
/// # Errors
/// If the folder cannot be written.
pub(super) fn fill(folder: &Path, rules: RuleSet, now_s: u64) -> Result<(), Error> {
    let mut history = LocalHistory::open(RedbTables::open(folder, Access::Write)?, Bounds::default())?;
    let start = now_s.saturating_sub(WEEK_S) / FLUSH_S * FLUSH_S;
    let clock = ManualClock::at(Time::from_secs(start));
    let counter = WeekCounter(Recorder::new(InstanceId::random(), Caps::default()));
    let limiter = Limiter::with(rules, MemoryStore::default(), clock, counter);
    let mut callers = DemoCallers::default();
    for second in start..now_s {
        for call in callers.calls(second) {
            let retry_after_s = decide(&limiter, &call, second);
            callers.told(&call, second, retry_after_s);
        }
        let now = Time::from_secs(second + 1);
        if (second + 1) % 60 == 0 {
            // A thread's counts are of few minutes; a look gathers them.
            drop(limiter.sink().0.peek(now));
        }
        if (second + 1) % FLUSH_S == 0 || second + 1 == now_s {
            history.append(&limiter.sink().0.flush(now))?;
            history.maintain(now)?;
        }
    }
    Ok(())
}

/// Decides a call; how long to wait if it is denied.
fn decide(
    limiter: &Limiter<MemoryStore, ManualClock, WeekCounter>,
    call: &DemoCall,
    second: u64,
) -> Option<u64> {
    let borrowed =
        call.descriptors.iter().map(|own| own.iter().map(|(key, value)| Entry { key, value }).collect());
    let entries: Vec<Vec<Entry<'_>>> = borrowed.collect();
    let descriptors: Vec<Descriptor<'_>> = entries.iter().map(|own| Descriptor::new(own)).collect();
    let request = Request::new(DOMAIN, &descriptors);
    match limiter.operate(&request, Operation::Check, Time::from_secs(second)).at_once().verdict {
        Verdict::Deny { retry_after } => retry_after.map(|wait| wait.as_secs_ceil()),
        Verdict::Allow | Verdict::Delay { .. } => None,
    }
}
