//! What is saved comes back; what is broken changes nothing.

use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Shape};

use super::*;
use crate::charge_set::ChargeSet;

const NOW: Time = Time::from_secs(1_000);

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-snapshot-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("counters")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn limits() -> [Limit; 3] {
    let limit = |seconds, shape| Limit::new(5, Micros::from_secs(seconds), shape).unwrap();
    [limit(60, Shape::SlidingLog), limit(60, Shape::SlidingCounter), limit(3_600, Shape::FixedWindow)]
}

/// What is left for a user under each limit, after taking `cost`.
fn left(store: &MemoryStore, user: &str, cost: u64, now: Time) -> Vec<u64> {
    let entries = [Entry { key: "user", value: user }];
    let limits = limits();
    let charges = limits.iter().map(|limit| Charge {
        descriptor: 0,
        rule: None,
        key: Key { domain: "shop", entries: &entries, shared: &[], limit, ordinal: 0 },
        mode: Mode::Enforce,
        operation: Operation::Check,
        cost,
    });
    let batch = ChargeSet { charges: charges.collect(), ..ChargeSet::default() };
    store.decide(&batch, now).iter().map(|decision| decision.remaining).collect()
}

fn restore(path: &Path, now: Time) -> Result<MemoryStore, SnapshotError> {
    MemoryStore::restore(path, Capacity { keys: 10_000, log_bytes: 1 << 20 }, now)
}

#[test]
fn counters_come_back_under_their_keys() {
    let folder = Folder::new("back");
    let store = MemoryStore::new(Capacity { keys: 100_000, log_bytes: 1 << 20 });
    for user in 0..1_000_u64 {
        left(&store, &user.to_string(), user % 4, NOW);
    }
    let keys = store.save(&folder.file()).unwrap();
    assert_eq!(keys, 750 * 3, "who took nothing has no state");
    // Another capacity has other shards.
    let restored = restore(&folder.file(), NOW).unwrap();
    assert_eq!(restored.usage().keys, 750 * 3);
    for user in 0..1_000_u64 {
        assert_eq!(left(&restored, &user.to_string(), 0, NOW), [5 - user % 4; 3], "{user}");
    }
    assert_eq!(restored.save(&folder.file()).unwrap(), keys, "and is saved again over the first");
}

#[test]
fn what_has_run_out_meanwhile_is_left_out() {
    let folder = Folder::new("late");
    let store = MemoryStore::default();
    left(&store, "a", 2, NOW);
    store.save(&folder.file()).unwrap();
    let later = NOW + Micros::from_secs(200);
    let restored = restore(&folder.file(), later).unwrap();
    assert_eq!(restored.usage().keys, 1);
    assert_eq!(left(&restored, "a", 0, later), [5, 5, 3]);
}

#[test]
fn no_file_is_an_empty_store() {
    let folder = Folder::new("none");
    assert_eq!(restore(&folder.file(), NOW).unwrap().usage().keys, 0);
}

#[test]
fn a_file_that_is_torn_anywhere_or_changed_anywhere_is_refused() {
    let folder = Folder::new("torn");
    let store = MemoryStore::new(Capacity { keys: 100, log_bytes: 10_000 });
    left(&store, "a", 1, NOW);
    left(&store, "a", 2, NOW + Micros::from_secs(1));
    store.save(&folder.file()).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    let is_refused = |bytes: &[u8]| {
        fs::write(folder.file(), bytes).unwrap();
        matches!(restore(&folder.file(), NOW), Err(SnapshotError::Unusable { .. }))
    };
    for length in 0..whole.len() {
        assert!(is_refused(&whole[..length]), "cut at {length}");
    }
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0x41;
        assert!(is_refused(&changed), "changed at {place}");
    }
    assert!(is_refused(&[whole.as_slice(), b"x"].concat()), "longer");
    assert!(!is_refused(&whole));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = Folder::new("words");
    fs::write(folder.file(), b"something else entirely").unwrap();
    let error = restore(&folder.file(), NOW).unwrap_err().to_string();
    assert!(error.ends_with("counters: it is not a snapshot of Tollgate"), "{error}");
    let error = MemoryStore::default().save(&folder.0.join("missing/counters")).unwrap_err().to_string();
    assert!(error.contains("missing/counters: "), "{error}");
}

#[test]
fn checks_go_on_while_it_is_saved() {
    let folder = Folder::new("busy");
    let store = MemoryStore::default();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for user in 0..5_000 {
                    left(store, &format!("{thread} {user}"), 1, NOW);
                }
            });
        }
        for _ in 0..5 {
            store.save(&folder.file()).unwrap();
            assert!(restore(&folder.file(), NOW).is_ok(), "each is whole");
        }
    });
    let keys = store.save(&folder.file()).unwrap();
    assert_eq!(keys, u64::try_from(threads * 5_000 * 3).unwrap());
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_behind() {
    let folder = Folder::new("fails");
    // A file cannot be moved to where a folder is.
    fs::create_dir_all(folder.file()).unwrap();
    assert!(MemoryStore::default().save(&folder.file()).is_err());
    assert!(!beside(&folder.file()).exists());
}

/// Opening a FIFO that nobody writes to waits for ever.
#[cfg(unix)]
#[test]
fn a_fifo_in_its_place_is_refused() {
    let folder = Folder::new("fifo");
    let path = folder.file();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = MemoryStore::restore(&path, Capacity::default(), NOW).unwrap_err().to_string();
    assert!(error.contains("it is a FIFO"), "{error}");
}
