//! The curve, and what was asked for besides the report: all algorithms, limits that would fit, one key's
//! story.
//!
//! Invariant: names come out of logs, so that attackers may have written them; all go through
//! [`clean`] or `shorten`, which cleans.

use std::io::{self, Write};

use tollgate_replay::{AlgorithmRow, CurvePoint, KeyStory, ReplayReport, Share, SuggestRow};

use crate::console::{BAD, BOLD, DIM, WARN, clean};
use crate::history::{bars, columns, grouped, moment, share, shorten};

/// The curve in the width that there is.
pub(super) fn curve(points: &[CurvePoint], times: (u64, u64), out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    let width = usize::try_from(columns()).unwrap_or(1).max(1);
    let per_bar = points.len().div_ceil(width).max(1);
    let sum = |points: &[CurvePoint]| {
        let add = |(all, denied), point: &CurvePoint| (all + point.requests, denied + point.denied);
        Some(points.iter().fold((0, 0), add))
    };
    let columns: Vec<_> = points.chunks(per_bar).map(sum).collect();
    bars(&columns, times, out)
}

/// The same numbers by each algorithm.
pub(super) fn algorithms(
    report: &ReplayReport,
    rows: &[AlgorithmRow],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "\n{BOLD}{:<40} {:>12} {:>7} {:>12} {:>12}{BOLD:#}",
        "the same numbers by", "denied", "", "delayed", "keys denied"
    )?;
    for row in rows {
        if let Some(why) = &row.not_possible {
            writeln!(out, "{:<40} {WARN}not possible{WARN:#}: {}", row.algorithm, clean(why))?;
            continue;
        }
        writeln!(
            out,
            "{:<40} {:>12} {:>7} {:>12} {:>12}",
            row.algorithm,
            grouped(row.denied),
            share(row.denied, report.requests),
            grouped(row.delayed),
            grouped(row.keys_denied)
        )?;
    }
    Ok(())
}

/// Which limits would fit a rule.
pub(super) fn suggestion(row: &SuggestRow, out: &mut dyn Write) -> io::Result<()> {
    let name = clean(&format!("{}/{}", row.names.domain, row.names.rule)).into_owned();
    let SuggestRow { peak, .. } = row;
    writeln!(
        out,
        "\n{BOLD}limits that would fit {name}{BOLD:#} ({}, {} s windows)",
        row.algorithm, row.window_s
    )?;
    writeln!(
        out,
        "peak use of {} keys: half of them {} or less, 90% {}, 99% {}, the most {}",
        grouped(row.keys),
        grouped(peak.p50),
        grouped(peak.p90),
        grouped(peak.p99),
        grouped(peak.max)
    )?;
    writeln!(
        out,
        "{BOLD}{:>12} {:>12} {:>7} {:>12} {:>7}{BOLD:#}",
        "limit", "keys denied", "", "denied", ""
    )?;
    for limit in &row.limits {
        let mark = match (limit.is_own, Some(limit.limit) == row.smallest) {
            (true, true) => format!("  the rule now, and the smallest that denies up to {}", row.share),
            (false, true) => format!("  the smallest of these that denies up to {}", row.share),
            (true, false) => "  the rule now".to_owned(),
            (false, false) => String::new(),
        };
        writeln!(
            out,
            "{:>12} {:>12} {:>7} {:>12} {:>7}{mark}",
            grouped(limit.limit.into()),
            grouped(limit.keys),
            share(limit.keys, row.keys),
            grouped(limit.requests),
            Share::of(limit.requests, row.requests).to_string()
        )?;
    }
    if row.smallest.is_none() {
        writeln!(out, "{WARN}none of these denies as little as {}{WARN:#}", row.share)?;
    }
    writeln!(out, "{DIM}each limit tried alone, by the rule's own algorithm; a burst grows with it{DIM:#}")
}

/// One key's story.
pub(super) fn story(story: &KeyStory, out: &mut dyn Write) -> io::Result<()> {
    let KeyStory { requests, denied, delayed, soft, .. } = *story;
    let name = format!("{}/{}", story.names.domain, story.names.rule);
    writeln!(out, "\n{BOLD}{}{BOLD:#} under {}", clean(&story.key), clean(&name))?;
    writeln!(
        out,
        "{} requests from {} to {} UTC; {BAD}{}{BAD:#} denied ({}), {} delayed, {} over a soft limit",
        grouped(requests),
        moment(story.from),
        moment(story.to),
        grouped(denied),
        share(denied, requests),
        grouped(delayed),
        grouped(soft)
    )?;
    writeln!(
        out,
        "at most {} of {} taken at once; told to wait up to {}.{:03} s; {} had got a 429 already",
        grouped(story.peak),
        grouped(story.limit),
        grouped(story.longest_wait_ms / 1_000),
        story.longest_wait_ms % 1_000,
        grouped(story.already_429)
    )?;
    curve(&story.curve, (story.from, story.to), out)?;
    if story.episode_count > 0 {
        writeln!(
            out,
            "\n{BOLD}denied {} times for a while, the first of them{BOLD:#}",
            grouped(story.episode_count)
        )?;
        for episode in &story.episodes {
            let denied = grouped(episode.denied);
            writeln!(out, "  {} to {}  {denied:>12}", moment(episode.from), moment(episode.to))?;
        }
    }
    writeln!(out, "\n{BOLD}{:<60} {:>12} {:>12}{BOLD:#}", "what it asked for", "requests", "denied")?;
    for row in &story.routes {
        writeln!(
            out,
            "{:<60} {:>12} {:>12}",
            shorten(&row.route),
            grouped(row.requests),
            grouped(row.denied)
        )?;
    }
    Ok(())
}
