//! One log → batches of requests, on all cores.
//!
//! A chunk of lines is read, and its pieces parsed and mapped on all cores, while the chunk before it
//! is being decided. `stream.rs` puts the requests in order.
//!
//! Invariant: memory depends on the size of a chunk and of the longest line, not on the length of the log.

use std::io::{self, BufRead, Read as _};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;

use tollgate_accesslog::{LineParser, LogFormat, LogLine, Parsed};

use crate::batch::{Batch, RecordedRequest, second_of};
use crate::line_mapping::{LineMapper, LineMapping};

/// Bytes that are read and parsed at once, by all logs together.
const CHUNK_BYTES: usize = 4 << 20;
/// However many logs there are, a chunk of each is worth the threads that parse it.
const CHUNK_BYTES_MIN: usize = 1 << 18;
/// The longest line; a longer one is not understood, and the rest of it is skipped.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Lines that were not understood are shown up to this number, and each up to this length.
const SHOWN_MAX: usize = 5;
const SHOWN_BYTES_MAX: usize = 200;

/// A log that was opened.
pub struct LogSource {
    /// What people call it.
    pub name: String,
    /// Its lines, unpacked.
    pub lines: Box<dyn BufRead + Send>,
    /// The format of its lines; found out by the first ones if none is given.
    pub format: Option<LogFormat>,
}

impl std::fmt::Debug for LogSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogSource")
            .field("name", &self.name)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// What was read of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    pub(crate) lines: u64,
    pub(crate) not_understood: u64,
    /// Lines that came too late to be sorted.
    pub(crate) late: u64,
    /// Requests that the mapping denies by itself.
    pub(crate) unmapped: u64,
    pub(crate) shown: Vec<String>,
}

impl ReadCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.not_understood += other.not_understood;
        self.late += other.late;
        self.unmapped += other.unmapped;
        let room = SHOWN_MAX.saturating_sub(self.shown.len());
        self.shown.extend(other.shown.into_iter().take(room));
    }
}

/// Some lines of a log.
#[derive(Debug, Default)]
pub(crate) struct ParsedChunk {
    /// In the order of the log.
    pub(crate) batches: Vec<Batch>,
    pub(crate) counts: ReadCounts,
    /// The format of its lines, once that is known.
    pub(crate) format: Option<Arc<LogFormat>>,
}

/// A log that is being read.
pub(crate) struct LogReader<'m> {
    lines: Box<dyn BufRead + Send>,
    format: Option<Arc<LogFormat>>,
    /// What directives of the log have said so far.
    parser: Option<LineParser>,
    line_mapping: &'m LineMapping<'m>,
    chunk: Vec<u8>,
    chunk_bytes: usize,
    is_at_end: bool,
}

impl<'m> LogReader<'m> {
    /// Reads one of so many logs.
    pub(crate) fn new(source: LogSource, line_mapping: &'m LineMapping<'m>, logs: usize) -> Self {
        let wanted = |format: LogFormat| format.with_headers(|name| line_mapping.wants_header(name));
        Self {
            lines: source.lines,
            format: source.format.map(wanted).map(Arc::new),
            parser: None,
            line_mapping,
            chunk: Vec::new(),
            chunk_bytes: (CHUNK_BYTES / logs.max(1)).max(CHUNK_BYTES_MIN),
            is_at_end: false,
        }
    }

