//! How busy the machine is: its processors, and how long work waits for them.
//!
//! Read once a second by `run::load`, and reported to the gauge that elastic limits go by. In a
//! container with a limit of its own that limit is what is busy, and not the machine.
//!
//! | file | what is taken from it |
//! |---|---|
//! | `/sys/fs/cgroup/cpu.max`, `cpu.stat` | the time that the group may use, and has used |
//! | `/proc/stat` | the time that all processors had, and were idle, if the group has no limit |
//! | `/proc/pressure/cpu`, or the group's `cpu.pressure` | the share of the last ten seconds in which work had to wait |
//!
//! Invariant: what cannot be read says nothing; without any of them there is no reading.
//!
//! Deliberately not here: other systems than Linux, which have none of these files.
#![expect(clippy::float_arithmetic, reason = "a load is a measurement")]

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_core::{Micros, Time};
use tollgate_limiter::Load;

/// Reads the load of the host, each time since the last.
#[derive(Debug)]
pub struct HostLoad {
    root: PathBuf,
    last: Option<CpuSample>,
}

/// How much of the processors was used until some instant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CpuSample {
    used: f64,
    /// What could have been used until then.
    had: f64,
}

impl HostLoad {
    /// The host whose files are below `root`, which is `/` but for tests.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), last: None }
    }

    /// The load since the last call; none at the first, or if nothing can be read.
    pub fn read(&mut self, now: Time) -> Option<Load> {
        let group = self.root.join("sys/fs/cgroup");
        let sample = group_sample(&group, now).or_else(|| machine_sample(&self.root));
        let busy = sample.zip(self.last).and_then(|(sample, last)| {
            let had = sample.had - last.had;
            (had > 0.0).then(|| Load::clamped((sample.used - last.used) / had))
        });
        self.last = sample;
        let pressures = [group.join("cpu.pressure"), self.root.join("proc/pressure/cpu")];
        let waiting = pressures.iter().find_map(|path| pressure(&fs::read_to_string(path).ok()?));
        [busy, waiting].into_iter().flatten().reduce(Load::max).filter(|_| busy.is_some())
    }
}

/// What a control group with a limit has used, in seconds; none if it has no limit.
fn group_sample(group: &Path, now: Time) -> Option<CpuSample> {
    let max = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = max.split_whitespace();
    // Without a limit the first word is `max`.
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
    let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    let since_epoch = std::time::Duration::from(Micros::new(now.get())).as_secs_f64();
    Some(CpuSample { used: used.trim().parse::<f64>().ok()? / 1e6, had: since_epoch * quota / period })
}

/// What all processors have done, in ticks.
fn machine_sample(root: &Path) -> Option<CpuSample> {
    let stat = fs::read_to_string(root.join("proc/stat")).ok()?;
    let cpu = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = cpu.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; what guests use is in user already.
    let had: f64 = ticks.iter().take(8).sum();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (ticks.len() >= 5).then_some(CpuSample { used: had - idle, had })
}

/// The share of the last ten seconds in which some work waited.
fn pressure(text: &str) -> Option<Load> {
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="))?;
    let percent: f64 = some.split_whitespace().next()?.parse().ok()?;
    Some(Load::clamped(percent / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn percent(load: Option<Load>) -> Option<f64> {
        load.map(|load| (load.get() * 100.0).round())
    }

    #[test]
    fn the_machine_is_as_busy_as_its_processors_were_since_the_last_look() {
        let root = tempfile::tempdir().unwrap();
        let mut host = HostLoad::new(root.path());
        assert_eq!(host.read(Time::EPOCH), None, "there is nothing to read");
        put(root.path(), "proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3 4\n");
        assert_eq!(host.read(Time::EPOCH), None, "the first look");
        put(root.path(), "proc/stat", "cpu  130 0 110 750 110 0 0 0 0 0\n");
        assert_eq!(percent(host.read(Time::EPOCH)), Some(40.0));
        put(root.path(), "proc/pressure/cpu", "some avg10=85.50 avg60=1.00 avg300=0.00 total=1\n");
        put(root.path(), "proc/stat", "cpu  140 0 120 790 150 0 0 0 0 0\n");
        assert_eq!(percent(host.read(Time::EPOCH)), Some(86.0), "work waits for the processors");
    }

    #[test]
    fn a_group_with_a_limit_is_as_busy_as_its_limit_is_used() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\n");
        put(root.path(), "sys/fs/cgroup/cpu.max", "200000 100000\n");
        put(root.path(), "sys/fs/cgroup/cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
        let mut host = HostLoad::new(root.path());
        assert_eq!(host.read(Time::from_secs(100)), None);
        put(root.path(), "sys/fs/cgroup/cpu.stat", "usage_usec 6500000\nuser_usec 1\n");
        assert_eq!(percent(host.read(Time::from_secs(101))), Some(75.0), "1.5 of 2 processors");
        put(root.path(), "sys/fs/cgroup/cpu.max", "max 100000\n");
        host.read(Time::from_secs(102));
        put(root.path(), "proc/stat", "cpu  190 0 100 710 100 0 0 0 0 0\n");
        assert_eq!(percent(host.read(Time::from_secs(103))), Some(90.0), "without a limit it is the machine");
    }
}
