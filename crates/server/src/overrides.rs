//! Exceptions that operators make for one descriptor, with an end, a reason and a name.
//!
//! The admin pages put and remove them here, through the service, which hands the limiter the table
//! of those in force. On Redis all nodes share them and look twice a second whether anything has
//! changed; otherwise they are in a file of the data folder.
//!
//! | module | what it holds |
//! |---|---|
//! | `record` | one override, and one line of the log |
//! | `file` | both in a file |
//!
//! Invariants: overrides and log are bounded. While Redis cannot be asked nothing is changed, and
//! what was known last is in force until it ends. A file is replaced as a whole, so that a crash
//! leaves the old one or the new one.
//!
//! Deliberately not here: what an override does to a request (`tollgate_limiter::overrides`).

mod file;
mod record;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::{Entry, Time};
use tollgate_limiter::overrides::{OverrideEntry, OverrideTable};
use tollgate_redis::overrides::{OverrideBounds, OverrideRow, SharedOverrides};

use crate::bounds::{AUDIT_MAX, OVERRIDES_MAX};
use file::{OverrideFile, read, write};
pub(crate) use record::{AuditAction, AuditEntry, OverrideLimit, OverridePair, OverrideRecord};

/// So many looks that show no change are followed by one that reads everything, should Redis have
/// lost what it knew and come to the same version again.
const LOOKS_BETWEEN_READS: u32 = 20;

const BOUNDS: OverrideBounds = OverrideBounds { rows: OVERRIDES_MAX, audit: AUDIT_MAX };

/// The overrides of this server.
#[derive(Debug)]
pub struct OverrideService {
    place: OverridePlace,
    /// What is in force, by name.
    known: Mutex<BTreeMap<String, OverrideRecord>>,
    /// Only where it is kept in a file or not at all.
    audit: Mutex<Vec<AuditEntry>>,
    /// There is a folder, and what is known is not in it yet.
    is_unwritten: AtomicBool,
}

/// Where overrides are kept.
#[derive(Debug)]
enum OverridePlace {
    /// In the memory of this process, and in a folder if it has one.
    Own(Option<PathBuf>),
    /// In the Redis of all nodes.
    Redis(SharedOverrides),
}

/// How far a node has followed the changes of others.
#[derive(Debug, Default)]
pub struct OverrideWatch {
    version: Option<String>,
    looks_left: u32,
}

/// When something is done, and whether the data folder is this process' own to write to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepingTurn {
    pub(crate) now: Time,
    pub(crate) is_owner: bool,
}

/// An override to remove; `who` and `reason` go into the log.
#[derive(Debug)]
pub(crate) struct OverrideRemoval {
    pub(crate) id: String,
    pub(crate) who: String,
    pub(crate) reason: String,
}

/// Why an override is not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OverrideError {
    #[error("there are {OVERRIDES_MAX} overrides already")]
    Full,
    #[error("there is no override with this id")]
    Missing,
    #[error("Redis could not be asked ({0})")]
    Redis(&'static str),
    #[error("the override cannot be written to the data folder: {0}")]
    File(std::io::Error),
}

/// Nothing is kept anywhere.
impl Default for OverrideService {
    fn default() -> Self {
        Self::of(OverridePlace::Own(None))
    }
}

impl OverrideService {
    fn of(place: OverridePlace) -> Self {
        let is_unwritten = AtomicBool::new(false);
        Self { place, known: Mutex::default(), audit: Mutex::default(), is_unwritten }
    }

    /// Shared by all nodes.
    pub fn on_redis(shared: SharedOverrides) -> Self {
        Self::of(OverridePlace::Redis(shared))
    }

    /// Kept in a folder, with what is there already.
    pub fn in_folder(folder: PathBuf) -> Self {
        let OverrideFile { overrides, audit } = read(&folder);
        let known = overrides.into_iter().map(|record| (record.name(), record)).collect();
        let place = OverridePlace::Own(Some(folder));
        Self { known: Mutex::new(known), audit: Mutex::new(audit), ..Self::of(place) }
    }

