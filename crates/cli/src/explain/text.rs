//! A story for people.
//!
//! Deliberately not here: anything that is not in the [`Story`], but for costs.

use std::io::{self, Write};

use tollgate_server::explain::{CounterTold, DescriptorTold, LevelTold, LimitTold, Story, words};

use crate::console::{BAD, BOLD, DIM, GOOD, WARN, clean, wrapped};

/// As wide as `  answer   ` and the like, for what does not fit behind them.
const BELOW_LABEL: &str = "           ";

/// Writes the whole story of a request with these costs.
pub(super) fn write(story: &Story, costs: &[u64], out: &mut dyn Write) -> io::Result<()> {
    let costs: Vec<String> = costs.iter().map(u64::to_string).collect();
    writeln!(out, "{BOLD}domain{BOLD:#} {}, cost {}", clean(&story.domain), costs.join(","))?;
    if !story.domain_known {
        return unknown_domain(story, out);
    }
    let several = story.descriptors.len() > 1;
    for (index, told) in story.descriptors.iter().enumerate() {
        let number = if several { format!(" {}", index + 1) } else { String::new() };
        writeln!(out, "\n{BOLD}descriptor{number}{BOLD:#} {}", clean(&descriptor(told)))?;
        for level in &told.levels {
            walk(level, out)?;
        }
        limits(told, "  ", out)?;
    }
    verdict(story, out)
}

fn descriptor(told: &DescriptorTold) -> String {
    words::descriptor(told.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())))
}

fn unknown_domain(story: &Story, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {WARN}no rules for this domain{WARN:#}: allowed, nothing counted")?;
    if let Some(name) = &story.nearest_domain {
        writeln!(out, "  did you mean '{}'?", clean(name))?;
    }
    writeln!(out, "  these domains have rules: {}", clean(&story.known_domains.join(", ")))
}

fn walk(level: &LevelTold, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {}", clean(&level.entry))?;
    let width = level.candidates.iter().map(|candidate| candidate.text.chars().count()).max().unwrap_or(0);
    for candidate in &level.candidates {
        let text = clean(&candidate.text);
        if candidate.chosen {
            writeln!(out, "    {GOOD}> {text:width$}{GOOD:#}  {}", candidate.reason)?;
        } else {
            writeln!(out, "    {DIM}- {text:width$}  {}{DIM:#}", candidate.reason)?;
        }
    }
    if level.left_out > 0 {
        writeln!(out, "    {DIM}  and {} more that do not match{DIM:#}", level.left_out)?;
    }
    if level.passed_limits {
        let chosen = level.chosen.as_deref().unwrap_or_default();
        let chosen = clean(chosen);
        writeln!(
            out,
            "    {WARN}the limits of '{chosen}' do not apply{WARN:#}, because more entries follow"
        )?;
    }
    Ok(())
}

/// Writes what applies to a descriptor, and what it decided.
pub(crate) fn limits(told: &DescriptorTold, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    if let Some(why) = &told.free_words {
        writeln!(out, "{indent}{}", clean(why))?;
    }
    if let Some((key, nearest)) = told.unknown_key.as_ref().zip(told.nearest_key.as_ref()) {
        writeln!(out, "{indent}no rule has the key '{}'; did you mean '{}'?", clean(key), clean(nearest))?;
    }
    if let Some(words) = told.exception_words {
        writeln!(out, "{indent}{WARN}{words}{WARN:#}")?;
    }
    for limit in &told.limits {
        one_limit(limit, indent, out)?;
    }
    Ok(())
}

fn one_limit(limit: &LimitTold, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let name = clean(&limit.rule);
    let line = format!("{indent}limit {name}: {}", limit.limit);
    match line.chars().count() > 80 {
        true => {
            let numbers = wrapped(&limit.limit, &format!("{indent}  "));
            writeln!(out, "{indent}limit {BOLD}{name}{BOLD:#}:\n{numbers}")?;
        }
        false => writeln!(out, "{indent}limit {BOLD}{name}{BOLD:#}: {}", limit.limit)?,
    }
    let below = |text: &str| wrapped(text, &format!("{indent}{BELOW_LABEL}")).trim_start().to_owned();
    if limit.path != limit.rule {
        writeln!(out, "{indent}  {DIM}rule     {}{DIM:#}", clean(&limit.path))?;
    }
    if let Some(mode) = limit.mode_words {
        writeln!(out, "{indent}  mode     {WARN}{mode}{WARN:#}")?;
    }
    if !limit.message.is_empty() {
        writeln!(out, "{indent}  says     {}", below(&clean(&limit.message)))?;
    }
    if let Some(by) = &limit.replaced_by {
        return writeln!(out, "{indent}  {WARN}does not apply{WARN:#}: replaced by {}", clean(by));
    }
    if let Some(why) = limit.skipped_words {
        return writeln!(out, "{indent}  {WARN}does not apply{WARN:#}: {why}");
    }
    if let Some(counter) = &limit.counter {
        writeln!(out, "{indent}  counter  {}", below(&clean(&counter_words(counter))))?;
    }
    if let Some(decision) = &limit.decision {
        // The mark is one word, so that it is not broken, until its gaps are put in.
        let mark = if decision.binding { " _<-_decides" } else { "" };
        let answer = below(&format!("{}{mark}", decision.words));
        let answer = answer.replace("_<-_decides", &format!("{BOLD} <- decides{BOLD:#}"));
        writeln!(out, "{indent}  answer   {answer}")?;
    }
    Ok(())
}

fn counter_words(counter: &CounterTold) -> String {
    let entries = counter.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
    let shared: Vec<_> =
        counter.entries.iter().filter(|entry| entry.shared).map(|entry| entry.key.as_str()).collect();
    let mut text = format!("{} {}", counter.domain, words::descriptor(entries));
    if !shared.is_empty() {
        text.push_str(&format!(" (all values of {} that fit count together)", shared.join(" and ")));
    }
    text
}

fn verdict(story: &Story, out: &mut dyn Write) -> io::Result<()> {
    let style = match story.verdict {
        "allow" => GOOD,
        "delay" => WARN,
        _ => BAD,
    };
    write!(out, "\n{BOLD}on unused counters{BOLD:#}: {style}{}{style:#}", story.verdict_words)?;
    match &story.binding {
        Some(rule) => writeln!(out, ", by {}", clean(rule)),
        None if story.has_limits() => writeln!(out, ", no limit is enforced"),
        None => writeln!(out, ", no limit applies"),
    }
}
