//! Recorded traffic by other rules: who would have been limited, and by what.
//!
//! | module | what it does |
//! |---|---|
//! | `line_mapping` | a line → its descriptors, made once for all lines that are alike |
//! | `name` | names with their hashes |
//! | `batch` | requests of a log, mapped to descriptors, many in one piece of memory |
//! | `reader` | one log → batches, on all cores |
//! | `stream` | its requests in the order of time |
//! | `merge` | several logs → one second after the other |
//! | `single_charge` | the short way to decide, for requests that meet one limit |
//! | `ledger` | what was decided, by rule, key and route |
//! | `curve` | what was decided, over time |
//! | `reshape` | a rule's limit with other numbers |
//! | `algorithms` | the same numbers by all six algorithms |
//! | `suggest` | which limits would fit the traffic |
//! | `story` | one key's story |
//! | `replay` | all of it, from logs and rules to a [`ReplayReport`] |
//! | `report` | the answer, as programs read it |
//!
//! The command line opens logs and prints the report.
//!
//! Invariants: rules are decided by the limiter that serves, at the times of the log. Memory depends on
//! the number of keys and routes, which are bounded, and not on the length of a log.
//!
//! Deliberately not here: files, compression, formats of logs, and how a report looks.

mod algorithms;
mod batch;
mod curve;
mod ledger;
mod line_mapping;
mod merge;
mod name;
mod reader;
mod replay;
mod report;
mod reshape;
mod share;
mod single_charge;
mod story;
mod stream;
mod suggest;

pub use merge::Spread;
pub use reader::LogSource;
pub use replay::{Replay, ReplayError, ReplaySettings};
pub use report::{
    AlgorithmRow, ChangedKey, CurvePoint, Episode, KeyRow, KeyStory, LimitRow, PeakUse, ReplayReport,
    RouteRow, RuleChange, RuleNames, RuleRow, SuggestRow,
};
pub use share::Share;
