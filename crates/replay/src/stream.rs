//! One log → batches in the order of time.
//!
//! A chunk of lines is read, parsed and mapped on all cores, and sorted; what may still be overtaken
//! by a line of the next chunk is held back.
//!
//! Invariants: a batch has only whole seconds: the next one begins later. Lines that are out of order by
//! up to [`WINDOW`] are sorted; one that comes later counts at the time of the batch it comes in, and
//! is counted as late.

use std::io::{self, BufRead, Read as _};
use std::net::IpAddr;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_accesslog::{LineParser, LogFormat, LogLine, Parsed};
use tollgate_core::{Micros, Time};
use tollgate_http::{HttpRequestFacts, Mapping, PathTemplates};

use crate::batch::{Batch, RequestNote};

/// Lines are out of order by up to this: requests that take longer are few.
const WINDOW: Micros = Micros::from_secs(60);
/// Bytes that are read and parsed at once.
const CHUNK_BYTES: usize = 8 << 20;
/// So many requests are held back at most, however many a log has within [`WINDOW`].
const HELD_MAX: usize = 1 << 20;
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

/// A log that is being read.
pub(crate) struct LogStream<'m> {
    pub(crate) name: String,
    lines: Box<dyn BufRead + Send>,
    format: Option<Arc<LogFormat>>,
    /// What directives of the log have said so far.
    parser: Option<LineParser>,
    mapping: &'m Mapping,
    paths: &'m PathTemplates,
    chunk: Vec<u8>,
    held: Batch,
    /// Everything before this was handed out.
    begun: Time,
    is_at_end: bool,
    pub(crate) counts: ReadCounts,
}

impl<'m> LogStream<'m> {
    pub(crate) fn new(source: LogSource, mapping: &'m Mapping, paths: &'m PathTemplates) -> Self {
        Self {
            name: source.name,
            lines: source.lines,
            format: source.format.map(Arc::new),
            parser: None,
            mapping,
            paths,
            chunk: Vec::new(),
            held: Batch::default(),
            begun: Time::EPOCH,
            is_at_end: false,
            counts: ReadCounts::default(),
        }
    }

    /// The format of its lines, once some of them were read.
    pub(crate) fn format(&self) -> Option<&LogFormat> {
        self.format.as_deref()
    }

    /// The next requests in the order of time; none at the end.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(crate) fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        loop {
            if self.is_at_end && self.held.requests.is_empty() {
                return Ok(None);
            }
            if !self.is_at_end {
                self.read_chunk()?;
                self.parse_chunk();
            }
            let batch = self.ready();
            if !batch.requests.is_empty() {
                return Ok(Some(batch));
            }
        }
    }

    /// Reads whole lines.
    fn read_chunk(&mut self) -> io::Result<()> {
        self.chunk.clear();
        let wanted = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
        self.lines.by_ref().take(wanted).read_to_end(&mut self.chunk)?;
        self.is_at_end = self.chunk.len() < CHUNK_BYTES;
        let longest = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        while !self.is_at_end && self.chunk.last() != Some(&b'\n') {
            let read = self.lines.by_ref().take(longest).read_until(b'\n', &mut self.chunk)?;
            if read >= LINE_BYTES_MAX && self.chunk.last() != Some(&b'\n') {
                // The rest of it is not worth the memory.
                self.lines.skip_until(b'\n')?;
                self.chunk.push(b'\n');
            }
            self.is_at_end = read == 0;
        }
        Ok(())
    }

    fn parse_chunk(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        if self.format.is_none() {
            let lines = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let wanted = self.mapping.header_names();
            let format = LogFormat::detect(lines)
                .map(|format| format.with_headers(|name| wanted.iter().any(|wanted| wanted == name)));
            self.format = format.map(Arc::new);
        }
        let Some(format) = self.format.clone() else {
            let lines = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            for line in lines {
                self.counts.lines += 1;
                note_unknown(&mut self.counts, line);
            }
            self.chunk = chunk;
            return;
        };
        let parser = self.parser.take().unwrap_or_else(|| LineParser::new(Arc::clone(&format)));
        let threads = match format.has_directives() {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        let pieces = pieces(&chunk, threads);
        let (mapping, paths) = (self.mapping, self.paths);
        let parse = |piece: &[u8]| {
            let mut reader = PieceReader::new(&format, parser.clone(), mapping, paths);
            reader.read(piece);
            reader
        };
        let parsed: Vec<PieceReader<'m>> = std::thread::scope(|scope| {
            let threads: Vec<_> = pieces.iter().map(|piece| scope.spawn(|| parse(piece))).collect();
            // No line may be lost without a word, not even to a mistake of ours.
            let joined =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.collect()
        });
        for PieceReader { parser, batch, counts, .. } in parsed {
            self.parser = Some(parser);
            self.counts.add(counts);
            for request in &batch.requests {
                self.held.take(&batch, request);
            }
        }
        self.chunk = chunk;
    }

    /// Takes out what no later line can come before.
    fn ready(&mut self) -> Batch {
        for request in &mut self.held.requests {
            if request.time < self.begun {
                request.time = self.begun;
                self.counts.late += 1;
            }
        }
        self.held.requests.sort_by_key(|request| request.time);
        let Some(last) = self.held.requests.last().map(|request| request.time) else {
            return Batch::default();
        };
        let is_full = self.held.requests.len() > HELD_MAX;
        let until = match (self.is_at_end, is_full) {
            (true, _) => return std::mem::take(&mut self.held),
            (false, true) => second_of(last),
            (false, false) => second_of(last.before(WINDOW)),
        };
        let (mut ready, mut held) = (Batch::default(), Batch::default());
        for request in &self.held.requests {
            let to = if request.time < until { &mut ready } else { &mut held };
            to.take(&self.held, request);
        }
        self.begun = self.begun.max(until);
        self.held = held;
        ready
    }
}

/// The second that an instant is in.
pub(crate) fn second_of(time: Time) -> Time {
    Time::new(time.get() - time.get() % 1_000_000)
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
    mapping: &'m Mapping,
    paths: &'m PathTemplates,
    headers: HeaderMap,
    batch: Batch,
    counts: ReadCounts,
}

impl<'m> PieceReader<'m> {
    fn new(format: &LogFormat, parser: LineParser, mapping: &'m Mapping, paths: &'m PathTemplates) -> Self {
        let is_written_at_end = format.is_written_at_end();
        let (headers, batch, counts) = (HeaderMap::new(), Batch::default(), ReadCounts::default());
        Self { is_written_at_end, parser, mapping, paths, headers, batch, counts }
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
        let time = if line.whole_second { second_of(time) } else { time };
        self.headers.clear();
        for (name, value) in &line.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(&**name), HeaderValue::from_bytes(value)) {
                self.headers.append(name, value);
            }
        }
        let address = line.address.as_deref();
        let peer = address.and_then(|address| address.parse::<IpAddr>().ok());
        let facts = HttpRequestFacts {
            peer,
            peer_name: address.filter(|_| peer.is_none()),
            method: &line.method,
            target: &line.target,
            host: line.host.as_deref(),
            headers: &self.headers,
        };
        let route = self.paths.value(facts.path());
        let note = RequestNote { time, whole_second: line.whole_second, status: line.status, route: &route };
        match self.mapping.map(&facts, time) {
            Ok(mapped) => self.batch.push(note, Some(&mapped)),
            Err(_) => {
                self.counts.unmapped += 1;
                self.batch.push(note, None);
            }
        }
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
