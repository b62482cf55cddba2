//! What the operating system knows about this process, from `/proc`.
//!
//! Where there is no `/proc` nothing is told.

use std::fs;

use super::exposition::{MetricKind, MetricsPage, Milli};

/// Ticks of processor time a second, the same on every Linux that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// Adds the usual `process_` series to a page.
pub(super) fn add(page: &mut MetricsPage) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(ticks) = cpu_ticks(&stat) {
        let help = "Processor time used, user and system, in seconds.";
        page.single("process_cpu_seconds_total", MetricKind::Counter, help, Milli(millis(ticks)));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = status_bytes(&status, "VmRSS:") {
        page.single("process_resident_memory_bytes", MetricKind::Gauge, "Memory in use, in bytes.", bytes);
    }
    if let Some(bytes) = status_bytes(&status, "VmSize:") {
        page.single(
            "process_virtual_memory_bytes",
            MetricKind::Gauge,
            "Address space in use, in bytes.",
            bytes,
        );
    }
    if let Some(threads) = field_after(&status, "Threads:") {
        page.single("process_threads", MetricKind::Gauge, "Threads.", threads);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The folder itself is open while it is read.
        page.single(
            "process_open_fds",
            MetricKind::Gauge,
            "Open files and sockets.",
            open.count().saturating_sub(1),
        );
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(most) = field_after(&limits, "Max open files") {
        page.single(
            "process_max_fds",
            MetricKind::Gauge,
            "The most files and sockets that may be open.",
            most,
        );
    }
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    if let Some((boot, ticks)) = field_after(&boot, "btime").zip(start_ticks(&stat)) {
        let help = "When the process started, in seconds since 1970.";
        page.single(
            "process_start_time_seconds",
            MetricKind::Gauge,
            help,
            Milli(boot * 1_000 + millis(ticks)),
        );
    }
}

fn millis(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000 / TICKS_PER_SECOND)
}

/// The fields of `/proc/self/stat` from the third on; the second may hold spaces.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number - 3)?.parse().ok()
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    Some(stat_field(stat, 14)? + stat_field(stat, 15)?)
}

fn start_ticks(stat: &str) -> Option<u64> {
    stat_field(stat, 22)
}

fn status_bytes(status: &str, name: &str) -> Option<u64> {
    field_after(status, name).map(|kilobytes| kilobytes * 1_024)
}

/// The number that follows `name` at the beginning of a line.
fn field_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 110 120 0 0 20 0 4 0 5678 9";
        assert_eq!((cpu_ticks(stat), start_ticks(stat)), (Some(230), Some(5_678)));
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(status_bytes("VmSize:\t  10 kB\nVmRSS:\t  2 kB\n", "VmRSS:"), Some(2_048));
        assert_eq!(
            field_after("Max open files            1024    2048   files\n", "Max open files"),
            Some(1_024)
        );
        assert_eq!(field_after("Max open files            unlimited\n", "Max open files"), None);
    }

    #[test]
    fn this_process_is_told() {
        let mut page = MetricsPage::default();
        add(&mut page);
        let page = page.finish();
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(page.contains(&format!("\n{name} ")) || !cfg!(target_os = "linux"), "{name}");
        }
    }
}