    /// Where they are kept: `redis`, `folder`, or `memory` until the process ends.
    pub(crate) fn place(&self) -> &'static str {
        match &self.place {
            OverridePlace::Own(Some(_)) if !self.is_unwritten.load(Ordering::Relaxed) => "folder",
            OverridePlace::Own(_) => "memory",
            OverridePlace::Redis(_) => "redis",
        }
    }

    /// Those in force, the first to end first.
    pub(crate) fn list(&self, now: Time) -> Vec<OverrideRecord> {
        let mut list: Vec<OverrideRecord> =
            self.known.lock().values().filter(|record| record.is_in_force(now)).cloned().collect();
        list.sort_by_key(|record| record.expires_at_unix_s);
        list
    }

    /// Puts an override in the place of one for the same descriptor and rule, if there is one.
    pub(crate) async fn put(&self, record: OverrideRecord, turn: KeepingTurn) -> Result<(), OverrideError> {
        let note = AuditEntry::new(AuditAction::Put, &record, turn.now);
        match &self.place {
            OverridePlace::Redis(shared) => {
                let row = row_of(&record);
                let is_put = shared.put(&row, &note.to_json(), BOUNDS).await;
                if !is_put.map_err(|failure| OverrideError::Redis(failure.name()))? {
                    return Err(OverrideError::Full);
                }
                self.known.lock().insert(record.name(), record);
            }
            OverridePlace::Own(folder) => {
                let mut known = self.known.lock();
                known.retain(|_, record| record.is_in_force(turn.now));
                if known.len() >= OVERRIDES_MAX && !known.contains_key(&record.name()) {
                    return Err(OverrideError::Full);
                }
                let before = known.insert(record.name(), record.clone());
                if let Err(error) = self.keep(folder.as_ref(), turn, &known, Some(note)) {
                    match before {
                        Some(before) => drop(known.insert(before.name(), before)),
                        None => drop(known.remove(&record.name())),
                    }
                    return Err(OverrideError::File(error));
                }
            }
        }
        Ok(())
    }

    /// Removes an override.
    pub(crate) async fn remove(
        &self,
        removal: OverrideRemoval,
        turn: KeepingTurn,
    ) -> Result<OverrideRecord, OverrideError> {
        let OverrideRemoval { id, who, reason } = removal;
        let found = self.known.lock().values().find(|record| record.id == id).cloned();
        let record = found.filter(|record| record.is_in_force(turn.now)).ok_or(OverrideError::Missing)?;
        let told = OverrideRecord { who, reason, ..record.clone() };
        let note = AuditEntry::new(AuditAction::Remove, &told, turn.now);
        match &self.place {
            OverridePlace::Redis(shared) => {
                let is_removed = shared.remove(&row_of(&record), Some(&note.to_json()), BOUNDS).await;
                if !is_removed.map_err(|failure| OverrideError::Redis(failure.name()))? {
                    return Err(OverrideError::Missing);
                }
                self.known.lock().remove(&record.name());
            }
            OverridePlace::Own(folder) => {
                let mut known = self.known.lock();
                known.remove(&record.name());
                if let Err(error) = self.keep(folder.as_ref(), turn, &known, Some(note)) {
                    known.insert(record.name(), record);
                    return Err(OverrideError::File(error));
                }
            }
        }
        Ok(record)
    }

    /// What changed, the newest first.
    pub(crate) async fn audit(&self, most: usize) -> Result<Vec<AuditEntry>, OverrideError> {
        let OverridePlace::Redis(shared) = &self.place else {
            return Ok(self.audit.lock().iter().rev().take(most).cloned().collect());
        };
        let lines = shared.audit(most).await.map_err(|failure| OverrideError::Redis(failure.name()))?;
        Ok(lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Writes what is known, if there is a folder and it is this process' own; until then it is
    /// in memory.
    fn keep(
        &self,
        folder: Option<&PathBuf>,
        turn: KeepingTurn,
        known: &BTreeMap<String, OverrideRecord>,
        note: Option<AuditEntry>,
    ) -> std::io::Result<()> {
        let mut audit = self.audit.lock();
        let before = audit.len();
        audit.extend(note);
        if let Some(folder) = folder.filter(|_| turn.is_owner) {
            let overrides = known.values().cloned().collect();
            let excess = audit.len().saturating_sub(AUDIT_MAX);
            let kept = audit.iter().skip(excess).cloned().collect();
            if let Err(error) = write(folder, &OverrideFile { overrides, audit: kept }) {
                audit.truncate(before);
                return Err(error);
            }
        }
        self.is_unwritten.store(folder.is_some() && !turn.is_owner, Ordering::Relaxed);
        let excess = audit.len().saturating_sub(AUDIT_MAX);
        audit.drain(..excess);
        Ok(())
    }

    /// What the limiter is to obey.
    pub(crate) fn table(&self, now: Time) -> OverrideTable {
        let mut table = OverrideTable::default();
        for record in self.known.lock().values().filter(|record| record.is_in_force(now)) {
            let entries: Vec<Entry<'_>> =
                record.descriptor.iter().map(|pair| Entry { key: &pair.key, value: &pair.value }).collect();
            let (rule, effect) = (record.rule.clone(), record.limit.effect());
            let until = Time::from_secs(record.expires_at_unix_s);
            table.insert(&record.domain, &entries, OverrideEntry { rule, effect, until });
        }
        table
    }

    /// Looks for changes of other nodes, and drops what has ended; whether there may be another table.
    pub(crate) async fn follow(&self, watch: &mut OverrideWatch, turn: KeepingTurn) -> bool {
        let shared = match &self.place {
            OverridePlace::Own(folder) => return self.drop_ended(folder.as_ref(), turn),
            OverridePlace::Redis(shared) => shared,
        };
        let Ok(newest) = shared.version().await else { return false };
        if newest == watch.version && watch.looks_left > 0 {
            watch.looks_left -= 1;
            return false;
        }
        let is_read = self.take_rows(turn.now, shared).await;
        if is_read {
            *watch = OverrideWatch { version: newest, looks_left: LOOKS_BETWEEN_READS };
        }
        is_read
    }

    fn drop_ended(&self, folder: Option<&PathBuf>, turn: KeepingTurn) -> bool {
        let mut known = self.known.lock();
        let before = known.len();
        known.retain(|_, record| record.is_in_force(turn.now));
        let has_ended = known.len() < before;
        if (has_ended || self.is_unwritten.load(Ordering::Relaxed))
            && let Err(error) = self.keep(folder, turn, &known, None)
        {
            tracing::warn!("cannot write the overrides in force: {error}");
        }
        has_ended
    }

    /// Reads all rows; whether that went well. What has ended is removed by whoever sees it first.
    async fn take_rows(&self, now: Time, shared: &SharedOverrides) -> bool {
        let Ok(rows) = shared.rows().await else { return false };
        let mut known = BTreeMap::new();
        for row in rows {
            match serde_json::from_str::<OverrideRecord>(&row.1) {
                Ok(record) if record.is_in_force(now) => drop(known.insert(record.name(), record)),
                // Should it fail, the next reader does it.
                Ok(_) => drop(shared.remove(&row, None, BOUNDS).await),
                Err(error) => tracing::warn!("an override in Redis is not understood: {error}"),
            }
        }
        *self.known.lock() = known;
        true
    }
}

fn row_of(record: &OverrideRecord) -> OverrideRow {
    (record.name(), record.to_json())
}
