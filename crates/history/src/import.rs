//! Fills a history from the logs of web servers.
//!
//! The command line opens files and shows progress; here lines are counted and
//! written. A line counts as one allowed request to its path.
//!
//! Invariant: no line counts twice. Each piece that is written is named by the
//! hash of the log from its beginning to the piece's end. A log that is imported
//! again is recognised by these hashes up to where it was imported, so a log that
//! has grown, was compressed, renamed, or stopped half-way goes on from there.

use std::collections::BTreeSet;
use std::io::BufRead;

use sha2::{Digest as _, Sha256};
use tollgate_core::Time;

use crate::access_log::Line;
use crate::codec::bytes::wide;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::flush::{Flush, FlushName, Instance, Tally};
use crate::recorder::{Caps, Filter};
use crate::route::normalise;
use crate::store::History;
use tollgate_core::Outcome;

/// Lines that are written at once.
const LINES_AT_ONCE: u64 = 50_000;

/// The longest line; the rest of a longer one is read as lines of their own,
/// which nobody understands.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Tells the pieces of logs from the flushes of processes, which count from 1.
const PIECE: u64 = 1 << 63;

/// What became of a log.
///
/// ```
/// use tollgate_history::import::Imported;
/// assert_eq!(Imported::default().read, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Imported {
    /// Lines that were read now.
    pub read: u64,
    /// Lines that count now.
    pub imported: u64,
    /// Lines in neither format.
    pub not_understood: u64,
    /// Bytes that were imported before.
    pub known_bytes: u64,
}

/// Imports logs into one history.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_history::engine::Memory;
/// use tollgate_history::import::Importer;
/// use tollgate_history::{Bounds, History};
/// let mut history = History::open(Memory::default(), Bounds::default())?;
/// let log = "h - - [01/Aug/1995:00:00:01 -0400] \"GET /a HTTP/1.0\" 200 1\nnonsense\n";
/// let mut importer = Importer::new(&mut history, Time::from_secs(1_800_000_000));
/// let first = importer.import(|| Ok(log.as_bytes()), &mut |_| ())?;
/// assert_eq!((first.read, first.imported, first.not_understood), (2, 1, 1));
/// let again = importer.import(|| Ok(log.as_bytes()), &mut |_| ())?;
/// assert_eq!((again.read, again.imported), (0, 0));
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug)]
pub struct Importer<'a, E> {
    history: &'a mut History<E>,
    filter: Filter,
    now: Time,
}

/// The log so far: how much, and its hash.
#[derive(Debug, Clone, Default)]
struct Prefix {
    bytes: u64,
    hash: Sha256,
}

impl Prefix {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += wide(bytes.len());
        self.hash.update(bytes);
    }

    fn name(&self) -> FlushName {
        let digest = self.hash.clone().finalize();
        let instance = digest.first_chunk::<16>().copied().unwrap_or_default();
        FlushName { instance: Instance(instance), seq: self.bytes | PIECE }
    }
}

impl<'a, E: Engine> Importer<'a, E> {
    /// Imports into that history.
    pub fn new(history: &'a mut History<E>, now: Time) -> Self {
        Self { history, filter: Filter::new(Caps::default()), now }
    }

    /// Imports what `open` gives, which is called twice if it may be known.
    /// `progress` is told how many bytes are done.
    ///
    /// # Errors
    ///
    /// If the log cannot be read or the history not written. What was written
    /// stays written; import the same log again.
    pub fn import<R: BufRead>(
        &mut self,
        open: impl Fn() -> std::io::Result<R>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Imported> {
        let known = self.known_prefix(&open)?;
        let mut imported = Imported { known_bytes: known.bytes, ..Imported::default() };
        let mut log = open().map_err(unreadable)?;
        skip(&mut log, known.bytes)?;
        let mut prefix = known;
        let mut tally = Tally::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut piece = std::io::Read::take(&mut log, LINE_BYTES_MAX);
            let length = piece.read_until(b'\n', &mut line).map_err(unreadable)?;
            if length > 0 {
                prefix.add(&line);
                imported.read += 1;
                count(&line, &mut tally, &mut imported);
            }
            let is_full = imported.read.is_multiple_of(LINES_AT_ONCE);
            if imported.read > 0 && (length == 0 || is_full) {
                self.write(&prefix, std::mem::take(&mut tally))?;
            }
            if length == 0 || imported.read.is_multiple_of(1_000) {
                progress(prefix.bytes);
            }
            if length == 0 {
                return Ok(imported);
            }
        }
    }

    /// The longest part of the log that was imported before.
    fn known_prefix<R: BufRead>(&self, open: &impl Fn() -> std::io::Result<R>) -> Result<Prefix> {
        let pieces = self.history.instances()?.into_iter().filter(|(_, seq)| seq & PIECE != 0);
        let known: BTreeSet<(u64, Instance)> = pieces.map(|(name, seq)| (seq & !PIECE, name)).collect();
        let mut longest = Prefix::default();
        if known.is_empty() {
            return Ok(longest);
        }
        let mut log = open().map_err(unreadable)?;
        let mut prefix = Prefix::default();
        let lengths: BTreeSet<u64> = known.iter().map(|(length, _)| *length).collect();
        for length in lengths {
            if !read_up_to(&mut log, length, &mut prefix)? {
                break;
            }
            if known.contains(&(length, prefix.name().instance)) {
                longest = prefix.clone();
            }
        }
        Ok(longest)
    }

    fn write(&mut self, prefix: &Prefix, mut tally: Tally) -> Result<()> {
        let newest = tally.minutes().last().unwrap_or(0);
        self.filter.choose(&mut tally, newest);
        self.history.append(&Flush { name: prefix.name(), tally })?;
        self.history.maintain(self.now)
    }
}

fn count(line: &[u8], tally: &mut Tally, imported: &mut Imported) {
    let text = String::from_utf8_lossy(line);
    let parsed = Line::parse(text.trim_end());
    let minute = parsed.and_then(|line| u32::try_from(line.second / 60).ok());
    match (parsed, minute) {
        (Some(line), Some(minute)) => {
            tally.add_request(minute, Some(&normalise(line.target)), Outcome::Allowed);
            imported.imported += 1;
        }
        _ => imported.not_understood += 1,
    }
}

/// Reads on until the prefix is so long; false if the log ends before.
fn read_up_to(log: &mut impl BufRead, length: u64, prefix: &mut Prefix) -> Result<bool> {
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
    let mut ignored = Prefix::default();
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
