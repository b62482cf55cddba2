//! `--html`: the report as one page that asks nobody for anything.
//!
//! The style is the dashboard's own, the script sorts tables and changes the theme; both stand in the page,
//! and its content security policy names their hashes and allows nothing else.
//!
//! Invariant: names come out of logs, so that attackers may have written them. Text gets into the page by
//! [`Page::text`] only, which escapes it.
//!
//! Deliberately not here: what the numbers mean, which `docs/guide/replay.md` says.

mod chart;
mod table;
mod tables;

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use tollgate_core::Rule;
use tollgate_replay::{ReplayReport, ReplaySettings};

use crate::console::clean;
use crate::history::{grouped, moment, share};
use table::Align;

const STYLE: &str = concat!(
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboard/src/style.css")),
    include_str!("html/report.css")
);
const SCRIPT: &str = include_str!("html/report.js");

/// A page that is being written.
#[derive(Debug, Default)]
struct Page {
    html: String,
}

impl Page {
    /// Markup of ours.
    fn raw(&mut self, markup: &str) -> &mut Self {
        self.html.push_str(markup);
        self
    }

    /// Text of whoever, escaped.
    fn text(&mut self, text: &str) -> &mut Self {
        for letter in clean(text).chars() {
            match letter {
                '&' => self.html.push_str("&amp;"),
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '"' => self.html.push_str("&quot;"),
                '\'' => self.html.push_str("&#39;"),
                plain => self.html.push(plain),
            }
        }
        self
    }

    /// Markup of ours with numbers in it, never with text of others.
    fn numbers(&mut self, markup: fmt::Arguments<'_>) -> &mut Self {
        // Writing to a text cannot fail.
        let _infallible = self.html.write_fmt(markup);
        self
    }

    fn card(&mut self, title: &str, content: impl FnOnce(&mut Self)) {
        self.raw("<section class=\"card\"><h2>").text(title).raw("</h2>");
        content(self);
        self.raw("</section>\n");
    }
}

/// The whole page.
pub(super) fn page(settings: &ReplaySettings, report: &ReplayReport) -> String {
    let mut page = Page::default();
    head(&mut page);
    summary(&mut page, report);
    page.card("When", |page| chart::draw(page, &report.curve, report.step_s));
    tables::rules(&mut page, report);
    page.raw("<div class=\"columns\">");
    tables::keys(&mut page, report);
    tables::routes(&mut page, report);
    page.raw("</div>\n");
    tables::changes(&mut page, report);
    tables::algorithms(&mut page, report);
    for row in report.suggest.iter().flatten() {
        tables::suggestion(&mut page, row);
    }
    for story in report.explain.iter().flatten() {
        tables::story(&mut page, story);
    }
    page.card("Rules", |page| rule_list(page, settings));
    page.card("Method", |page| method(page, settings, report));
    page.raw("</main>\n<script>").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    page.html
}

fn head(page: &mut Page) {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-");
    page.raw(&hash(STYLE)).raw("'; script-src 'sha256-").raw(&hash(SCRIPT)).raw("'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<title>Tollgate replay</title>\n<style>").raw(STYLE).raw("</style>\n</head>\n<body>\n");
    page.raw("<header class=\"top\"><div class=\"bar\"><span class=\"brand\">");
    page.raw(include_str!("../../../../dashboard/src/icon.svg").trim()).raw(" Tollgate replay</span>");
    page.raw("<div class=\"tools\"><button type=\"button\" id=\"theme\">Dark theme</button></div></div></header>\n<main>\n");
}

fn summary(page: &mut Page, report: &ReplayReport) {
    let ReplayReport { requests, denied, delayed, already_429, not_understood, .. } = *report;
    page.raw("<div><h1>Whom would these rules have hit?</h1>\n<p class=\"dim\">");
    page.numbers(format_args!("{} requests in {} lines (", grouped(requests), grouped(report.lines)));
    page.text(&report.formats.join(", "));
    page.numbers(format_args!("), {} to {} UTC</p></div>\n", moment(report.from), moment(report.to)));
    page.raw("<div class=\"tiles\">");
    for (name, count, of) in [
        ("Requests", requests, None),
        ("Denied", denied, Some(requests)),
        ("Delayed", delayed, Some(requests)),
        ("Had got a 429 already", already_429, Some(requests)),
        ("Lines that are no request", not_understood, Some(report.lines)),
    ] {
        page.raw("<div class=\"tile\"><span class=\"dim\">").text(name).raw("</span><b>");
        page.raw(&grouped(count));
        if let Some(of) = of {
            page.raw(" <small>").raw(&share(count, of)).raw("</small>");
        }
        page.raw("</b></div>");
    }
    page.raw("</div>\n");
}

fn rule_list(page: &mut Page, settings: &ReplaySettings) {
    let limit = |rule: &Rule| {
        let window = match rule.unit_multiplier {
            1 => rule.unit.name().to_owned(),
            several => format!("{several} {}s", rule.unit.name()),
        };
        let exceed = rule.limit.exceed_percent();
        let soft = if exceed > 0 { format!(", soft up to {exceed}% more") } else { String::new() };
        format!("{} per {window}, {}{soft}", grouped(rule.limit.count().into()), rule.limit.algorithm())
    };
    let heads = [("Rule", Align::Left), ("Where", Align::Left), ("Limit", Align::Left)];
    table::table(page, "The rules that were tried", &heads, |page| {
        for rule in settings.rules.rules() {
            page.raw("<tr><td class=\"wrap\">").text(rule.name());
            if rule.mode.is_shadow() {
                page.raw(" <span class=\"tag\">shadow</span>");
            }
            page.raw("</td><td class=\"wrap mono\">").text(&rule.path).raw("</td><td>").text(&limit(rule));
            page.raw("</td></tr>");
        }
    });
}

fn method(page: &mut Page, settings: &ReplaySettings, report: &ReplayReport) {
    let spread = match report.spread {
        "even" => "Where a log has whole seconds, the requests of a second are put at equal distances in it.",
        _ => {
            "Where a log has whole seconds, the requests of a second are all put at its start, which is the worst that can have happened."
        }
    };
    page.raw("<p>Every line became a request by the mapping of the domain <code>")
        .text(settings.mapping.domain());
    page.raw("</code>, and was decided by the rules at the time of the log, with the code that serves. ")
        .text(spread);
    page.raw(" Lines out of order by up to a minute are sorted. A replay knows nothing of what callers would have done: one that is told to wait sends less, and one that is denied may try again.</p>");
    for (count, what) in [
        (report.late, "lines were out of order by more than a minute, and count later than they say."),
        (report.denied_by_mapping, "requests lack a value that the mapping demands."),
    ] {
        if count > 0 {
            page.raw("<p>").raw(&grouped(count)).raw(" ").text(what).raw("</p>");
        }
    }
    if report.keys_beyond_bound {
        page.raw("<p>There are too many keys to tell all of them apart; rules count all of them.</p>");
    }
    if !report.examples_not_understood.is_empty() {
        page.raw("<p>The first lines that are no request:</p><pre tabindex=\"0\" aria-label=\"Lines that are no request\">");
        for line in &report.examples_not_understood {
            page.text(line).raw("\n");
        }
        page.raw("</pre>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_text() {
        let mut page = Page::default();
        page.text("</script><img src=x onerror='a(\"b\")'>&\u{1b}[2J\u{202e}");
        assert_eq!(
            page.html,
            "&lt;/script&gt;&lt;img src=x onerror=&#39;a(&quot;b&quot;)&#39;&gt;&amp;\u{fffd}[2J\u{fffd}"
        );
    }
}
