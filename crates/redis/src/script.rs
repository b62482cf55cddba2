//! The scripts: the algorithms in Lua, and the one file that talks to Redis.
//!
//! Each file in `lua/` mirrors one of `tollgate-core`, step by step; here they
//! are only put together. Redis runs a whole script for each call and makes all
//! its functions anew, so that there is a script for single charges of each
//! algorithm, with no more in it than that needs, besides the one that decides
//! all charges of a request together.

use std::fmt::Write as _;

use tollgate_core::{Charge, Refill, Shape};

use crate::question::Number;

/// A script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script(usize);

/// What one script needs.
struct Needs {
    /// The algorithm's name; none for all of them.
    algorithm: Option<&'static str>,
    files: &'static [&'static str],
    /// The numbers that are read of a charge.
    numbers: &'static [Number],
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
const SINGLES: &str = include_str!("../lua/singles.lua");
const TOGETHER: &str = include_str!("../lua/together.lua");

/// The numbers of a window.
const WINDOW: &[Number] = &[Number::Cost, Number::Window, Number::Hard];
/// Those of a log of a window.
const LOG: &[Number] = &[Number::Cost, Number::Window, Number::Hard, Number::Tick];
/// Those of what is filled by the period.
const PERIOD: &[Number] = &[Number::Cost, Number::Window, Number::Hard, Number::Count];
/// Those of what flows at a pace.
const SPANS: &[Number] = &[
    Number::Cost,
    Number::Hard,
    Number::Parts,
    Number::HardSpan,
    Number::HardSpanPart,
    Number::Take,
    Number::TakePart,
];
/// The same with a bound on the wait.
const SPANS_AND_WAIT: &[Number] = &[
    Number::Cost,
    Number::Hard,
    Number::Parts,
    Number::HardSpan,
    Number::HardSpanPart,
    Number::Take,
    Number::TakePart,
    Number::MaxWait,
];

/// All scripts, in the order of their numbers.
const ALL: [Needs; Script::COUNT] = [
    one("fixed_window", &[FIXED_WINDOW], WINDOW),
    one("sliding_counter", &[SLIDING_COUNTER], WINDOW),
    one("sliding_log", &[WINDOW_LOG, SLIDING_LOG], LOG),
    one("sliding_buckets", &[WINDOW_LOG, SLIDING_BUCKETS], LOG),
    one("token_bucket", &[PACE, TOKEN_BUCKET], SPANS),
    one("token_bucket_interval", &[TOKEN_BUCKET_INTERVAL], PERIOD),
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
        numbers: &Number::ALL,
    },
];

const fn one(algorithm: &'static str, files: &'static [&'static str], numbers: &'static [Number]) -> Needs {
    Needs { algorithm: Some(algorithm), files, numbers }
}

impl Script {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// Decides all charges of a request together.
    pub const TOGETHER: Self = Self(Self::COUNT - 1);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The one that decides a charge that is alone.
    pub const fn single(charge: &Charge<'_>) -> Self {
        Self(match charge.key.limit.shape() {
            Shape::FixedWindow => 0,
            Shape::SlidingCounter => 1,
            Shape::SlidingLog => 2,
            Shape::SlidingBuckets { .. } => 3,
            Shape::TokenBucket { refill: Refill::Interval, .. } => 5,
            Shape::TokenBucket { .. } => 4,
            Shape::LeakyBucket { .. } => 6,
        })
    }

    /// Its number, from 0.
    pub const fn number(self) -> usize {
        self.0
    }

    /// The name of its one algorithm.
    pub fn algorithm(self) -> Option<&'static str> {
        ALL.get(self.0).and_then(|needs| needs.algorithm)
    }

    /// The numbers that it reads of a charge.
    pub fn numbers(self) -> &'static [Number] {
        ALL.get(self.0).map_or(&[], |needs| needs.numbers)
    }

    /// What it says; it runs with `KEYS` and `ARGV`.
    pub fn text(self) -> String {
        let Some(Needs { algorithm, files, numbers }) = ALL.get(self.0) else { return String::new() };
        let mut text = [[ASK].as_slice(), files].concat().concat();
        let words: &[&str] = match algorithm {
            Some(_) => &["operation", "counts_rejected"],
            None => &["algorithm", "mode", "operation", "counts_rejected"],
        };
        text.push_str(&read_ask(words, numbers));
        text.push_str(STORE);
        if let Some(name) = algorithm {
            // Writing to a String cannot fail.
            let _written = writeln!(text, "local decide = {name}");
        }
        text.push_str(if algorithm.is_some() { SINGLES } else { TOGETHER });
        text
    }
}

/// The function that reads what is asked of a key.
fn read_ask(words: &[&str], numbers: &[Number]) -> String {
    let numbers = numbers.iter().map(|number| number.name());
    let names: Vec<&str> = words.iter().copied().chain(numbers.clone()).collect();
    let pattern = vec!["(%S+)"; names.len()].join(" ");
    let listed = names.join(", ");
    let words = words.iter().map(|word| match *word {
        "counts_rejected" => "counts_rejected = counts_rejected == '1'".to_owned(),
        word => format!("{word} = {word}"),
    });
    let fields: Vec<String> =
        words.chain(numbers.map(|number| format!("{number} = tonumber({number})"))).collect();
    format!(
        "local function read_ask(text, now)\n  local {listed} = string.match(text, '^{pattern}$')\n  \
         return {{ now = now, {} }}\nend\n",
        fields.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Entry, Key, Limit, Micros, Mode, Operation};

    use super::*;

    #[test]
    fn a_script_reads_what_its_algorithm_asks_for() {
        for script in Script::all() {
            let text = script.text();
            for name in Number::ALL.map(Number::name) {
                let is_read = text.contains(&format!(", {name} = tonumber("));
                let is_used = text.match_indices(&format!("ask.{name}")).any(|(at, found)| {
                    let behind = text.as_bytes().get(at + found.len());
                    !behind.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                });
                assert_eq!(is_read, is_used, "script {} and {name}", script.0);
            }
        }
    }

    #[test]
    fn a_charge_goes_to_the_script_of_its_algorithm() {
        let shapes = [
            (Shape::FixedWindow, "fixed_window"),
            (Shape::SlidingCounter, "sliding_counter"),
            (Shape::SlidingLog, "sliding_log"),
            (Shape::SlidingBuckets { buckets: 6 }, "sliding_buckets"),
            (Shape::TokenBucket { burst: 9, refill: Refill::Smooth }, "token_bucket"),
            (Shape::TokenBucket { burst: 9, refill: Refill::Interval }, "token_bucket_interval"),
            (Shape::LeakyBucket { burst: 9, max_wait: None }, "leaky_bucket"),
        ];
        for (shape, name) in shapes {
            let limit = Limit::new(9, Micros::SECOND, shape).expect("a limit");
            let entries = [Entry { key: "k", value: "v" }];
            let key = Key { domain: "d", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
            let (mode, operation) = (Mode::Enforce, Operation::Check);
            let charge = Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 };
            assert_eq!(Script::single(&charge).algorithm(), Some(name));
        }
    }
}
