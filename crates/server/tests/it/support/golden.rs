//! What people are told, compared with files that say it byte by byte.
//!
//! `tests/golden/NAME.txt` holds questions and answers as they go over the wire.
//! The line ends of heads are checked and not written, and only two things are
//! masked: the date, and spans of time that are a known window less what the
//! test has taken so far. Where they differ, what came is written beside the
//! build, ready to be copied if it is right.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::http;

/// A test takes no longer than this, so that a span up to so much shorter than
/// a window is the window.
const TAKEN_MAX_S: u64 = 60;
/// What stands before a number that is a span, and not a length or a limit.
const SPANS: &[&str] = &[";t=", "retry-after: ", "wait-ms: ", "_ms\":", "try again in "];

/// Questions and answers as they were.
pub(crate) struct Transcript {
    text: String,
    windows_s: Vec<u64>,
}

impl Transcript {
    /// An empty one, about windows of these lengths.
    pub(crate) fn new(windows_s: &[u64]) -> Self {
        Self { text: String::new(), windows_s: windows_s.to_vec() }
    }

    /// A line for the reader.
    pub(crate) fn note(&mut self, note: &str) {
        writeln!(self.text, "# {note}").expect("a string takes everything");
    }

    /// Asks and writes down both; the answer as it came.
    pub(crate) async fn ask(&mut self, address: SocketAddr, line: &str, body: &str) -> String {
        self.ask_with(address, line, &[], body).await
    }

    /// The same with headers.
    pub(crate) async fn ask_with(
        &mut self,
        address: SocketAddr,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> String {
        let mut bytes = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        for header in headers {
            write!(bytes, "{header}\r\n").expect("a string takes everything");
        }
        write!(bytes, "content-length: {}\r\n\r\n{body}", body.len()).expect("a string takes everything");
        let answer = http::raw(address, bytes.as_bytes()).await;
        let asked = [&[line][..], headers, &[body]].concat();
        let asked: Vec<&str> = asked.into_iter().filter(|part| !part.is_empty()).collect();
        writeln!(self.text, "> {}\n{}\n", asked.join("\n> "), self.shown(&answer)).expect("as above");
        answer
    }

    /// An answer with its line ends checked, and its date and its spans masked.
    fn shown(&self, answer: &str) -> String {
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head and a body");
        let mut lines = Vec::new();
        for line in head.split("\r\n") {
            assert!(!line.contains(['\r', '\n']), "a line of the head has a line end of its own: {line:?}");
            lines.push(if line.starts_with("date: ") { "date: <now>".to_owned() } else { self.masked(line) });
        }
        if !body.is_empty() {
            lines.push(String::new());
            lines.push(self.masked(body));
        }
        lines.join("\n")
    }

    /// The text with every span that is a window less a moment written as the window.
    fn masked(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(at);
            let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            let (number, after) = from.split_at(end);
            out.push_str(before);
            let is_span = SPANS.iter().any(|name| before.ends_with(name));
            let masked = is_span.then(|| self.window(number)).flatten();
            out.push_str(&masked.unwrap_or_else(|| number.to_owned()));
            rest = after;
        }
        out + rest
    }

    fn window(&self, number: &str) -> Option<String> {
        let number: u64 = number.parse().ok()?;
        let is = |full: u64, unit: u64| (full * unit - TAKEN_MAX_S * unit..=full * unit).contains(&number);
        self.windows_s.iter().find_map(|full| match () {
            () if is(*full, 1) => Some(format!("<{full} s>")),
            () if is(*full, 1_000) => Some(format!("<{full} s in ms>")),
            () => None,
        })
    }

    /// Asserts that this is what `tests/golden/NAME.txt` holds.
    pub(crate) fn check(self, name: &str) {
        check(name, &self.text);
    }
}

/// Asserts that a text is what `tests/golden/NAME.txt` holds.
pub(crate) fn check(name: &str, came: &str) {
    let came = format!("{}\n", came.trim_end());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
    if came != expected {
        fs::write(&beside, &came).expect("the build folder can be written");
    }
    let (beside, golden) = (beside.display(), golden.display());
    assert_eq!(came, expected, "{name} is something else; if it is right: cp {beside} {golden}");
}

/// Asserts that the whole seconds of the headers are the milliseconds of the
/// body, rounded up, whatever the clock shows.
pub(crate) fn assert_rounded_up(answer: &str) {
    let number = |before: &str| -> u64 {
        let (_, from) = answer.split_once(before).expect("it is there");
        let end = from.find(|c: char| !c.is_ascii_digit()).expect("it ends");
        from[..end].parse().expect("it is a number")
    };
    let seconds = number("\"retry_after_ms\":").div_ceil(1_000);
    for header in ["\r\nretry-after: ", "\r\nx-ratelimit-retry-after: ", "r=0;t="] {
        assert_eq!(number(header), seconds, "{header:?} in {answer}");
    }
}
