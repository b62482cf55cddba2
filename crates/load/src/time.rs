//! The wall clock, and the CPU time of a process.
//!
//! The only file here that reads clocks: latencies are real time. The CPU time of a process is asked of the system to the
//! nanosecond, and is unknown where that has no clock for it.

use std::time::{Duration, Instant};

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

/// No process of Linux has a larger number. In the name of its clock the number loses its upper bits, so that
/// a larger one is another process, as 2147483647 and 0 are the one that asks.
#[cfg(target_os = "linux")]
const PID_MAX: i32 = 1 << 22;

/// The CPU time that a process has used so far, threads that have ended included.
#[cfg(target_os = "linux")]
pub fn cpu_of(pid: u32) -> Option<Duration> {
    let pid = i32::try_from(pid).ok().filter(|pid| (1..=PID_MAX).contains(pid))?;
    let pid = nix::unistd::Pid::from_raw(pid);
    Some(nix::time::clock_getcpuclockid(pid).ok()?.now().ok()?.into())
}

/// The CPU time that a process has used so far.
#[cfg(not(target_os = "linux"))]
pub fn cpu_of(_: u32) -> Option<Duration> {
    None
}

/// The CPU time that this process has used so far.
pub(crate) fn own_cpu() -> Option<Duration> {
    cpu_of(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn work_takes_cpu_time_in_steps_of_less_than_a_tick() {
        const TICK: Duration = Duration::from_millis(10);
        assert_eq!(own_cpu().is_some(), cfg!(target_os = "linux"));
        let Some(mut last) = own_cpu() else { return };
        // Other tests take some as well, now and then more than a tick between two readings.
        let mut is_small_step = || {
            black_box((0..10_000_u64).map(black_box).sum::<u64>());
            let now = own_cpu().unwrap();
            let step = now - std::mem::replace(&mut last, now);
            step > Duration::ZERO && step < TICK
        };
        assert!((0..1_000).any(|_| is_small_step()));
    }

    #[test]
    fn a_process_that_is_not_there_has_no_cpu_time() {
        for nobody in [u32::MAX, i32::MAX.unsigned_abs(), (1 << 28) + std::process::id(), 0] {
            assert_eq!(cpu_of(nobody), None, "{nobody}");
        }
    }
}
