//! The tables of the page, one function each.

use tollgate_replay::{KeyStory, ReplayReport, Share, SuggestRow};

use super::table::{Align, number, table};
use super::{Page, chart};
use crate::history::{grouped, moment, share};

/// A cell with a number in a column that a narrow page leaves out.
fn extra(page: &mut Page, number: u64) {
    page.numbers(format_args!("<td class=\"num wide\" data-value=\"{number}\">{}</td>", grouped(number)));
}

/// A cell with a share, and a bar of that length.
fn part(page: &mut Page, (part, all): (u64, u64), text: &str) {
    let thousandths = u128::from(part) * 1_000 / u128::from(all.max(1));
    page.numbers(format_args!(
        "<td class=\"num\" data-value=\"{thousandths}\">{text} <svg class=\"share\" viewBox=\"0 0 1000 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{thousandths}\" height=\"6\"/></svg></td>"
    ));
}

/// A cell with a name of whoever, and the rule it is of below it.
fn name(page: &mut Page, name: &str, under: &str) {
    page.raw("<td class=\"wrap mono\">").text(name);
    if !under.is_empty() {
        page.raw("<span class=\"under dim small\">").text(under).raw("</span>");
    }
    page.raw("</td>");
}

const COUNTS: [(&str, Align); 4] = [
    ("Requests", Align::Right),
    ("Denied", Align::Right),
    ("Share", Align::Right),
    ("Delayed", Align::Right),
];

fn counts(page: &mut Page, requests: u64, denied: u64, delayed: u64) {
    number(page, requests);
    number(page, denied);
    part(page, (denied, requests), &share(denied, requests));
    extra(page, delayed);
}

/// What each rule did.
pub(super) fn rules(page: &mut Page, report: &ReplayReport) {
    page.card("By rule", |page| {
        let heads =
            [&[("Rule", Align::Left)], &COUNTS[..], &[("Keys", Align::Extra), ("Keys denied", Align::Extra)]];
        table(page, "What each rule did", &heads.concat(), |page| {
            for row in &report.rules {
                let under = if row.shadow { format!("{}, shadow", row.domain) } else { row.domain.clone() };
                page.raw("<tr>");
                name(page, &row.rule, &under);
                counts(page, row.requests, row.denied, row.delayed);
                extra(page, row.keys);
                extra(page, row.keys_denied);
                page.raw("</tr>\n");
            }
        });
    });
}

/// What was done to whom.
pub(super) fn keys(page: &mut Page, report: &ReplayReport) {
    page.card("Most affected keys", |page| {
        let heads = [&[("Key", Align::Left)], &COUNTS[..]].concat();
        table(page, "Most affected keys", &heads, |page| {
            for row in &report.keys {
                page.raw("<tr>");
                name(page, &row.key, &format!("{}/{}", row.domain, row.rule));
                counts(page, row.requests, row.denied, row.delayed);
                page.raw("</tr>\n");
            }
        });
    });
}

/// What was asked for.
pub(super) fn routes(page: &mut Page, report: &ReplayReport) {
    page.card("Most affected routes", |page| route_table(page, &report.routes));
}

fn route_table(page: &mut Page, routes: &[tollgate_replay::RouteRow]) {
    let heads = [&[("Route", Align::Left)], &COUNTS[..]].concat();
    table(page, "Routes", &heads, |page| {
        for row in routes {
            page.raw("<tr>");
            name(page, &row.route, "");
            counts(page, row.requests, row.denied, row.delayed);
            page.raw("</tr>\n");
        }
    });
}

/// What is different from the other rules.
pub(super) fn changes(page: &mut Page, report: &ReplayReport) {
    let Some(change) = &report.against else { return };
    page.card("Against the other rules", |page| {
        let [denied, new, gone] = [change.denied, change.newly_denied, change.newly_allowed].map(grouped);
        page.numbers(format_args!(
            "<p>The other rules deny {denied}; {new} are newly denied, {gone} newly allowed.</p>"
        ));
        let heads = [("Key", Align::Left), ("Newly denied", Align::Right), ("Newly allowed", Align::Right)];
        table(page, "Changed keys", &heads, |page| {
            for row in &change.keys {
                page.raw("<tr>");
                name(page, &row.key, &format!("{}/{}", row.domain, row.rule));
                number(page, row.newly_denied);
                number(page, row.newly_allowed);
                page.raw("</tr>\n");
            }
        });
    });
}

