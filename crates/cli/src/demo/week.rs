//! The history of the last week: the callers of the demo, decided by the limiter that serves, on a
//! clock that runs through the week.
//!
//! Before the server is started, which then goes on with it. Three days before its end the rules
//! change, so that there is a limit of then and one of now.

use std::path::Path;

use tollgate_core::{Descriptor, Entry, Operation, Request, RuleSet, Time, Verdict};
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, Caps, Error, History as _, InstanceId, LocalHistory, Recorder};
use tollgate_history::{DecisionCount, RequestCount};
use tollgate_limiter::{Event, EventSink, Limiter, ManualClock, MemoryStore};
use tollgate_server::Control;
use tollgate_server::rule_log::RuleLog;

use super::DOMAIN;
use super::callers::{DemoCall, DemoCallers};

const WEEK_S: u64 = 7 * 86_400;
/// How long before the end the rules change.
const CHANGED_S: u64 = 3 * 86_400;
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
            domain: event.request.domain,
            rule: event.rule_name(),
            key: Some(&key),
            outcome,
            count: 1,
        });
        self.0.record(request.as_ref(), decision.as_ref(), now);
    }
}

/// Fills a folder with the week before `now_s`, first under the one set of rules and then under the other,
/// unless it is told to stop.
///
/// # Errors
/// If the folder cannot be written.
pub(super) fn fill(
    folder: &Path,
    [before, after]: [RuleSet; 2],
    now_s: u64,
    control: &Control,
) -> Result<(), Error> {
    let mut history = LocalHistory::open(RedbTables::open(folder, Access::Write)?, Bounds::default())?;
    let start = now_s.saturating_sub(WEEK_S) / FLUSH_S * FLUSH_S;
    let clock = ManualClock::at(Time::from_secs(start));
    let counter = WeekCounter(Recorder::new(InstanceId::random(), Caps::default()));
    let log = RuleLog::in_folder(folder.to_owned());
    log.loaded(&before, Time::from_secs(start), true);
    let limiter = Limiter::with(before, MemoryStore::default(), clock, counter);
    let mut next_rules = Some(after);
    let mut callers = DemoCallers::default();
    for second in start..now_s {
        if now_s - second <= CHANGED_S
            && let Some(rules) = next_rules.take()
        {
            log.loaded(&rules, Time::from_secs(second), true);
            limiter.replace_rules(rules);
        }
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
            if control.is_stopped() {
                return Ok(());
            }
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
    let identity = call.identity();
    let path = Entry { key: "path", value: &call.path };
    let address = Entry { key: "remote_address", value: &call.address };
    let caller = identity.as_ref().map(|(_, key, value)| [Entry { key, value }]);
    // The same, in the same order, that settings.yaml has the gateway make of it.
    let mut descriptors = vec![Descriptor::new(std::slice::from_ref(&address))];
    let both = [path, address];
    descriptors.extend([Descriptor::new(&both), Descriptor::new(std::slice::from_ref(&path))]);
    descriptors.extend(caller.iter().map(|entries| Descriptor::new(entries)));
    let request = Request::new(DOMAIN, &descriptors);
    match limiter.operate(&request, Operation::Check, Time::from_secs(second)).at_once().verdict {
        Verdict::Deny { retry_after } => retry_after.map(|wait| wait.as_secs_ceil()),
        Verdict::Allow | Verdict::Delay { .. } => None,
    }
}
