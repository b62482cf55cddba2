//! What came of a run, as people and programs read it.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use tollgate_load::LoadReport;
use tollgate_load::plan::{LoadLoop, LoadRequest, Plan, RunLength};
use tollgate_server::explain::words;

use crate::console::{BAD, BOLD, DIM, WARN, clean};
use crate::history::grouped;

/// What came of a run, in the words of JSON.
#[derive(Debug, Serialize)]
pub(super) struct LoadJson<'a> {
    protocol: String,
    address: &'a str,
    connections: usize,
    in_flight: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_s: Option<u32>,
    keys: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    zipf: Option<f64>,
    elapsed_ms: u128,
    answered: u64,
    answered_per_s: u64,
    allow: u64,
    /// Of those, without meeting any limit that is enforced.
    unlimited: u64,
    delay: u64,
    deny: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<&'a str>,
    lost_connections: usize,
    unanswered: u64,
    p50_us: u128,
    p90_us: u128,
    p99_us: u128,
    p99_9_us: u128,
    max_us: u128,
    /// Null if nobody knows.
    server_cpu_per_decision_ns: Option<u64>,
    bench_cpu_per_decision_ns: Option<u64>,
}

pub(super) fn json<'a>(plan: &'a Plan, report: &'a LoadReport) -> LoadJson<'a> {
    let (latencies, verdicts) = (&report.latencies, &report.verdicts);
    LoadJson {
        protocol: plan.protocol().to_string(),
        address: &plan.address,
        connections: plan.connections,
        in_flight: plan.in_flight,
        rate_per_s: rate(plan),
        keys: plan.keys.count,
        zipf: plan.keys.zipf,
        elapsed_ms: report.elapsed.as_millis(),
        answered: report.answered,
        answered_per_s: report.per_second(),
        allow: verdicts.allow,
        unlimited: verdicts.unlimited,
        delay: verdicts.delay,
        deny: verdicts.deny,
        errors: report.errors,
        first_error: report.first_error.as_deref(),
        lost_connections: report.lost,
        unanswered: report.unanswered,
        p50_us: latencies.p50.as_micros(),
        p90_us: latencies.p90.as_micros(),
        p99_us: latencies.p99.as_micros(),
        p99_9_us: latencies.p99_9.as_micros(),
        max_us: latencies.max.as_micros(),
        server_cpu_per_decision_ns: report.server_cpu_ns(),
        bench_cpu_per_decision_ns: report.own_cpu_ns(),
    }
}

pub(super) fn text(
    plan: &Plan,
    report: &LoadReport,
    server_pid: Option<u32>,
    out: &mut dyn Write,
) -> io::Result<()> {
    head(plan, out)?;
    let speed = grouped(report.per_second());
    writeln!(out, "{:<12}{BOLD}{speed}{BOLD:#} decisions/s", "throughput")?;
    let l = &report.latencies;
    let all = [("p50", l.p50), ("p90", l.p90), ("p99", l.p99), ("p99.9", l.p99_9), ("max", l.max)];
    let all: Vec<String> = all.iter().map(|(name, span)| format!("{name} {}", micros(*span))).collect();
    writeln!(out, "{:<12}{}", "latency", all.join(", "))?;
    let [allow, delay, deny] =
        [report.verdicts.allow, report.verdicts.delay, report.verdicts.deny].map(grouped);
    writeln!(out, "{:<12}allow {allow}, delay {delay}, deny {deny}", "verdicts")?;
    if report.verdicts.unlimited > 0 {
        let unlimited = grouped(report.verdicts.unlimited);
        writeln!(out, "{:<12}{WARN}{unlimited}{WARN:#} met no limit that is enforced", "")?;
    }
    let nobody = match server_pid {
        None => "n/a; give --server-pid",
        Some(_) => "n/a; the system does not tell it of such a process",
    };
    for (name, used, none) in [
        ("server CPU", report.server_cpu_ns(), nobody),
        ("bench CPU", report.own_cpu_ns(), "n/a; the system does not tell it"),
    ] {
        match used {
            Some(ns) => writeln!(out, "{name:<12}{} per decision", micros(Duration::from_nanos(ns)))?,
            None => writeln!(out, "{name:<12}{DIM}{none}{DIM:#}")?,
        }
    }
    trouble(plan, report, out)
}

fn head(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let address = clean(&plan.address);
    let lines = format!("{} connections × {} in flight", grouped_size(plan.connections), plan.in_flight);
    let pace = rate(plan)
        .map_or("closed loop".to_owned(), |rate| format!("open loop of {}/s", grouped(u64::from(rate))));
    let length = match plan.length {
        RunLength::Time(span) => format!("{span:?}"),
        RunLength::Count(count) => format!("{} answers", grouped(count)),
    };
    writeln!(out, "{BOLD}{address} over {}{BOLD:#}: {lines}, {pace}, {length}", plan.protocol())?;
    let LoadRequest::Check(_, check) = &plan.request else { return Ok(()) };
    let entries = check.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let (domain, entries) = (clean(&check.domain), words::descriptor(entries));
    let how = plan.keys.zipf.map_or("uniform".to_owned(), |exponent| format!("Zipf {exponent}"));
    let (keys, after) = (grouped(u64::from(plan.keys.count)), plan.warm_up);
    writeln!(
        out,
        "{DIM}{domain} {}, {keys} keys, {how}, after {after:?} of warm-up{DIM:#}\n",
        clean(&entries)
    )
}

/// What did not go as it should.
fn trouble(plan: &Plan, report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let errors = grouped(report.errors);
    match report.first_error.as_deref() {
        None => writeln!(out, "{:<12}none", "errors")?,
        Some(first) => writeln!(out, "{:<12}{BAD}{errors}{BAD:#}, the first: {}", "errors", clean(first))?,
    }
    if report.lost > 0 {
        let (lost, all) = (report.lost, plan.connections);
        writeln!(out, "{BAD}{lost} of {all} connections were closed before the end{BAD:#}")?;
    }
    let Some(rate) = rate(plan) else { return Ok(()) };
    let (asked, came) = (u64::from(rate), report.per_second());
    // One in a hundred may still be on its way.
    if came < asked - asked / 100 {
        let [asked, came, late] = [asked, came, report.unanswered].map(grouped);
        let told = format!("{asked}/s were asked, {came}/s answered, {late} not yet");
        writeln!(out, "{WARN}the server did not keep up{WARN:#}: {told}")?;
    }
    Ok(())
}

const fn rate(plan: &Plan) -> Option<u32> {
    match plan.pacing {
        LoadLoop::Closed => None,
        LoadLoop::Open { per_second } => Some(per_second),
    }
}

/// A span with two digits behind the point.
fn micros(span: Duration) -> String {
    let (nanos, unit, name) = match span.as_nanos() {
        nanos @ 0..1_000_000 => (nanos, 1_000, "µs"),
        nanos @ 1_000_000..1_000_000_000 => (nanos, 1_000_000, "ms"),
        nanos => (nanos, 1_000_000_000, "s"),
    };
    format!("{}.{:02} {name}", nanos / unit, nanos % unit * 100 / unit)
}

fn grouped_size(number: usize) -> String {
    grouped(u64::try_from(number).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_unit_that_fits() {
        let cases = [(0, "0.00 µs"), (4_321, "4.32 µs"), (999_999, "999.99 µs"), (1_000_000, "1.00 ms")];
        for (nanos, text) in cases {
            assert_eq!(micros(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(micros(Duration::from_millis(61_250)), "61.25 s");
    }
}
