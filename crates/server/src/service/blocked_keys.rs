//! Which keys are blocked by a penalty, as far as this server has met them.
//!
//! Blocks live in the store, under keys that cannot be read back and that nobody searches. But every
//! block begins with a decision, and whoever comes back while it lasts gets another: `Sinks` shows both
//! to [`BlockedKeys::note`]. `/v1/keys/blocked` lists them and asks the store about each, so that
//! what it shows is true, however old the note.
//!
//! Invariants: as many keys as [`KEYS_MAX`], of [`NAME_BYTES_MAX`] each; what has no room is counted.
//! A key that is known already costs a hash and a shared lock.
//!
//! Deliberately not here: blocks that other nodes began, or that were there before this process, until
//! whoever is blocked asks this one.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tollgate_core::{Time, Verdict};
use tollgate_limiter::Event;

/// Keys that are known at a time.
const KEYS_MAX: usize = 1_000;
/// A key whose entries are longer is counted and not listed.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Keys that are blocked.
#[derive(Debug, Default)]
pub(crate) struct BlockedKeys {
    hasher: RandomState,
    known: RwLock<Known>,
    /// Those that had no room.
    unlisted: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<u64, NotedBlock>,
    /// No block ends before.
    first_end: Time,
}

#[derive(Debug)]
struct NotedBlock {
    key: BlockedKey,
    denied: AtomicU64,
}

/// A key that was blocked when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockedKey {
    /// What to forget it by.
    pub(crate) id: u64,
    pub(crate) domain: String,
    /// Where the rule stands, and its name.
    pub(crate) path: String,
    pub(crate) rule: String,
    /// Keys and values of the descriptor.
    pub(crate) entries: Vec<(String, String)>,
    /// When this server first met the block.
    pub(crate) since: Time,
    /// No block lasts longer; the limit itself may keep it from passing until then.
    pub(crate) until: Time,
    /// How often it was denied here since then.
    pub(crate) denied: u64,
}

impl BlockedKeys {
    /// Takes note of a decision that a block made, or that began one.
    pub(crate) fn note(&self, event: &Event<'_>) {
        let Some(decision) = event.decision.filter(|own| own.is_blocked) else { return };
        let Some(rule) = event.reply.rule(decision) else { return };
        let now = event.reply.now;
        let wait = match decision.verdict {
            Verdict::Deny { retry_after: Some(wait) } => wait,
            Verdict::Deny { retry_after: None } | Verdict::Allow | Verdict::Delay { .. } => {
                decision.reset_after
            }
        };
        let entries = event.entries();
        let id = self.hasher.hash_one((event.request.domain, &rule.path, rule.name(), entries));
        if let Some(block) = self.known.read().keys.get(&id).filter(|block| block.key.until > now) {
            block.denied.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let bytes: usize = entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
        let mut known = self.known.write();
        if bytes > NAME_BYTES_MAX || !known.has_room(id, now) {
            self.unlisted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let key = BlockedKey {
            id,
            domain: event.request.domain.to_owned(),
            path: rule.path.clone(),
            rule: rule.name().to_owned(),
            entries: entries.iter().map(|entry| (entry.key.to_owned(), entry.value.to_owned())).collect(),
            since: now,
            until: now + wait,
            denied: 0,
        };
        known.first_end = known.first_end.min(key.until);
        known.keys.insert(id, NotedBlock { key, denied: AtomicU64::new(1) });
    }

    /// All that may be blocked still, those that wait longest first.
    pub(crate) fn list(&self, now: Time) -> Vec<BlockedKey> {
        let known = self.known.read();
        let read = |block: &NotedBlock| BlockedKey {
            denied: block.denied.load(Ordering::Relaxed),
            ..block.key.clone()
        };
        let lasting = known.keys.values().filter(|block| block.key.until > now);
        let mut keys: Vec<BlockedKey> = lasting.map(read).collect();
        keys.sort_unstable_by(|one, other| (other.until, one.id).cmp(&(one.until, other.id)));
        keys
    }

    /// How many requests met a block that had no room in the list.
    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted.load(Ordering::Relaxed)
    }

    /// The store says that a key is not blocked.
    pub(crate) fn forget(&self, id: u64) {
        self.known.write().keys.remove(&id);
    }
}

impl Known {
    /// Makes room if it can. Only what has ended is thrown out, and looked for only when something has.
    fn has_room(&mut self, id: u64, now: Time) -> bool {
        if self.keys.len() >= KEYS_MAX && self.first_end <= now {
            self.keys.retain(|_, block| block.key.until > now);
            self.first_end = self.keys.values().map(|block| block.key.until).min().unwrap_or(Time::MAX);
        }
        self.keys.len() < KEYS_MAX || self.keys.contains_key(&id)
    }
}
