//! The queue in a file of this node: redb, which commits with an fsync.
//!
//! | table | key → value |
//! |---|---|
//! | `requests` | number → bytes of the request |
//! | `waiting` | id → number, attempts, not before |
//! | `ended` | id → bytes of the result |
//! | `ended_at` | time, id → bytes that the result takes |
//!
//! Invariants: numbers only grow, and are the order of the queue. A request is in `waiting` or in
//! `ended` and never in both, because it moves in one commit. Results are dropped oldest first.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::path::Path;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};
use tollgate_core::{Micros, Time};

use crate::config::{BACKOFF_MAX, DeferConfig};
use crate::error::DeferError;
use crate::id::DeferredId;
use crate::queue::{DeferQueue, QueueChange, QueueReply, QueueSize, TakenRequests};
use crate::request::{DeferredEnd, DeferredRequest, DeferredState, DeferredStatus, SendProgress};

/// The file.
const FILE: &str = "deferred.redb";
/// Page cache, in bytes: bodies are read once, so that little is gained by more.
const CACHE_BYTES: usize = 8 << 20;
/// Requests that are given out at once, so that a full queue is not read in one go.
const TAKEN_MAX: usize = 1_000;

/// Number, attempts, not before.
type WaitingRow = (u64, u32, u64);

const REQUESTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("requests");
const WAITING: TableDefinition<'_, [u8; 16], WaitingRow> = TableDefinition::new("waiting");
const ENDED: TableDefinition<'_, [u8; 16], &[u8]> = TableDefinition::new("ended");
const ENDED_AT: TableDefinition<'_, (u64, [u8; 16]), u64> = TableDefinition::new("ended_at");

/// The queue in a file of this node.
#[derive(Debug)]
pub struct EmbeddedQueue {
    database: Database,
    config: DeferConfig,
    counts: QueueCounts,
    /// The number of the next request.
    next: u64,
    /// The number after the last request that was given out.
    given: u64,
    /// Requests that are on their way; after a restart none is.
    sending: HashSet<DeferredId>,
}

/// What the file holds.
#[derive(Debug, Clone, Copy, Default)]
struct QueueCounts {
    waiting: QueueSize,
    ended: QueueSize,
}