/// The same numbers by each algorithm.
pub(super) fn algorithms(page: &mut Page, report: &ReplayReport) {
    let Some(rows) = &report.algorithms else { return };
    page.card("The same numbers by all algorithms", |page| {
        let heads = [
            ("Algorithm", Align::Left),
            ("Denied", Align::Right),
            ("Share", Align::Right),
            ("Delayed", Align::Right),
            ("Keys denied", Align::Right),
        ];
        table(page, "The same numbers by all algorithms", &heads, |page| {
            for row in rows {
                page.raw("<tr>");
                name(page, row.algorithm, row.not_possible.as_deref().unwrap_or_default());
                number(page, row.denied);
                part(page, (row.denied, report.requests), &share(row.denied, report.requests));
                number(page, row.delayed);
                number(page, row.keys_denied);
                page.raw("</tr>\n");
            }
        });
    });
}

/// Which limits would fit a rule.
pub(super) fn suggestion(page: &mut Page, row: &SuggestRow) {
    page.card(&format!("Limits that would fit {}/{}", row.names.domain, row.names.rule), |page| {
        let [p50, p90, p99, max] = [row.peak.p50, row.peak.p90, row.peak.p99, row.peak.max].map(grouped);
        page.numbers(format_args!(
            "<p>Peak use of {} keys in {} s: half of them {p50} or less, 90% {p90}, 99% {p99}, the most {max}. Each limit is tried alone, by the rule's algorithm ({}).</p>",
            grouped(row.keys),
            row.window_s,
            row.algorithm
        ));
        let heads = [
            ("Limit", Align::Right),
            ("Keys denied", Align::Right),
            ("Denied", Align::Right),
            ("Share", Align::Right),
            ("Note", Align::Left),
        ];
        table(page, "What each limit would do", &heads, |page| {
            for limit in &row.limits {
                page.raw("<tr>");
                number(page, limit.limit.into());
                number(page, limit.keys);
                number(page, limit.requests);
                // Finer than elsewhere: it is held against a small share.
                let share = Share::of(limit.requests, row.requests);
                part(page, (limit.requests, row.requests), &share.to_string());
                page.raw("<td>");
                if limit.is_own {
                    page.raw("<span class=\"tag\">the rule now</span> ");
                }
                if row.smallest == Some(limit.limit) {
                    page.raw("<span class=\"tag\">smallest that denies up to ").text(&row.share).raw("</span>");
                }
                page.raw("</td></tr>\n");
            }
        });
    });
}

/// One key's story.
pub(super) fn story(page: &mut Page, story: &KeyStory) {
    page.card(&format!("{} under {}/{}", story.key, story.names.domain, story.names.rule), |page| {
        let [requests, denied, delayed, soft] = [story.requests, story.denied, story.delayed, story.soft].map(grouped);
        let [peak, limit, times] = [story.peak, story.limit, story.episode_count].map(grouped);
        page.numbers(format_args!(
            "<p>{requests} requests from {} to {} UTC; {denied} denied, {delayed} delayed, {soft} over a soft limit. At most {peak} of {limit} taken at once; denied for a while {times} times.</p>",
            moment(story.from),
            moment(story.to)
        ));
        chart::draw(page, &story.curve, story.step_s);
        let heads = [("Denied from (UTC)", Align::Left), ("To", Align::Left), ("Denied", Align::Right)];
        table(page, "When it was denied", &heads, |page| {
            for episode in &story.episodes {
                page.numbers(format_args!(
                    "<tr><td data-value=\"{}\">{}</td><td data-value=\"{}\">{}</td>",
                    episode.from,
                    moment(episode.from),
                    episode.to,
                    moment(episode.to)
                ));
                number(page, episode.denied);
                page.raw("</tr>\n");
            }
        });
        route_table(page, &story.routes);
    });
}
