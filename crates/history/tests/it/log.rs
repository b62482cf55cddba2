//! A real day of a web server, and numbers that look random.

use tollgate_history::import::AccessLogLine;
use tollgate_testkit::nasa_log;

/// Second and target of every request in NASA's log, in order.
pub(crate) fn requests() -> Vec<(u64, String)> {
    let log = nasa_log();
    let lines = log.lines().filter_map(AccessLogLine::parse);
    let mut requests: Vec<_> = lines.map(|line| (line.second, line.target.to_owned())).collect();
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
