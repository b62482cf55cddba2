//! Draws what is shown, in whatever room there is.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Wrap};
use tollgate_history::query::{TopOrder, TopResult};

use super::sample::{ServerSample, TopLists, deferred};
use super::state::{RequestRates, TopState, shown};
use crate::console::clean;
use crate::history::{grouped, moment, with_rule};

/// Columns that the lists need side by side.
const BESIDE: u16 = 100;
/// Lines of the curve, where there is room for it.
const CURVE_LINES: u16 = 4;
/// Lines of a terminal that has room for the curve.
const LINES_FOR_CURVE: u16 = 16;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState) {
    let curve = if frame.area().height >= LINES_FOR_CURVE { CURVE_LINES } else { 0 };
    let trouble = if state.trouble.is_some() { 2 } else { 0 };
    let rows = [
        Constraint::Length(2),
        Constraint::Length(trouble),
        Constraint::Length(curve),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [head, wrong, middle, lists, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(state)), head);
    if let Some(trouble) = &state.trouble {
        let text = Paragraph::new(Line::styled(clean(trouble).into_owned(), BAD));
        frame.render_widget(text.wrap(Wrap { trim: true }), wrong);
    }
    draw_curve(frame, middle, state);
    match state.sample.as_ref().map(|sample| &sample.lists) {
        Some(Ok(found)) => draw_lists(frame, lists, found),
        Some(Err(why)) => {
            let text = format!("there are no lists: {}", clean(why));
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), lists);
        }
        None => frame.render_widget(Paragraph::new(Line::styled("waiting for the server…", DIM)), lists),
    }
    let text = state.sample.as_ref().map_or_else(|| "q quits".to_owned(), foot_text);
    frame.render_widget(Paragraph::new(Line::styled(text, DIM)), foot);
}

fn head_lines(state: &TopState) -> Vec<Line<'static>> {
    let (url, at) = state.sample.as_ref().map_or_else(Default::default, |sample| {
        (clean(&sample.url).into_owned(), format!("{} UTC", moment(sample.at.get() / 1_000_000)))
    });
    let first = Line::from(vec![Span::styled("tollgate top", BOLD), Span::raw(format!("  {url}  {at}"))]);
    let second = match state.rates.back() {
        Some(RequestRates { requests, denied }) => Line::from(vec![
            Span::styled(shown(*requests), BOLD),
            Span::raw(" requests/s  "),
            Span::styled(shown(*denied), if *denied > 0.0 { BAD } else { BOLD }),
            Span::raw(" denied/s"),
        ]),
        None => Line::styled("requests/s: at the second look", DIM),
    };
    vec![first, second]
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, state: &TopState) {
    let columns = usize::from(area.width);
    let skipped = state.rates.len().saturating_sub(columns);
    let heights: Vec<u64> = state.rates.iter().skip(skipped).map(|rates| height(rates.requests)).collect();
    frame.render_widget(Sparkline::default().data(&heights).style(Style::new().fg(Color::Cyan)), area);
}

/// A rate as a height: in tenths, so that little traffic is seen too.
fn height(rate: f64) -> u64 {
    // In text, because no conversion cuts a fraction without saying so.
    let digits: String = format!("{rate:.1}").chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn draw_lists(frame: &mut Frame<'_>, area: Rect, lists: &TopLists) {
    let all = [("routes", &lists.routes), ("rules", &lists.rules), ("keys", &lists.keys)];
    let third = [Constraint::Ratio(1, 3); 3];
    let areas = if area.width >= BESIDE {
        Layout::horizontal(third).spacing(2).areas::<3>(area)
    } else {
        Layout::vertical(third).areas::<3>(area)
    };
    for ((name, top), area) in all.into_iter().zip(areas) {
        draw_list(frame, area, name, (top, lists.order));
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, name: &str, (top, order): (&TopResult, TopOrder)) {
    let mark = |own: TopOrder, word: &str| if own == order { format!("{word}▼") } else { word.to_owned() };
    let head = Row::new([mark(TopOrder::Total, "total"), mark(TopOrder::Denied, "denied"), name.to_owned()]);
    let row = |name: &str, total: u64, denied: u64| {
        let style = if denied > 0 { Style::new().fg(Color::Red) } else { Style::new() };
        let cells = [grouped(total), grouped(denied), clean(name).into_owned()];
        let [total, denied, name] = cells.map(Span::raw);
        Row::new([total, denied.style(style), name])
    };
    let rows = top.rows.iter().map(|shown| {
        let name = with_rule(&shown.name, shown.domain.as_deref(), shown.rule.as_deref());
        row(&name, shown.total, shown.denied)
    });
    let other = (top.other.total > 0).then(|| row("(other)", top.other.total, top.other.denied));
    let widths = [Constraint::Length(9), Constraint::Length(9), Constraint::Min(4)];
    frame.render_widget(Table::new(rows.chain(other), widths).header(head.style(BOLD)), area);
}

/// The store, history and rules in one line.
fn foot_text(sample: &ServerSample) -> String {
    let number = |name: &str| sample.page.sum(name, "");
    let whole = |name: &str| number(name).and_then(|number| format!("{number:.0}").parse().ok()).map(grouped);
    let is_set = |name: &str| number(name).is_some_and(|number| number > 0.0);
    let mut parts = vec!["q quits, d sorts".to_owned()];
    if let Some(keys) = whole("tollgate_store_keys") {
        parts.push(format!("store: {keys} keys"));
    }
    if is_set("tollgate_store_evicted_total") {
        parts.push("keys in use were dropped".to_owned());
    }
    if is_set("tollgate_store_degraded") {
        parts.push("STORE DEGRADED".to_owned());
    }
    parts.extend(deferred(&sample.page));
    if is_set("tollgate_rules_load_failed") {
        parts.push("NEWEST RULES REFUSED".to_owned());
    }
    match number("tollgate_history_open") {
        Some(open) if open < 1.0 => parts.push("HISTORY NOT KEPT".to_owned()),
        Some(_) => {
            parts.extend(whole("tollgate_history_series").map(|series| format!("history: {series} series")));
        }
        None => {}
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests;
