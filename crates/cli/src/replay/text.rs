//! A report for people: what it adds up to, the curve, and tables of rules, keys and routes.
//!
//! Invariant: names come out of logs, so that attackers may have written them; all go through
//! [`clean`].

use std::io::{self, Write};

use tollgate_replay::{ChangedKey, ReplayReport, ReplaySettings, RuleChange};

use super::trials;
use crate::console::{BAD, BOLD, DIM, WARN, clean};
use crate::history::{grouped, moment, share, shorten};

pub(super) fn write(settings: &ReplaySettings, report: &ReplayReport, out: &mut dyn Write) -> io::Result<()> {
    head(settings, report, out)?;
    if report.requests == 0 {
        return Ok(());
    }
    trials::curve(&report.curve, (report.from, report.to), out)?;
    rules(report, out)?;
    keys(report, out)?;
    routes(report, out)?;
    if let Some(change) = &report.against {
        changes(change, out)?;
    }
    if let Some(rows) = &report.algorithms {
        trials::algorithms(report, rows, out)?;
    }
    for row in report.suggest.iter().flatten() {
        trials::suggestion(row, out)?;
    }
    for story in report.explain.iter().flatten() {
        trials::story(story, out)?;
    }
    Ok(())
}

fn head(settings: &ReplaySettings, report: &ReplayReport, out: &mut dyn Write) -> io::Result<()> {
    let ReplayReport { lines, requests, not_understood, denied, delayed, .. } = *report;
    let [lines, requests_shown] = [lines, requests].map(grouped);
    writeln!(
        out,
        "{BOLD}{requests_shown} requests{BOLD:#} in {lines} lines ({})",
        clean(&report.formats.join(", "))
    )?;
    if requests > 0 {
        writeln!(out, "{} to {} UTC", moment(report.from), moment(report.to))?;
        let all = format!("denied {BAD}{}{BAD:#} ({})", grouped(denied), share(denied, requests));
        writeln!(out, "{all}, delayed {} ({})", grouped(delayed), share(delayed, requests))?;
        if report.already_429 > 0 {
            writeln!(out, "{} had got a 429 already", grouped(report.already_429))?;
        }
        let spread = match report.spread {
            "even" => "requests of one second are spread over it, where the log has whole seconds",
            _ => "requests of one second are all at its start",
        };
        writeln!(
            out,
            "{DIM}{spread}; as the mapping of the domain {} says{DIM:#}",
            clean(settings.mapping.domain())
        )?;
    }
    if not_understood > 0 {
        writeln!(out, "{WARN}{} lines are no request{WARN:#}; the first of them:", grouped(not_understood))?;
        for line in &report.examples_not_understood {
            writeln!(out, "  {DIM}{}{DIM:#}", clean(line))?;
        }
    }
    if report.late > 0 {
        let late = grouped(report.late);
        writeln!(
            out,
            "{WARN}{late} lines were out of order by more than a minute{WARN:#}, and count later than they say"
        )?;
    }
    if report.denied_by_mapping > 0 {
        writeln!(
            out,
            "{} requests lack a value that the mapping demands",
            grouped(report.denied_by_mapping)
        )?;
    }
    if report.keys_beyond_bound {
        writeln!(
            out,
            "{WARN}there are too many keys to tell all of them apart{WARN:#}; rules count all of them"
        )?;
    }
    Ok(())
}

fn rules(report: &ReplayReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{BOLD}{:<40} {:>12} {:>12} {:>7} {:>10} {:>12}{BOLD:#}",
        "rule", "requests", "denied", "", "delayed", "keys denied"
    )?;
    for row in &report.rules {
        let name = shorten(&format!("{}/{}", row.domain, row.rule));
        let shadow = if row.shadow { "  shadow" } else { "" };
        let keys = format!("{} of {}", grouped(row.keys_denied), grouped(row.keys));
        writeln!(
            out,
            "{name:<40} {:>12} {:>12} {:>7} {:>10} {keys:>12}{shadow}",
            grouped(row.requests),
            grouped(row.denied),
            share(row.denied, row.requests),
            grouped(row.delayed)
        )?;
    }
    if report.rules.iter().all(|row| row.requests == 0) {
        writeln!(
            out,
            "{WARN}no rule matched any request{WARN:#}: are the domain and the keys those of the mapping?"
        )?;
    }
    Ok(())
}

fn keys(report: &ReplayReport, out: &mut dyn Write) -> io::Result<()> {
    let hit: Vec<_> = report.keys.iter().filter(|row| row.denied + row.delayed > 0).collect();
    if hit.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{BOLD}{:<60} {:>12} {:>12} {:>7}{BOLD:#}",
        "most affected keys", "requests", "denied", ""
    )?;
    for row in hit {
        let name = shorten(&format!("{} ({}/{})", row.key, row.domain, row.rule));
        let share = share(row.denied, row.requests);
        writeln!(out, "{name:<60} {:>12} {:>12} {share:>7}", grouped(row.requests), grouped(row.denied))?;
    }
    Ok(())
}

fn routes(report: &ReplayReport, out: &mut dyn Write) -> io::Result<()> {
    let hit: Vec<_> = report.routes.iter().filter(|row| row.denied + row.delayed > 0).collect();
    if hit.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{BOLD}{:<60} {:>12} {:>12} {:>7}{BOLD:#}",
        "most affected routes", "requests", "denied", ""
    )?;
    for row in hit {
        let share = share(row.denied, row.requests);
        writeln!(
            out,
            "{:<60} {:>12} {:>12} {share:>7}",
            shorten(&row.route),
            grouped(row.requests),
            grouped(row.denied)
        )?;
    }
    Ok(())
}

fn changes(change: &RuleChange, out: &mut dyn Write) -> io::Result<()> {
    let RuleChange { denied, newly_denied, newly_allowed, keys } = change;
    let [denied, newly_denied, newly_allowed] =
        [denied, newly_denied, newly_allowed].map(|count| grouped(*count));
    writeln!(
        out,
        "\nthe other rules deny {denied}; {BAD}{newly_denied}{BAD:#} are newly denied, {newly_allowed} newly allowed"
    )?;
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(out, "{BOLD}{:<60} {:>14} {:>14}{BOLD:#}", "changed keys", "newly denied", "newly allowed")?;
    for ChangedKey { domain, rule, key, newly_denied, newly_allowed } in keys {
        let name = shorten(&format!("{key} ({domain}/{rule})"));
        writeln!(out, "{name:<60} {:>14} {:>14}", grouped(*newly_denied), grouped(*newly_allowed))?;
    }
    Ok(())
}
