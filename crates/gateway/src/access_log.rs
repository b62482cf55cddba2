//! A line for every request, in a file or on standard output.
//!
//! `exchange` begins an `AccessRecord` for a request and hands it to the body of its answer; when
//! that has passed, or its client has gone, the record becomes a line. A thread of its own writes.
//!
//! | module | what it holds |
//! |---|---|
//! | `line` | a record → a line, in either format |
//! | `log_file` | standard output, or a file that can be renamed while it is written |
//!
//! Invariants: no request waits for the log. Lines that do not fit into the queue are dropped and
//! counted. Whatever clients send, a record is one line.

mod line;
mod log_file;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use http::header::{HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{Method, Version};
use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_core::{Outcome, Time, Verdict};
use tollgate_http::HeaderFields;
use tollgate_http::admission::CLIENT_CLOSED_REQUEST;

use crate::bounds::{ACCESS_LOG_END_MAX, ACCESS_LOG_LINES_MAX, ACCESS_LOG_TEXT_MAX};
use log_file::LogFile;

/// Where lines go, and how they look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogConfig {
    /// A file; none for standard output.
    pub path: Option<PathBuf>,
    /// How a line looks.
    pub format: AccessLogFormat,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// As Apache and nginx have it.
    Combined,
    /// An object, with what was decided and how long what took.
    Json,
}

/// The log; all requests share it.
pub struct AccessLog {
    format: AccessLogFormat,
    /// None at the end.
    queue: Option<SyncSender<Vec<u8>>>,
    /// Hears of it when everything is written.
    is_written: Mutex<Receiver<()>>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.format).finish_non_exhaustive()
    }
}

impl AccessLog {
    /// Opens the log and starts to write it.
    ///
    /// # Errors
    /// If the file cannot be opened, or no thread started.
    pub fn open(config: &AccessLogConfig) -> io::Result<Self> {
        let mut file = LogFile::open(config.path.clone())?;
        let (queue, lines) = sync_channel(ACCESS_LOG_LINES_MAX);
        let (done, is_written) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        thread::Builder::new().name("tollgate-access-log".into()).spawn(move || {
            file.write_all(&lines, &lost);
            drop(done);
        })?;
        Ok(Self { format: config.format, queue: Some(queue), is_written: Mutex::new(is_written), dropped })
    }

    /// Lines that were not written, because the log could not keep up or not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn write(&self, line: Vec<u8>) {
        let is_queued = self.queue.as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Waits until what was queued is written, but not for ever: somebody may have stopped to read.
impl Drop for AccessLog {
    fn drop(&mut self) {
        self.queue = None;
        // Whether it was written or takes too long, this is the end.
        self.is_written.lock().recv_timeout(ACCESS_LOG_END_MAX).ok();
    }
}

/// What is known of a request; becomes a line when it is dropped.
#[derive(Debug)]
pub(crate) struct AccessRecord {
    log: Arc<AccessLog>,
    start: Instant,
    at: Time,
    client: Option<IpAddr>,
    request_line: Option<RequestLine>,
    host: Option<String>,
    referer: Option<String>,
    agent: Option<String>,
    status: u16,
    bytes: u64,
    rule: Option<String>,
    decided: Option<(Verdict, Option<Outcome>)>,
    waited: Duration,
    /// Since when it is held; none if it is not.
    held_since: Option<Instant>,
    upstream: Option<Duration>,
}

/// The first line of a request.
#[derive(Debug)]
struct RequestLine {
    method: String,
    target: String,
    version: &'static str,
}

impl AccessRecord {
    /// A request that came at this time.
    pub(crate) fn new(log: Arc<AccessLog>, at: Time, client: Option<IpAddr>) -> Self {
        Self {
            log,
            start: Instant::now(),
            at,
            client,
            request_line: None,
            host: None,
            referer: None,
            agent: None,
            // Unless something else becomes of it.
            status: CLIENT_CLOSED_REQUEST,
            bytes: 0,
            rule: None,
            decided: None,
            waited: Duration::ZERO,
            held_since: None,
            upstream: None,
        }
    }

