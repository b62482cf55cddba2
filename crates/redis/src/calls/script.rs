//! The scripts: the algorithms in Lua, and the one file that talks to Redis.
//!
//! Each file in `lua/` mirrors one of `tollgate-core` step by step; here they
//! are put together. Redis runs the whole text for each call and makes all its
//! functions anew. So each algorithm has a script for requests with a single
//! charge, which holds no more than it needs, and one script decides requests
//! with several charges.
//!
//! Deliberately not here: the values that a script is sent (`script_args`).

use std::fmt::Write as _;

use tollgate_core::{Charge, Refill, Shape};

use ChargeField::{
    Allowance, Cost, Count, FullSpan, FullSpanPart, Hard, MaxWait, Parts, Take, TakePart, Tick, Window,
};

/// A script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Single charges of a fixed window.
    FixedWindow,
    /// Single charges of a sliding counter.
    SlidingCounter,
    /// Single charges of a sliding log.
    SlidingLog,
    /// Single charges of sliding buckets.
    SlidingBuckets,
    /// Single charges of a token bucket that refills smoothly.
    TokenBucket,
    /// Single charges of a token bucket that refills by the interval.
    TokenBucketInterval,
    /// Single charges of a leaky bucket.
    LeakyBucket,
    /// Charge sets of any size and any algorithms.
    ChargeSets,
}

/// What a script for single charges consists of.
struct ScriptAlgorithm {
    /// The name of its function in Lua.
    name: &'static str,
    files: &'static [&'static str],
    fields: &'static [ChargeField],
}

const ALGORITHM: &str = include_str!("../../lua/algorithm.lua");
const FIXED_WINDOW: &str = include_str!("../../lua/fixed_window.lua");
const SLIDING_COUNTER: &str = include_str!("../../lua/sliding_counter.lua");
const PACE: &str = include_str!("../../lua/pace.lua");
const TOKEN_BUCKET: &str = include_str!("../../lua/token_bucket.lua");
const TOKEN_BUCKET_INTERVAL: &str = include_str!("../../lua/token_bucket_interval.lua");
const LEAKY_BUCKET: &str = include_str!("../../lua/leaky_bucket.lua");
const WINDOW_LOG: &str = include_str!("../../lua/window_log.lua");
const SLIDING_LOG: &str = include_str!("../../lua/sliding_log.lua");
const SLIDING_BUCKETS: &str = include_str!("../../lua/sliding_buckets.lua");
const PENALTY: &str = include_str!("../../lua/penalty.lua");
const STORE: &str = include_str!("../../lua/store.lua");
const SINGLE_CHARGES: &str = include_str!("../../lua/single_charges.lua");
const CHARGE_SETS: &str = include_str!("../../lua/charge_sets.lua");

const WINDOW_FIELDS: &[ChargeField] = &[Cost, Window, Hard];
const LOG_FIELDS: &[ChargeField] = &[Cost, Window, Hard, Tick];
const INTERVAL_FIELDS: &[ChargeField] = &[Cost, Window, Hard, Count];
const PACE_FIELDS: &[ChargeField] = &[Cost, Hard, Parts, FullSpan, FullSpanPart, Take, TakePart, Allowance];
const LEAKY_FIELDS: &[ChargeField] =
    &[Cost, Hard, Parts, FullSpan, FullSpanPart, Take, TakePart, MaxWait, Allowance];

impl Script {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::FixedWindow,
        Self::SlidingCounter,
        Self::SlidingLog,
        Self::SlidingBuckets,
        Self::TokenBucket,
        Self::TokenBucketInterval,
        Self::LeakyBucket,
        Self::ChargeSets,
    ];

    /// The one that decides a request with this single charge.
    pub const fn for_single(charge: &Charge<'_>) -> Self {
        match charge.key.limit.shape() {
            Shape::FixedWindow => Self::FixedWindow,
            Shape::SlidingCounter => Self::SlidingCounter,
            Shape::SlidingLog => Self::SlidingLog,
            Shape::SlidingBuckets { .. } => Self::SlidingBuckets,
            Shape::TokenBucket { refill: Refill::Interval, .. } => Self::TokenBucketInterval,
            Shape::TokenBucket { .. } => Self::TokenBucket,
            Shape::LeakyBucket { .. } => Self::LeakyBucket,
        }
    }

    const fn algorithm(self) -> Option<ScriptAlgorithm> {
        let (name, files, fields): (_, &[&str], _) = match self {
            Self::FixedWindow => ("fixed_window", &[FIXED_WINDOW], WINDOW_FIELDS),
            Self::SlidingCounter => ("sliding_counter", &[SLIDING_COUNTER], WINDOW_FIELDS),
            Self::SlidingLog => ("sliding_log", &[WINDOW_LOG, SLIDING_LOG], LOG_FIELDS),
            Self::SlidingBuckets => ("sliding_buckets", &[WINDOW_LOG, SLIDING_BUCKETS], LOG_FIELDS),
            Self::TokenBucket => ("token_bucket", &[PACE, TOKEN_BUCKET], PACE_FIELDS),
            Self::TokenBucketInterval => ("token_bucket_interval", &[TOKEN_BUCKET_INTERVAL], INTERVAL_FIELDS),
            Self::LeakyBucket => ("leaky_bucket", &[PACE, LEAKY_BUCKET], LEAKY_FIELDS),
            Self::ChargeSets => return None,
        };
        Some(ScriptAlgorithm { name, files, fields })
    }

    /// The name of its algorithm; none if it decides all of them.
    pub fn algorithm_name(self) -> Option<&'static str> {
        self.algorithm().map(|algorithm| algorithm.name)
    }

    /// The fields of a charge that it reads, in the order in which they are sent.
    pub fn fields(self) -> &'static [ChargeField] {
        self.algorithm().map_or(&ChargeField::ALL, |algorithm| algorithm.fields)
    }

    /// Its text, which runs with `KEYS` and `ARGV`.
    pub fn text(self) -> String {
        self.algorithm().map_or_else(charge_sets_text, |algorithm| single_text(&algorithm))
    }
}

