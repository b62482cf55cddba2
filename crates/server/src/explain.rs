//! Which rules a request meets, which one decides, and why.
//!
//! A request and the limiter's reply to it → a [`Story`]. `tollgate explain` tells it on counters that
//! nobody has used yet, failing rule tests on those of the test, and `/v1/explain` on those of the
//! running server.
//!
//! | module | what it holds |
//! |---|---|
//! | `story` | everything there is to say, as data |
//! | `reasons` | why a level of the rules was chosen, or not |
//! | `words` | limits and decisions as people read them |
//!
//! Deliberately not here: matching and deciding; the story asks the rules.

mod reasons;
mod story;
pub mod words;

pub use story::{
    CandidateTold, CounterTold, DecisionTold, DescriptorTold, EntryTold, LevelTold, LimitTold, Story,
};