impl EmbeddedQueue {
    /// Whether a folder has a queue.
    pub fn exists(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Opens the queue of a folder, which must exist; the file is created if it is missing.
    ///
    /// # Errors
    /// If it cannot be opened, another process has it, or it is damaged.
    pub fn open(folder: &Path, config: DeferConfig) -> Result<Self, DeferError> {
        let path = folder.join(FILE);
        let failed = |source| DeferError::Open { path: path.clone(), source };
        let file = open_private(&path).map_err(|error| failed(error.into()))?;
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let mut database = builder.create_file(file).map_err(|error| failed(error.into()))?;
        database.check_integrity().map_err(|error| failed(error.into()))?;
        let write = database.begin_write().map_err(DeferError::store)?;
        let (counts, next) = count(&write).map_err(DeferError::store)?;
        write.commit().map_err(DeferError::store)?;
        Ok(Self { database, config, counts, next, given: 0, sending: HashSet::new() })
    }

    /// Whether requests that are to be started are still there.
    fn are_waiting(&self, changes: &[QueueChange]) -> Result<Vec<QueueReply>, redb::Error> {
        let waiting = self.database.begin_read()?.open_table(WAITING)?;
        let reply = |change: &QueueChange| {
            let QueueChange::Start(id) = change else { return Ok(QueueReply::NotOurs) };
            Ok(start_reply(waiting.get(id.bytes())?.is_some()))
        };
        changes.iter().map(reply).collect()
    }

    fn apply_all(
        &mut self,
        changes: &[QueueChange],
        now: Time,
    ) -> Result<(Vec<QueueReply>, QueueCounts, u64), redb::Error> {
        let write = self.database.begin_write()?;
        let mut step =
            QueueStep { write: &write, config: &self.config, counts: self.counts, next: self.next };
        let replies = changes.iter().map(|change| step.apply(change, now)).collect::<Result<_, _>>()?;
        step.drop_results(now)?;
        let (counts, next) = (step.counts, step.next);
        write.commit()?;
        Ok((replies, counts, next))
    }
}

const fn start_reply(is_there: bool) -> QueueReply {
    if is_there { QueueReply::Done } else { QueueReply::NotOurs }
}

/// Only its owner may read what others sent.
fn open_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates the tables, and counts what is in them.
fn count(write: &WriteTransaction) -> Result<(QueueCounts, u64), redb::Error> {
    let (requests, ended_at) = (write.open_table(REQUESTS)?, write.open_table(ENDED_AT)?);
    write.open_table(WAITING)?;
    write.open_table(ENDED)?;
    let (mut counts, mut next) = (QueueCounts::default(), 0);
    for row in requests.iter()? {
        let (number, bytes) = row?;
        counts.waiting.add(bytes.value().len());
        next = number.value().saturating_add(1);
    }
    for row in ended_at.iter()? {
        counts.ended.add(usize::try_from(row?.1.value()).unwrap_or(usize::MAX));
    }
    Ok((counts, next))
}

impl QueueSize {
    fn add(&mut self, bytes: usize) {
        self.requests = self.requests.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    fn remove(&mut self, bytes: usize) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Whether it is beyond the bounds.
    fn is_beyond(self, config: &DeferConfig) -> bool {
        let above = |count: u64, max: usize| usize::try_from(count).is_ok_and(|count| count > max);
        above(self.requests, config.max_requests) || above(self.bytes, config.max_bytes)
    }
}

/// Changes that become durable together.
struct QueueStep<'a> {
    write: &'a WriteTransaction,
    config: &'a DeferConfig,
    counts: QueueCounts,
    next: u64,
}

impl QueueStep<'_> {
    fn apply(&mut self, change: &QueueChange, now: Time) -> Result<QueueReply, redb::Error> {
        match change {
            QueueChange::Accept(request) => self.accept(request),
            // That it is on its way need not survive a crash: it is sent again either way.
            QueueChange::Start(id) => {
                let is_there = self.write.open_table(WAITING)?.get(id.bytes())?.is_some();
                Ok(start_reply(is_there))
            }
            QueueChange::Retry(id, progress) => {
                let mut waiting = self.write.open_table(WAITING)?;
                let number = waiting.get(id.bytes())?.map(|row| row.value().0);
                let Some(number) = number else { return Ok(QueueReply::NotOurs) };
                waiting.insert(id.bytes(), (number, progress.attempts, progress.not_before.get()))?;
                Ok(QueueReply::Done)
            }
            QueueChange::Finish(id, attempts, end) => self.finish(*id, end.encode(*attempts), now),
        }
    }

    fn accept(&mut self, request: &DeferredRequest) -> Result<QueueReply, redb::Error> {
        let bytes = request.encode();
        let mut waiting = self.counts.waiting;
        waiting.add(bytes.len());
        if waiting.is_beyond(self.config) {
            return Ok(QueueReply::Full);
        }
        self.write.open_table(REQUESTS)?.insert(self.next, bytes.as_slice())?;
        self.write.open_table(WAITING)?.insert(request.id.bytes(), (self.next, 0, 0))?;
        self.counts.waiting = waiting;
        self.next = self.next.saturating_add(1);
        Ok(QueueReply::Done)
    }

    fn finish(&mut self, id: DeferredId, result: Vec<u8>, now: Time) -> Result<QueueReply, redb::Error> {
        let row = self.write.open_table(WAITING)?.remove(id.bytes())?.map(|row| row.value().0);
        let Some(number) = row else { return Ok(QueueReply::NotOurs) };
        let mut requests = self.write.open_table(REQUESTS)?;
        if let Some(bytes) = requests.remove(number)? {
            self.counts.waiting.remove(bytes.value().len());
        }
        self.write.open_table(ENDED)?.insert(id.bytes(), result.as_slice())?;
        let length = u64::try_from(result.len()).unwrap_or(u64::MAX);
        self.write.open_table(ENDED_AT)?.insert((now.get(), *id.bytes()), length)?;
        self.counts.ended.add(result.len());
        Ok(QueueReply::Done)
    }

