//! Looks at files again and again, and loads what changed.
//!
//! A change is found by comparing contents. The system's notifications make
//! that happen at once; besides, everything is looked at more than once a
//! second, which needs no notifications and so works on every file system.
//! That is cheap for rule files (a megabyte is read in about a millisecond),
//! and where it is not, looks are spread so that they take a twentieth of the
//! time.
//!
//! A set that is being written is not loaded by halves: two looks, a moment
//! apart, must agree. A set that never comes to rest is loaded all the same.
//!
//! Invariant: nothing here blocks the thread of the runtime.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate_rules::{LoadError, Loaded, Options};

use super::files::{Files, Scan};
use super::tell::{About, Teller};
use super::watch::Watch;

/// How often everything is looked at: with the wait until a set has settled,
/// a change is in force within a second even where nothing tells of it.
const LOOK_EVERY: Duration = Duration::from_millis(750);
/// A look that took this long is followed by twenty times that without one.
const REST_FACTOR: u32 = 20;
/// How far apart two looks must agree.
const SETTLE: Duration = Duration::from_millis(50);
/// After so many looks that disagree, half a second, the last one counts.
const SETTLE_LOOKS: usize = 10;

/// What a look found.
struct Look {
    scan: Scan,
    fingerprint: u64,
    took: Duration,
    /// Whether it is what was loaded last.
    is_known: bool,
}

/// Loads, waits for a change, and so on for ever.
pub(super) async fn follow<F>(files: Files, options: Options, mut teller: Teller<F>, reload: &Notify)
where
    F: FnMut(Result<Loaded, LoadError>),
{
    let mut watch = Watch::new();
    let mut loaded: Option<u64> = None;
    loop {
        let Some(mut seen) = look(&files, &teller).await else {
            sleep(LOOK_EVERY).await;
            continue;
        };
        let mut is_watch_new = !watch.is_on(&seen.scan.folders);
        if loaded != Some(seen.fingerprint) {
            if loaded.is_some() {
                seen = settled(&files, &teller, seen).await;
                // A folder that was replaced under its old name has lost its watch.
                is_watch_new = true;
            }
            loaded = Some(seen.fingerprint);
        } else {
            seen.is_known = true;
        }
        let Look { scan, took, is_known, .. } = seen;
        if is_watch_new {
            watch = watch.moved_to(scan.folders.clone()).await;
        }
        if !is_known {
            load(scan, options.clone(), &mut teller).await;
        }
        // What happened before the watch stood is found by one more look.
        if is_watch_new {
            continue;
        }
        tokio::select! {
            () = watch.changed() => sleep(SETTLE.max(took * REST_FACTOR)).await,
            () = sleep(LOOK_EVERY.max(took * REST_FACTOR)) => {}
            () = reload.notified() => loaded = None,
        }
    }
}

/// None if the runtime is about to end.
async fn look<F>(files: &Files, teller: &Teller<F>) -> Option<Look> {
    let files = files.clone();
    let before = teller.clock.now();
    let scanned = spawn_blocking(move || {
        let scan = files.scan();
        let fingerprint = scan.fingerprint();
        (scan, fingerprint)
    });
    let (scan, fingerprint) = scanned.await.ok()?;
    let took = teller.clock.now().since(before);
    Some(Look { scan, fingerprint, took: Duration::from_micros(took.get()), is_known: false })
}

/// Looks until two looks agree.
async fn settled<F>(files: &Files, teller: &Teller<F>, first: Look) -> Look {
    let mut last = first;
    for _ in 0..SETTLE_LOOKS {
        sleep(SETTLE).await;
        let Some(next) = look(files, teller).await else { break };
        let is_same = next.fingerprint == last.fingerprint;
        last = next;
        if is_same {
            break;
        }
    }
    last
}

async fn load<F>(scan: Scan, options: Options, teller: &mut Teller<F>)
where
    F: FnMut(Result<Loaded, LoadError>),
{
    let Scan { origin, sources, warnings, .. } = scan;
    let (files, outcome) = match sources {
        Err(error) => (Vec::new(), Err(error)),
        Ok(sources) => {
            let files = sources.iter().map(|source| source.name.clone()).collect();
            let loading = spawn_blocking(move || tollgate_rules::load(sources, &options));
            let Ok(outcome) = loading.await else { return };
            (files, outcome)
        }
    };
    teller.tell(About { origin, files, warnings }, outcome);
}
