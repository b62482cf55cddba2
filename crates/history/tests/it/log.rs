//! A real day of a web server, and numbers that look random.

use std::sync::Arc;

use tollgate_accesslog::{LineParser, LogFormat, Parsed};
use tollgate_core::{Micros, Outcome, Time};
use tollgate_history::import::ImportLine;
use tollgate_history::route::normalise;
use tollgate_testkit::nasa_log;

/// Reads lines of the common format, as the command line does.
pub(crate) fn common_lines() -> impl FnMut(&[u8]) -> ImportLine {
    let format = LogFormat::parse("common").expect("a format");
    let mut parser = LineParser::new(Arc::new(format));
    move |line| match parser.parse(line) {
        Parsed::Request(line) => ImportLine::Request {
            second: line.time.since(Time::EPOCH).get() / Micros::from_secs(1).get(),
            route: normalise(&String::from_utf8_lossy(&line.target)).into_owned(),
            outcome: Outcome::Allowed,
        },
        Parsed::Comment => ImportLine::Comment,
        Parsed::NotUnderstood => ImportLine::NotUnderstood,
    }
}

/// Second and route of every request in NASA's log, in order.
pub(crate) fn requests() -> Vec<(u64, String)> {
    let mut read = common_lines();
    let mut requests: Vec<_> = nasa_log()
        .lines()
        .filter_map(|line| match read(line.as_bytes()) {
            ImportLine::Request { second, route, .. } => Some((second, route)),
            ImportLine::Comment | ImportLine::NotUnderstood => None,
        })
        .collect();
    requests.sort();
    requests
}

/// Numbers that look random and are the same each time.
pub(crate) struct XorShift(pub(crate) u64);

impl XorShift {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
