//! History as a whole: real files, real logs, real crashes.
//!
//! | module | what it shows |
//! |---|---|
//! | `flood` | made-up names take no room from real ones, and no total is wrong |
//! | `formats` | files of every released format still open |
//! | `imports` | no line of a log counts twice |
//! | `kills` | `kill -9` at any moment loses no flush that was acknowledged |
//! | `log` | a real log, and random numbers |
//! | `nodes` | several nodes on real servers add up, whatever breaks |
//! | `others` | the same on other versions of Redis, and on Valkey |
//! | `tables` | tables in memory, in a folder and on Redis keep the same promises |
//! | `torn` | kills and torn logs on Redis lose and repeat nothing |

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail loudly, and tests say what they measured"
)]

mod damage;
mod flood;
mod forget;
mod formats;
mod imports;
mod kills;
mod log;
mod nodes;
mod others;
mod tables;
mod torn;
