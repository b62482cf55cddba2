//! A real day of a web server, or one made like it where the real one is not there.
//!
//! The real one is NASA's log of 1 August 1995 (Internet Traffic Archive), which
//! stands beside the project where it is developed.

use std::path::Path;

use tollgate_history::access_log::Line;

/// What was asked for when.
pub(crate) type Requests = Vec<(u64, String)>;

/// The text of the log.
pub(crate) fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/nasa_http_1995-08-01.log");
    std::fs::read(path).map_or_else(|_| made_up(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The requests of the log, in order.
pub(crate) fn requests() -> Requests {
    let text = text();
    let lines = text.lines().filter_map(Line::parse);
    let mut requests: Requests = lines.map(|line| (line.second, line.target.to_owned())).collect();
    requests.sort();
    requests
}

/// 30,000 requests to 2,000 paths within half a day, few of them often.
fn made_up() -> String {
    let mut text = String::new();
    let mut random = Random(7);
    for n in 0..30_000_u64 {
        let (hour, minute, second) = (n / 2_500, n / 42 % 60, n % 60);
        // Every page is half as likely as the one of half its number.
        let page = 2_000 / (1 + random.below(2_000));
        let page = page + random.below(1 + page / 2);
        text.push_str(&format!(
            "h{} - - [01/Aug/1995:{hour:02}:{minute:02}:{second:02} -0400] \"GET /page/{page}.html HTTP/1.0\" 200 1\n",
            n % 97,
        ));
    }
    text
}

/// Numbers that look random and are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
