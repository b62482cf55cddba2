//! The scripts: the algorithms in Lua, and the one file that talks to Redis.
//!
//! Each file in `lua/` mirrors one of `tollgate-core`, step by step; here they
//! are only put together. Redis runs a whole script for each call and makes all
//! its functions anew, so that there is a script for one charge of each
//! algorithm, with no more in it than that needs, besides the one for several.

use std::fmt::Write as _;

use tollgate_limiter::Batch;

use crate::codec;

/// A script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script(usize);

/// What one script needs.
struct Needs {
    /// The algorithm's name on the wire; none for all of them.
    algorithm: Option<&'static str>,
    files: &'static [&'static str],
    /// The numbers that are read of a charge.
    numbers: &'static [&'static str],
}

const ASK: &str = include_str!("../lua/ask.lua");
const FIXED_WINDOW: &str = include_str!("../lua/fixed_window.lua");
const SLIDING_COUNTER: &str = include_str!("../lua/sliding_counter.lua");
const PACE: &str = include_str!("../lua/pace.lua");
const TOKEN_BUCKET: &str = include_str!("../lua/token_bucket.lua");
const TOKEN_BUCKET_INTERVAL: &str = include_str!("../lua/token_bucket_interval.lua");
const LEAKY_BUCKET: &str = include_str!("../lua/leaky_bucket.lua");
const WINDOW_LOG: &str = include_str!("../lua/window_log.lua");
const SLIDING_LOG: &str = include_str!("../lua/sliding_log.lua");
const SLIDING_BUCKETS: &str = include_str!("../lua/sliding_buckets.lua");
const STORE: &str = include_str!("../lua/store.lua");
const ONE: &str = include_str!("../lua/one.lua");
const CHECK: &str = include_str!("../lua/check.lua");

/// The numbers of what flows at a pace.
const SPANS: &[&str] = &["cost", "hard", "parts", "hard_span", "hard_span_part", "take", "take_part"];
/// The same with a bound on the wait.
const SPANS_AND_WAIT: &[&str] =
    &["cost", "hard", "parts", "hard_span", "hard_span_part", "take", "take_part", "max_wait"];

/// All scripts; the last one is for several charges.
const ALL: [Needs; Script::COUNT] = [
    one("fixed_window", &[FIXED_WINDOW], &["cost", "window", "hard"]),
    one("sliding_counter", &[SLIDING_COUNTER], &["cost", "window", "hard"]),
    one("sliding_log", &[WINDOW_LOG, SLIDING_LOG], &["cost", "window", "hard", "tick"]),
    one("sliding_buckets", &[WINDOW_LOG, SLIDING_BUCKETS], &["cost", "window", "hard", "tick"]),
    one("token_bucket", &[PACE, TOKEN_BUCKET], SPANS),
    one("token_bucket_interval", &[TOKEN_BUCKET_INTERVAL], &["cost", "window", "hard", "count"]),
    one("leaky_bucket", &[PACE, LEAKY_BUCKET], SPANS_AND_WAIT),
    Needs {
        algorithm: None,
        files: &[
            FIXED_WINDOW,
            SLIDING_COUNTER,
            PACE,
            TOKEN_BUCKET,
            TOKEN_BUCKET_INTERVAL,
            LEAKY_BUCKET,
            WINDOW_LOG,
            SLIDING_LOG,
            SLIDING_BUCKETS,
        ],
        numbers: &codec::NUMBERS,
    },
];

const fn one(
    algorithm: &'static str,
    files: &'static [&'static str],
    numbers: &'static [&'static str],
) -> Needs {
    Needs { algorithm: Some(algorithm), files, numbers }
}

impl Script {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// Decides several charges together.
    pub const SEVERAL: Self = Self(Self::COUNT - 1);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The one that decides `batch`.
    pub fn of(batch: &Batch<'_>) -> Self {
        let [charge] = batch.charges.as_slice() else { return Self::SEVERAL };
        if batch.is_refused_elsewhere {
            return Self::SEVERAL;
        }
        let name = codec::algorithm(charge.limit());
        ALL.iter().position(|needs| needs.algorithm == Some(name)).map_or(Self::SEVERAL, Self)
    }

    /// Its number, from 0.
    pub const fn number(self) -> usize {
        self.0
    }

    /// What it says; it runs with `KEYS` and `ARGV`.
    pub fn text(self) -> String {
        let Some(Needs { algorithm, files, numbers }) = ALL.get(self.0) else { return String::new() };
        let mut text = [[ASK, STORE].as_slice(), files].concat().concat();
        text.push_str(&read_ask(numbers));
        match algorithm {
            Some(name) => {
                // Writing to a String cannot fail.
                let _written = writeln!(text, "local decide = {name}");
                text.push_str(ONE);
            }
            None => text.push_str(CHECK),
        }
        text
    }
}

/// The function that reads those numbers of the charge whose arguments begin
/// at `at`.
fn read_ask(numbers: &[&str]) -> String {
    let mut text = String::from(
        "local function read_ask(at, now)\n  return { now = now, operation = ARGV[at + 2], \
         counts_rejected = ARGV[at + 3] == '1'",
    );
    for (place, name) in codec::NUMBERS.iter().enumerate().filter(|(_, name)| numbers.contains(name)) {
        // Writing to a String cannot fail.
        let _written = write!(text, ", {name} = tonumber(ARGV[at + {}])", place + codec::NUMBERS_AT);
    }
    text.push_str(" }\nend\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_what_its_algorithm_asks_for() {
        for script in Script::all() {
            let text = script.text();
            for name in codec::NUMBERS {
                let is_read = text.contains(&format!(", {name} = tonumber("));
                let is_used = text.match_indices(&format!("ask.{name}")).any(|(at, found)| {
                    let behind = text.as_bytes().get(at + found.len());
                    !behind.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                });
                assert_eq!(is_read, is_used, "script {} and {name}", script.0);
            }
        }
    }
}
