//! Polls the rule files and loads what has changed.
//!
//! A change is found by comparing contents. The system's notifications make
//! that happen at once; besides, everything is read more than once a second,
//! which needs no notifications and so works on every file system. That is
//! cheap for rule files (a megabyte is read in about a millisecond), and where
//! it is not, polls are spread so that they take a twentieth of the time.
//!
//! Changes are debounced, so that a set that is being written is not loaded by
//! halves: two polls, a moment apart, must agree. A set that never comes to
//! rest is loaded all the same.
//!
//! Invariant: nothing here blocks the thread of the runtime.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate_rules::{LoadError, Loaded, Options};

use super::files::{FileScan, RuleFiles};
use super::folder_watch::FolderWatch;
use super::report::{LoadOrigin, LoadReporter};

/// How often files are polled: with the debouncing, a change is in force
/// within a second even without notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(750);
/// A poll is followed by at least so many times its own duration without one.
const REST_FACTOR: u32 = 20;
/// However slow the files are, a change is found in so long.
const REST_MAX: Duration = Duration::from_secs(5);
/// How far apart two polls must agree.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// After so many polls that disagree, half a second, the last one counts.
const DEBOUNCE_POLLS_MAX: usize = 10;

/// What a poll found.
struct PollResult {
    scan: FileScan,
    fingerprint: u64,
    took: Duration,
    /// Whether it is what was loaded last.
    is_known: bool,
}

/// Loads, waits for a change, and so on for ever.
pub(super) async fn run<F>(files: RuleFiles, options: Options, mut reporter: LoadReporter<F>, reload: &Notify)
where
    F: FnMut(Result<Loaded, LoadError>),
{
    let mut watch = FolderWatch::new();
    let mut loaded: Option<u64> = None;
    let mut took_before = Duration::ZERO;
    loop {
        let Some(mut polled) = poll(&files, &reporter).await else {
            sleep(POLL_INTERVAL).await;
            continue;
        };
        let mut is_watch_new = !watch.covers(&polled.scan.folders);
        if loaded != Some(polled.fingerprint) {
            if loaded.is_some() {
                polled = debounced(&files, &reporter, polled).await;
                // A folder that was replaced under its old name has lost its watch.
                is_watch_new = true;
            }
            loaded = Some(polled.fingerprint);
        } else {
            polled.is_known = true;
        }
        let PollResult { scan, took, is_known, .. } = polled;
        if is_watch_new {
            watch = watch.moved_to(scan.folders.clone()).await;
        }
        if !is_known {
            load(scan, options.clone(), &mut reporter).await;
        }
        // What happened before the watch stood is found by one more poll.
        if is_watch_new {
            continue;
        }
        let rest = rest(took, took_before);
        took_before = took;
        tokio::select! {
            () = watch.changed() => sleep(DEBOUNCE.max(rest)).await,
            () = sleep(POLL_INTERVAL.max(rest)) => {}
            () = reload.notified() => loaded = None,
        }
    }
}

/// How long the files are left alone after two polls. The quicker one counts: files that are slow are
/// slow twice, and a machine that stood still for a moment must not hold up the next change.
fn rest(took: Duration, took_before: Duration) -> Duration {
    (took.min(took_before) * REST_FACTOR).min(REST_MAX)
}

/// None if the runtime is about to end.
async fn poll<F>(files: &RuleFiles, reporter: &LoadReporter<F>) -> Option<PollResult> {
    let files = files.clone();
    let before = reporter.clock.now();
    let scanned = spawn_blocking(move || {
        let scan = files.scan();
        let fingerprint = scan.fingerprint();
        (scan, fingerprint)
    });
    let (scan, fingerprint) = scanned.await.ok()?;
    let took = reporter.clock.now().since(before);
    Some(PollResult { scan, fingerprint, took: Duration::from_micros(took.get()), is_known: false })
}

/// Polls until two polls agree.
async fn debounced<F>(files: &RuleFiles, reporter: &LoadReporter<F>, first: PollResult) -> PollResult {
    let mut last = first;
    for _ in 0..DEBOUNCE_POLLS_MAX {
        sleep(DEBOUNCE).await;
        let Some(next) = poll(files, reporter).await else { break };
        let is_same = next.fingerprint == last.fingerprint;
        last = next;
        if is_same {
            break;
        }
    }
    last
}

async fn load<F>(scan: FileScan, options: Options, reporter: &mut LoadReporter<F>)
where
    F: FnMut(Result<Loaded, LoadError>),
{
    let FileScan { origin, sources, warnings, .. } = scan;
    let (files, result) = match sources {
        Err(error) => (Vec::new(), Err(error)),
        Ok(sources) => {
            let files = sources.iter().map(|source| source.name.clone()).collect();
            let loading = spawn_blocking(move || tollgate_rules::load(sources, &options));
            let Ok(result) = loading.await else { return };
            (files, result)
        }
    };
    reporter.report(LoadOrigin { origin, files, warnings }, result);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_slow_rest_and_a_machine_that_stood_still_does_not() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(40), ms(50)), ms(800));
        assert_eq!(rest(ms(3_000), ms(1)), ms(20), "one poll of many was slow");
        assert_eq!(rest(ms(3_000), ms(2_000)), REST_MAX, "a network file system that hangs");
    }
}