    /// The next lines; none at the end.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<ParsedChunk>> {
        if self.is_at_end {
            return Ok(None);
        }
        self.read_chunk()?;
        Ok(Some(self.parse_chunk()))
    }

    /// Reads whole lines.
    fn read_chunk(&mut self) -> io::Result<()> {
        self.chunk.clear();
        let wanted = u64::try_from(self.chunk_bytes).unwrap_or(u64::MAX);
        self.lines.by_ref().take(wanted).read_to_end(&mut self.chunk)?;
        self.is_at_end = self.chunk.len() < self.chunk_bytes;
        let longest = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        if !self.is_at_end && self.chunk.last() != Some(&b'\n') {
            let read = self.lines.by_ref().take(longest).read_until(b'\n', &mut self.chunk)?;
            if self.chunk.last() != Some(&b'\n') {
                // It is the end, or a line the rest of which is not worth the memory.
                self.is_at_end = read < LINE_BYTES_MAX;
                self.lines.skip_until(b'\n')?;
                self.chunk.push(b'\n');
            }
        }
        Ok(())
    }

    fn parse_chunk(&mut self) -> ParsedChunk {
        let lines = || self.chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        if self.format.is_none() {
            let line_mapping = self.line_mapping;
            let format = LogFormat::detect(lines())
                .map(|format| format.with_headers(|name| line_mapping.wants_header(name)));
            self.format = format.map(Arc::new);
        }
        let mut parsed = ParsedChunk { format: self.format.clone(), ..ParsedChunk::default() };
        let Some(format) = &self.format else {
            for line in lines() {
                parsed.counts.lines += 1;
                note_unknown(&mut parsed.counts, line);
            }
            return parsed;
        };
        let parser = self.parser.take().unwrap_or_else(|| LineParser::new(Arc::clone(format)));
        let threads = match format.has_directives() {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        let line_mapping = self.line_mapping;
        let parse = |piece: &[u8]| {
            let mut reader = PieceReader::new(format, parser.clone(), line_mapping, piece.len());
            reader.read(piece);
            reader
        };
        let readers: Vec<PieceReader<'m>> = std::thread::scope(|scope| {
            let pieces = pieces(&self.chunk, threads);
            let (first, others) =
                pieces.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
            let threads: Vec<_> = others.iter().map(|piece| scope.spawn(|| parse(piece))).collect();
            // No line may be lost without a word, not even to a mistake of ours.
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            [parse(first)].into_iter().chain(threads.into_iter().map(join)).collect()
        });
        for PieceReader { parser, batch, counts, .. } in readers {
            self.parser = Some(parser);
            parsed.counts.add(counts);
            parsed.batches.push(batch);
        }
        parsed
    }
}

/// A chunk in as many pieces of whole lines.
fn pieces(chunk: &[u8], count: usize) -> Vec<&[u8]> {
    let size = chunk.len().div_ceil(count.max(1)).max(1);
    let mut pieces = Vec::with_capacity(count);
    let mut rest = chunk;
    while !rest.is_empty() {
        let from = size.min(rest.len()) - 1;
        let end = rest
            .get(from..)
            .and_then(|tail| memchr::memchr(b'\n', tail))
            .map_or(rest.len(), |at| from + at + 1);
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

fn note_unknown(counts: &mut ReadCounts, line: &[u8]) {
    counts.not_understood += 1;
    if counts.shown.len() < SHOWN_MAX {
        let shown = line.get(..line.len().min(SHOWN_BYTES_MAX)).unwrap_or_default();
        counts.shown.push(String::from_utf8_lossy(shown).into_owned());
    }
}

/// Parses and maps the lines of one piece.
struct PieceReader<'m> {
    is_written_at_end: bool,
    parser: LineParser,
    mapper: LineMapper<'m>,
    batch: Batch,
    counts: ReadCounts,
}

impl<'m> PieceReader<'m> {
    fn new(format: &LogFormat, parser: LineParser, line_mapping: &'m LineMapping<'m>, bytes: usize) -> Self {
        Self {
            is_written_at_end: format.is_written_at_end(),
            parser,
            mapper: LineMapper::new(line_mapping),
            batch: Batch::with_room(bytes, line_mapping.hasher.clone()),
            counts: ReadCounts::default(),
        }
    }

    fn read(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let (line, tail) = rest.split_at(end);
            rest = tail.get(1..).unwrap_or_default();
            match self.parser.parse(line) {
                Parsed::Comment => {}
                Parsed::NotUnderstood => {
                    self.counts.lines += 1;
                    note_unknown(&mut self.counts, line);
                }
                Parsed::Request(line) => {
                    self.counts.lines += 1;
                    self.add(&line);
                }
            }
        }
    }

    fn add(&mut self, line: &LogLine<'_>) {
        let time = match line.duration {
            Some(duration) if self.is_written_at_end => line.time.before(duration),
            _ => line.time,
        };
        let LogLine { whole_second, status, .. } = *line;
        let time = if whole_second { second_of(time) } else { time };
        let (route, group) = self.mapper.map(line, time, &mut self.batch);
        self.counts.unmapped += u64::from(self.batch.is_unmapped(group));
        self.batch.requests.push(RecordedRequest { time, whole_second, status, route, group });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines_and_all_of_them() {
        let chunk = b"a\nbb\nccc\n\ndddd";
        for count in 1..20 {
            let pieces = pieces(chunk, count);
            assert_eq!(pieces.concat(), chunk);
            let (_last, all_but_last) = pieces.split_last().unwrap();
            assert!(all_but_last.iter().all(|piece| piece.ends_with(b"\n")), "{count}: {pieces:?}");
        }
        assert!(pieces(b"", 2).is_empty());
    }
}