    /// Drops results that were kept for long enough, or for which there is no room.
    fn drop_results(&mut self, now: Time) -> Result<(), redb::Error> {
        let old = now.before(Micros::from(self.config.keep_results));
        let (mut ended, mut ended_at) = (self.write.open_table(ENDED)?, self.write.open_table(ENDED_AT)?);
        loop {
            let first = ended_at.first()?.map(|(key, bytes)| (key.value(), bytes.value()));
            let Some(((at, id), bytes)) = first else { break };
            if Time::new(at) >= old && !self.counts.ended.is_beyond(self.config) {
                break;
            }
            ended.remove(id)?;
            ended_at.remove((at, id))?;
            self.counts.ended.remove(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(())
    }
}

impl DeferQueue for EmbeddedQueue {
    fn apply(&mut self, changes: &[QueueChange], now: Time) -> Result<Vec<QueueReply>, DeferError> {
        let is_start = |change: &QueueChange| matches!(change, QueueChange::Start(_));
        // A start alone writes nothing, and so waits for no disk.
        let replies = if changes.iter().all(is_start) {
            self.are_waiting(changes).map_err(DeferError::store)?
        } else {
            let (replies, counts, next) = self.apply_all(changes, now).map_err(DeferError::store)?;
            (self.counts, self.next) = (counts, next);
            replies
        };
        for (change, reply) in changes.iter().zip(&replies) {
            match change {
                QueueChange::Start(id) if *reply == QueueReply::Done => drop(self.sending.insert(*id)),
                QueueChange::Retry(id, _) | QueueChange::Finish(id, ..) => drop(self.sending.remove(id)),
                QueueChange::Start(_) | QueueChange::Accept(_) => {}
            }
        }
        Ok(replies)
    }

    fn take(&mut self, now: Time) -> Result<TakenRequests, DeferError> {
        let mut requests = Vec::new();
        if self.given < self.next {
            let read = self.database.begin_read().map_err(DeferError::store)?;
            let rows = read.open_table(REQUESTS).map_err(DeferError::store)?;
            let waiting = read.open_table(WAITING).map_err(DeferError::store)?;
            for row in rows.range(self.given..).map_err(DeferError::store)?.take(TAKEN_MAX) {
                let (number, bytes) = row.map_err(DeferError::store)?;
                self.given = number.value().saturating_add(1);
                let request = match DeferredRequest::decode(bytes.value()) {
                    Ok(request) => request,
                    Err(error) => {
                        tracing::error!(%error, "a deferred request is lost");
                        continue;
                    }
                };
                let row = waiting.get(request.id.bytes()).map_err(DeferError::store)?;
                let (_, attempts, not_before) = row.map(|row| row.value()).unwrap_or_default();
                // A calendar that was ahead must not hold it up for longer than a pause.
                let not_before = Time::new(not_before).min(now + BACKOFF_MAX);
                requests.push((request, SendProgress { attempts, not_before }));
            }
        }
        Ok(TakenRequests { requests, is_ours: true })
    }

    fn status(&mut self, id: DeferredId) -> Result<Option<DeferredStatus>, DeferError> {
        let read = self.database.begin_read().map_err(DeferError::store)?;
        let ended = read.open_table(ENDED).map_err(DeferError::store)?;
        if let Some(bytes) = ended.get(id.bytes()).map_err(DeferError::store)? {
            let (end, attempts) = DeferredEnd::decode(bytes.value())?;
            return Ok(Some(DeferredStatus { state: DeferredState::Ended(end), attempts }));
        }
        let waiting = read.open_table(WAITING).map_err(DeferError::store)?;
        let row = waiting.get(id.bytes()).map_err(DeferError::store)?;
        let is_sending = self.sending.contains(&id);
        let state = if is_sending { DeferredState::Sending } else { DeferredState::Waiting };
        Ok(row.map(|row| DeferredStatus { state, attempts: row.value().1 }))
    }

    fn size(&mut self) -> Result<QueueSize, DeferError> {
        Ok(self.counts.waiting)
    }
}

#[cfg(test)]
mod tests;
