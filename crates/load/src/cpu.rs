//! The CPU time of a process, from `/proc`; none where there is no such thing.

use std::time::Duration;

/// A tick of `/proc/PID/stat`: Linux counts 100 a second for user programs.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far, by its id.
pub(crate) fn of(pid: u32) -> Option<Duration> {
    read(&format!("/proc/{pid}/stat"))
}

/// What this process has used so far.
pub(crate) fn own() -> Option<Duration> {
    read("/proc/self/stat")
}

fn read(path: &str) -> Option<Duration> {
    parse(&std::fs::read_to_string(path).ok()?)
}

/// Fields 14 and 15; the second field is a name that may hold anything.
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
    fn a_name_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 150 27 0 0 20 0 3 0 100 1000 10";
        assert_eq!(parse(stat), Some(Duration::from_millis(1_770)));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_process_has_used_some_or_there_is_no_proc() {
        assert_eq!(own().is_some(), std::path::Path::new("/proc/self/stat").exists());
        assert_eq!(of(u32::MAX), None);
    }
}
