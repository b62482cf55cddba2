//! Fills a history from access logs.
//!
//! The command line opens files, shows progress and says what a line is; here lines
//! are counted and appended.
//!
//! Invariant: a log is counted once, from its first line on. Each piece that is
//! written has the hash of the log up to its end as instance id. A log that is
//! imported again is recognised by these hashes as far as it was imported, so one
//! that has grown, was compressed or renamed, or whose import was stopped half-way
//! goes on from there.
//!
//! Deliberately not here: the formats of logs.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::ops::AddAssign;

use sha2::{Digest as _, Sha256};
use tollgate_core::{Outcome, Time};

use crate::bytes::wide;
use crate::error::{Error, Result};
use crate::flush::{Flush, FlushId, InstanceId, TrafficCounts, is_future};
use crate::recorder::{Caps, NameFilter};
use crate::store::History;

/// Lines that are written at once.
const LINES_AT_ONCE: u64 = 50_000;

/// The longest line; the rest of a longer one is read as further lines, which are not
/// understood.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Set in the sequence numbers of pieces of logs; those of processes count from 1.
const PIECE: u64 = 1 << 63;

/// What a line of a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportLine {
    /// A request.
    Request {
        /// When, in seconds since the epoch.
        second: u64,
        /// What was asked for, as it is counted.
        route: String,
        /// What came of it.
        outcome: Outcome,
    },
    /// Nothing, or a comment of the log.
    Comment,
    /// Anything else.
    NotUnderstood,
}

/// What was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ImportReport {
    /// Lines that were read.
    pub read: u64,
    /// Lines that were counted.
    pub imported: u64,
    /// Those of them that count as denied.
    pub denied: u64,
    /// Lines that are no requests.
    pub not_understood: u64,
    /// Lines that are dated in the future, and were not counted.
    pub future: u64,
    /// Bytes that were imported before.
    pub known_bytes: u64,
}

/// Of several logs.
impl AddAssign for ImportReport {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.imported += other.imported;
        self.denied += other.denied;
        self.not_understood += other.not_understood;
        self.future += other.future;
        self.known_bytes += other.known_bytes;
    }
}

/// Imports logs into one history.
///
/// ```
/// use tollgate_core::{Outcome, Time};
/// use tollgate_history::import::{ImportLine, Importer};
/// use tollgate_history::tables::MemoryTables;
/// use tollgate_history::{Bounds, LocalHistory};
/// let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default())?;
/// let log = "/a\nnonsense\n";
/// let mut read = |line: &[u8]| match line {
///     b"/a\n" => ImportLine::Request { second: 1, route: "/a".into(), outcome: Outcome::Allowed },
///     _ => ImportLine::NotUnderstood,
/// };
/// let mut importer = Importer::new(&mut history, Time::from_secs(1_800_000_000));
/// let first = importer.import(|| Ok(log.as_bytes()), &mut read)?;
/// assert_eq!((first.read, first.imported, first.not_understood), (2, 1, 1));
/// let again = importer.import(|| Ok(log.as_bytes()), &mut read)?;
/// assert_eq!((again.read, again.imported), (0, 0));
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug)]
pub struct Importer<'a, H> {
    history: &'a mut H,
    filter: NameFilter,
    now: Time,
    allows_future: bool,
}

/// The log so far: its length and its hash.
#[derive(Debug, Clone, Default)]
struct LogPrefix {
    bytes: u64,
    hash: Sha256,
}

impl LogPrefix {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += wide(bytes.len());
        self.hash.update(bytes);
    }

    fn id(&self) -> FlushId {
        let digest = self.hash.clone().finalize();
        let instance = digest.first_chunk::<16>().copied().unwrap_or_default();
        FlushId { instance: InstanceId(instance), seq: self.bytes | PIECE }
    }
}

impl<'a, H: History> Importer<'a, H> {
    /// Imports into that history.
    pub fn new(history: &'a mut H, now: Time) -> Self {
        Self { history, filter: NameFilter::new(Caps::default()), now, allows_future: false }
    }

    /// Lines that are dated in the future count, too.
    #[must_use]
    pub fn allow_future(self) -> Self {
        Self { allows_future: true, ..self }
    }

