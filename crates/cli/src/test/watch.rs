//! `tollgate test --watch`: the tests again after every change of a test or a rule file.
//!
//! The system's notifications make a change known at once; where there are none, as on network
//! file systems, a look at the files every two seconds finds it.
//!
//! Invariant: the tests run again only if a file differs from what it was.
//!
//! Deliberately not here: an end. Ctrl-C ends it, as does a reader that goes away.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{Args, run_once};
use crate::console::{Console, DIM, Exit, count};

/// Files are looked at this often where nothing is notified.
const POLL: Duration = Duration::from_secs(2);
/// An editor writes a file in several steps; it has done them all once it is quiet for this long.
const QUIET: Duration = Duration::from_millis(50);

pub(super) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let mut rules = BTreeSet::new();
    loop {
        let mut before = fingerprint(args, &rules);
        let (_, named) = run_once(args, console)?;
        console.out.flush()?;
        if named != rules {
            rules = named;
            before = fingerprint(args, &rules);
        }
        // A sender is kept, so that waiting without notifications is waiting still.
        let (sender, events) = mpsc::channel();
        let watcher = watched(args.paths.iter().chain(&rules), sender.clone());
        let files = count(before.1, "file");
        writeln!(console.err, "{DIM}watching {files}; Ctrl-C ends it{DIM:#}\n")?;
        console.err.flush()?;
        while fingerprint(args, &rules) == before {
            wait(&events);
        }
        drop((watcher, sender));
    }
}

/// Returns after a change, or after a while.
fn wait(events: &Receiver<()>) {
    let mut longest = POLL;
    while events.recv_timeout(longest) == Ok(()) {
        longest = QUIET;
    }
}

/// Watches the folders that hold the paths; none if the system has no notifications.
fn watched<'a>(paths: impl Iterator<Item = &'a PathBuf>, sender: Sender<()>) -> Option<RecommendedWatcher> {
    let on_event = move |event: notify::Result<Event>| match event {
        // Reading the files is no change of theirs.
        Ok(Event { kind: EventKind::Access(_), .. }) => {}
        // Whoever no longer listens runs the tests at this moment.
        Ok(_) | Err(_) => drop(sender.send(())),
    };
    let mut watcher = notify::recommended_watcher(on_event).ok()?;
    for path in paths {
        let (folder, depth) = match path.parent() {
            _ if path.is_dir() => (path.as_path(), RecursiveMode::Recursive),
            // Editors replace files, so the folder is watched and not the file.
            Some(parent) if parent != Path::new("") => (parent, RecursiveMode::NonRecursive),
            _ => (Path::new("."), RecursiveMode::NonRecursive),
        };
        // What cannot be watched is looked at.
        drop(watcher.watch(folder, depth));
    }
    Some(watcher)
}

/// Equal for equal files, and how many they are.
fn fingerprint(args: &Args, rules: &BTreeSet<PathBuf>) -> (u64, usize) {
    let mut hasher = DefaultHasher::new();
    let tests = tollgate_rules::test_files(&args.paths).unwrap_or_default();
    for test in &tests {
        (test, std::fs::read(test).ok()).hash(&mut hasher);
    }
    let rules: Vec<PathBuf> = rules.iter().cloned().collect();
    let (sources, unreadable) = tollgate_rules::read_what_can_be(&rules);
    for source in &sources {
        (&source.name, &source.text).hash(&mut hasher);
    }
    unreadable.iter().for_each(|problem| problem.to_string().hash(&mut hasher));
    (hasher.finish(), tests.len() + sources.len())
}