fn single_text(ScriptAlgorithm { name, files, fields }: &ScriptAlgorithm) -> String {
    let reader = read_ask(&["operation", "counts_rejected"], fields);
    format!("{ALGORITHM}{}{reader}{STORE}local decide = {name}\n{SINGLE_CHARGES}", files.concat())
}

fn charge_sets_text() -> String {
    let mut text = ALGORITHM.to_owned();
    let (mut added, mut table): (Vec<&str>, String) = (Vec::new(), String::new());
    for ScriptAlgorithm { name, files, .. } in Script::ALL.into_iter().filter_map(Script::algorithm) {
        for file in files {
            if !added.contains(file) {
                added.push(file);
                text.push_str(file);
            }
        }
        // Writing to a String cannot fail.
        let _written = write!(table, "{name} = {name}, ");
    }
    text.push_str(&read_ask(&["algorithm", "mode", "operation", "counts_rejected"], &ChargeField::ALL));
    text.push_str(PENALTY);
    text.push_str(STORE);
    let _written = writeln!(text, "local ALGORITHMS = {{ {table}penalty = penalty }}");
    text.push_str(CHARGE_SETS);
    text
}

/// The Lua function that reads what is asked of a key.
fn read_ask(words: &[&str], fields: &[ChargeField]) -> String {
    let names: Vec<&str> = words.iter().copied().chain(fields.iter().map(|field| field.name())).collect();
    let pattern = vec!["(%S+)"; names.len()].join(" ");
    let listed = names.join(", ");
    let words = words.iter().map(|word| match *word {
        "counts_rejected" => "counts_rejected = counts_rejected == '1'".to_owned(),
        word => format!("{word} = {word}"),
    });
    let members: Vec<String> = words.chain(fields.iter().map(|field| field.reader())).collect();
    format!(
        "local function read_ask(text, now)\n  local {listed} = match(text, '^{pattern}$')\n  \
         return {{ now = now, {} }}\nend\n",
        members.join(", ")
    )
}

/// A number of a charge that scripts read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeField {
    /// What it costs.
    Cost,
    /// The window, in microseconds.
    Window,
    /// How much fits, the soft part included.
    Hard,
    /// The length of a sub-window.
    Tick,
    /// How much comes back in a window.
    Count,
    /// Into how many parts a microsecond is divided in the spans.
    Parts,
    /// The time in which an empty bucket fills: whole microseconds,
    FullSpan,
    /// and parts of one.
    FullSpanPart,
    /// The time that the cost takes: whole microseconds,
    Take,
    /// and parts of one.
    TakePart,
    /// The longest wait.
    MaxWait,
    /// What only a soft bucket has, as one word; 0 for a hard one.
    Allowance,
}

impl ChargeField {
    /// All, in the order in which they are sent.
    pub const ALL: [Self; 12] =
        [Cost, Window, Hard, Tick, Count, Parts, FullSpan, FullSpanPart, Take, TakePart, MaxWait, Allowance];

    /// Its name in Lua.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Window => "window",
            Self::Hard => "hard",
            Self::Tick => "tick",
            Self::Count => "count",
            Self::Parts => "parts",
            Self::FullSpan => "full_span",
            Self::FullSpanPart => "full_span_part",
            Self::Take => "take",
            Self::TakePart => "take_part",
            Self::MaxWait => "max_wait",
            Self::Allowance => "allowance",
        }
    }

    /// How Lua reads it from what it was sent.
    fn reader(self) -> String {
        let name = self.name();
        if self == Self::Allowance {
            format!("{name} = {name}")
        } else {
            format!("{name} = tonumber({name})")
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Entry, Key, Limit, Micros, Mode, Operation};

    use super::*;

    #[test]
    fn a_script_reads_the_fields_that_it_uses() {
        for script in Script::ALL {
            let text = script.text();
            for field in ChargeField::ALL {
                let (name, is_read) = (field.name(), text.contains(&format!(", {}", field.reader())));
                let is_used = text.match_indices(&format!("ask.{name}")).any(|(at, found)| {
                    let behind = text.as_bytes().get(at + found.len());
                    !behind.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                });
                assert_eq!(is_read, is_used, "{script:?} and {name}");
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
            assert_eq!(Script::for_single(&charge).algorithm_name(), Some(name));
        }
    }
}