    /// Imports what `open` gives; it is called twice if some of it may be known.
    /// `read` says what a line is; it gets all lines that are not known, in their order.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or the history cannot be written. What was written
    /// stays; import the same log again.
    pub fn import<R: BufRead>(
        &mut self,
        open: impl Fn() -> std::io::Result<R>,
        read: &mut dyn FnMut(&[u8]) -> ImportLine,
    ) -> Result<ImportReport> {
        let known = self.known_prefix(&open)?;
        let mut imported = ImportReport { known_bytes: known.bytes, ..ImportReport::default() };
        let mut log = open().map_err(unreadable)?;
        skip(&mut log, known.bytes)?;
        let mut prefix = known;
        let mut counts = TrafficCounts::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut piece = std::io::Read::take(&mut log, LINE_BYTES_MAX);
            let length = piece.read_until(b'\n', &mut line).map_err(unreadable)?;
            if length > 0 {
                prefix.add(&line);
                imported.read += 1;
                self.count(read(&line), &mut counts, &mut imported);
            }
            let is_full = imported.read.is_multiple_of(LINES_AT_ONCE);
            if imported.read > 0 && (length == 0 || is_full) {
                self.write(&prefix, std::mem::take(&mut counts))?;
            }
            if length == 0 {
                return Ok(imported);
            }
        }
    }

    /// The longest prefix of the log that was imported before.
    fn known_prefix<R: BufRead>(&self, open: &impl Fn() -> std::io::Result<R>) -> Result<LogPrefix> {
        let pieces = self.history.reader()?.instances()?.into_iter().filter(|(_, seq)| seq & PIECE != 0);
        let known: BTreeSet<(u64, InstanceId)> = pieces.map(|(id, seq)| (seq & !PIECE, id)).collect();
        let mut longest = LogPrefix::default();
        if known.is_empty() {
            return Ok(longest);
        }
        let mut log = open().map_err(unreadable)?;
        let mut prefix = LogPrefix::default();
        let lengths: BTreeSet<u64> = known.iter().map(|(length, _)| *length).collect();
        for length in lengths {
            if !read_up_to(&mut log, length, &mut prefix)? {
                break;
            }
            if known.contains(&(length, prefix.id().instance)) {
                longest = prefix.clone();
            }
        }
        Ok(longest)
    }

    fn count(&self, line: ImportLine, counts: &mut TrafficCounts, imported: &mut ImportReport) {
        let (second, route, outcome) = match line {
            ImportLine::Request { second, route, outcome } => (second, route, outcome),
            ImportLine::Comment => return,
            ImportLine::NotUnderstood => return imported.not_understood += 1,
        };
        match u32::try_from(second / 60) {
            Ok(_) if is_future(second, self.now) && !self.allows_future => imported.future += 1,
            Ok(minute) => {
                counts.add_request(minute, Some(&route), outcome);
                imported.imported += 1;
                imported.denied += u64::from(outcome == Outcome::Denied);
            }
            Err(_) => imported.not_understood += 1,
        }
    }

    fn write(&mut self, prefix: &LogPrefix, mut counts: TrafficCounts) -> Result<()> {
        let newest = counts.minutes().last().unwrap_or(0);
        self.filter.choose(&mut counts, newest);
        self.history.append(&Flush { id: prefix.id(), counts })?;
        self.history.maintain(self.now)
    }
}

/// Reads until the prefix has that length; false if the log ends before.
fn read_up_to(log: &mut impl BufRead, length: u64, prefix: &mut LogPrefix) -> Result<bool> {
    while prefix.bytes < length {
        let buffer = log.fill_buf().map_err(unreadable)?;
        if buffer.is_empty() {
            return Ok(false);
        }
        let missing = usize::try_from(length - prefix.bytes).unwrap_or(usize::MAX);
        let taken = buffer.get(..missing).unwrap_or(buffer);
        prefix.add(taken);
        let used = taken.len();
        log.consume(used);
    }
    Ok(true)
}

fn skip(log: &mut impl BufRead, bytes: u64) -> Result<()> {
    let mut ignored = LogPrefix::default();
    while ignored.bytes < bytes {
        let buffer = log.fill_buf().map_err(unreadable)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let used = wide(buffer.len()).min(bytes - ignored.bytes);
        ignored.bytes += used;
        log.consume(usize::try_from(used).unwrap_or(0));
    }
    Ok(())
}

fn unreadable(source: std::io::Error) -> Error {
    Error::File { action: "read", path: "the log".into(), source }
}
