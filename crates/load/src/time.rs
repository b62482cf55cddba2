//! The wall clock, and the CPU time of a process.
//!
//! The only file here that reads the clock: latencies are real time. CPU time comes from `/proc` and
//! is unknown where there is none.

use std::time::{Duration, Instant};

/// A tick of `/proc/PID/stat`: Linux counts 100 a second for user programs.
const TICK: Duration = Duration::from_millis(10);

/// Time since the start of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "latencies are real time, and nothing is decided by them")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The CPU time that a process has used so far, in steps of 10 ms.
pub fn cpu_of(pid: u32) -> Option<Duration> {
    read(&format!("/proc/{pid}/stat"))
}

/// The CPU time that this process has used so far.
pub(crate) fn own_cpu() -> Option<Duration> {
    read("/proc/self/stat")
}

fn read(path: &str) -> Option<Duration> {
    parse(&std::fs::read_to_string(path).ok()?)
}

/// Fields 14 and 15; the second field is a name that may hold anything, brackets too.
fn parse(stat: &str) -> Option<Duration> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 150 27 0 0 20 0 3 0 100 1000 10";
        assert_eq!(parse(stat), Some(Duration::from_millis(1_770)));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_process_has_used_some_unless_there_is_no_proc() {
        assert_eq!(own_cpu().is_some(), std::path::Path::new("/proc/self/stat").exists());
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
