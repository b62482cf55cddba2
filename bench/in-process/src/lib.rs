//! A check in process: what is measured, and what callgrind counts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`contestant`] | a limiter in process as the harness sees it, and three of ours |
//! | [`harness`] | times several of them in turns |
//! | [`scaling`] | what a check costs with more keys, more rules, more descriptors |
//! | [`logs`] | stores full of logs, to see what they take |
//! | [`pause`] | how long single checks take while millions of keys expire |
//! | [`instructions`] | the core paths for callgrind: `cargo xtask instructions` |
//!
//! `bench/peers` adds governor, throttlecrab and limitador; `cargo xtask bench` starts both and makes
//! `docs/performance.md` of what they print: a line for each sample, with tabs between the case, the name and
//! the value.

pub mod contestant;
pub mod harness;
pub mod instructions;
pub mod logs;
pub mod pause;
pub mod scaling;
