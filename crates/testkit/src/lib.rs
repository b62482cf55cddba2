//! What every store is held to: vectors, reference models, generators.
//!
//! For tests only. A store or a script shows itself as an [`Engine`], a test
//! hands a factory of it to the suites, and each suite answers with the number
//! of steps it compared or with the first [`Failure`], ready to print:
//!
//! | suite | what it runs |
//! |---|---|
//! | [`vectors`] | the timed tables of `spec/vectors/` |
//! | [`exhaustive`] | every short sequence over small limits, step by step beside an [`Oracle`] |
//! | [`random`] | long random sequences over any limit, beside an oracle and for every property |
//! | [`boundaries`] | the largest and smallest limits, costs and instants, beside an oracle |
//! | [`properties`] | what every algorithm promises, asked of the engine alone |
//!
//! [`penalty`] has an oracle and sequences of its own.
//! [`redis`] starts real servers for stores that need one, and [`access_log`] holds a day of real
//! traffic for the history.
//!
//! Invariant: nothing here knows how an engine decides. The oracles are
//! written from the definitions in `spec/algorithms/`, keep every take, and
//! search for instants instead of working them out.
//!
//! Deliberately not here: clocks, sleeping, and the engines of other crates.

pub mod access_log;
pub mod boundaries;
pub mod engine;
pub mod exhaustive;
pub mod oracle;
pub mod penalty;
pub mod properties;
pub mod random;
pub mod redis;
pub mod scenario;
pub mod vectors;

pub use access_log::nasa_log;
pub use engine::{CoreEngine, Engine};
pub use oracle::Oracle;
pub use redis::{RedisCluster, RedisSentinel, RedisServer};
pub use scenario::{Failure, Scenario, Step};