    /// It could be read.
    pub(crate) fn requested(&mut self, parts: &Parts) {
        let target = parts.uri.path_and_query().map_or(&b"/"[..], |target| target.as_str().as_bytes());
        let line = (&parts.method, target, parts.version);
        let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
        let host = authority.or_else(|| parts.headers.get(HOST).map(http::HeaderValue::as_bytes));
        self.requested_by(line, host, (&parts.headers).into());
    }

    /// It had this first line, was for this host, and had these fields.
    pub(crate) fn requested_by(
        &mut self,
        (method, target, version): (&Method, &[u8], Version),
        host: Option<&[u8]>,
        fields: HeaderFields<'_>,
    ) {
        self.request_line = Some(RequestLine {
            method: cut(method.as_str().as_bytes()),
            target: cut(target),
            version: match version {
                Version::HTTP_10 => "HTTP/1.0",
                Version::HTTP_2 => "HTTP/2.0",
                _ => "HTTP/1.1",
            },
        });
        self.host = host.map(cut);
        self.referer = fields.get(&REFERER).map(cut);
        self.agent = fields.get(&USER_AGENT).map(cut);
    }

    /// The limiter has decided, by this rule, about this client.
    pub(crate) fn decided(
        &mut self,
        client: Option<IpAddr>,
        decided: (Verdict, Option<Outcome>),
        rule: Option<&str>,
    ) {
        (self.client, self.decided) = (client, Some(decided));
        self.rule = rule.map(|rule| cut(rule.as_bytes()));
    }

    /// It has to wait for its turn, until it is [released](Self::released) or its client goes away.
    pub(crate) fn held(&mut self) {
        self.held_since = Some(Instant::now());
    }

    /// It is its turn.
    pub(crate) fn released(&mut self) {
        self.waited += self.held_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Its client is answered with this status; the upstream took so long, if it was asked.
    pub(crate) const fn answered(&mut self, status: u16, upstream: Option<Duration>) {
        self.status = status;
        self.upstream = upstream;
    }

    /// The upstream was asked, for so long and in vain.
    pub(crate) const fn asked(&mut self, upstream: Duration) {
        self.upstream = Some(upstream);
    }

    /// How long the upstream took, if it was asked.
    pub(crate) const fn upstream_time(&self) -> Option<Duration> {
        self.upstream
    }

    /// So much of the body has passed.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        self.released();
        let line = match self.log.format {
            AccessLogFormat::Combined => line::combined(self),
            AccessLogFormat::Json => line::json(self),
        };
        self.log.write(line);
    }
}

/// The text up to a length that does no harm.
fn cut(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..ACCESS_LOG_TEXT_MAX).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn open(path: &Path) -> Arc<AccessLog> {
        let config = AccessLogConfig { path: Some(path.into()), format: AccessLogFormat::Combined };
        Arc::new(AccessLog::open(&config).unwrap())
    }

    fn record(log: &Arc<AccessLog>) {
        drop(AccessRecord::new(Arc::clone(log), Time::from_secs(1_795_000_000), None));
    }

    #[test]
    fn a_file_that_is_renamed_is_followed_by_a_new_one_and_the_end_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        let log = open(&path);
        record(&log);
        while std::fs::read(&path).unwrap().is_empty() {
            thread::yield_now();
        }
        std::fs::rename(&path, &old).unwrap();
        (0..1_000).for_each(|_| record(&log));
        drop(log);
        let lines = |path| std::fs::read_to_string(path).unwrap().lines().count();
        assert_eq!((lines(&old), lines(&path)), (1, 1_000));
        let line = std::fs::read_to_string(&old).unwrap();
        assert_eq!(line, "- - - [18/Nov/2026:11:06:40 +0000] \"-\" 499 0 \"-\" \"-\"\n");
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let log = open(Path::new("/dev/full"));
        (0..100).for_each(|_| record(&log));
        while log.dropped() < 100 {
            thread::yield_now();
        }
    }

    #[test]
    fn nobody_waits_for_whoever_reads_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let own = path.clone();
        let reader = thread::spawn(move || File::open(own).unwrap());
        let log = open(&path);
        // It is open, and nobody reads from it.
        let reader = reader.join().unwrap();
        let lines = ACCESS_LOG_LINES_MAX * 3;
        (0..lines).for_each(|_| record(&log));
        assert!(log.dropped() > 0 && log.dropped() < u64::try_from(lines).unwrap());
        drop(reader);
    }
}
