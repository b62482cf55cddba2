//! What is on the screen, in every size.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tollgate_core::Time;
use tollgate_history::query::{Summary, TopOther, TopRow};

use super::super::sample::MetricsPage;
use super::*;
use crate::remote::Error;

fn top(names: &[(&str, u64, u64)]) -> TopResult {
    let row = |(name, total, denied): &(&str, u64, u64)| TopRow {
        name: (*name).to_owned(),
        domain: name.contains('_').then(|| "shop".to_owned()),
        rule: name.contains('=').then(|| "per_user".to_owned()),
        total: *total,
        denied: *denied,
    };
    let other = TopOther { total: 7, denied: 0 };
    TopResult { from: 0, to: 300, rows: names.iter().map(row).collect(), other, row_count: names.len() }
}

fn sample(second: u64, requests: u64) -> ServerSample {
    let page = MetricsPage::read(&format!(
        "tollgate_requests_total{{outcome=\"allowed\"}} {requests}\n\
         tollgate_requests_total{{outcome=\"denied\"}} 0\n\
         tollgate_store_keys 1234\ntollgate_history_open 1\ntollgate_history_series 5\n"
    ));
    let summary = Summary {
        from: 0,
        to: 300,
        total: 0,
        allowed: 0,
        soft: 0,
        delayed: 0,
        denied: 0,
        shadow_denied: 0,
        degraded: 0,
        peak_minute: 0,
    };
    let lists = TopLists {
        order: TopOrder::Total,
        summary,
        routes: top(&[("/cart", 12_345, 0), ("/a\u{1b}[31m", 3, 0)]),
        rules: top(&[("per_user", 900, 12)]),
        keys: top(&[("user_id=42", 800, 12)]),
    };
    ServerSample { url: "http://127.0.0.1:6070".into(), at: Time::from_secs(second), page, lists: Ok(lists) }
}

fn state() -> TopState {
    let mut state = TopState::default();
    for n in 0..20 {
        state.take(Ok(sample(1_800_000_000 + n, n * n * 10)));
    }
    state
}

fn screen(state: &TopState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_wide_screen_has_everything() {
    let screen = screen(&state(), 120, 30);
    for text in [
        "http://127.0.0.1:6070  2027-01-15 08:00 UTC",
        "370 requests/s  0.0 denied/s",
        "total▼",
        "12,345",
        "/cart",
        "/a\u{fffd}[31m",
        "per_user",
        "user_id=42",
        "(other)",
        "q quits, d sorts · store: 1,234 keys · history: 5 series",
    ] {
        assert!(screen.contains(text), "no {text:?} in\n{screen}");
    }
    assert!(screen.contains('█'), "there is a curve:\n{screen}");
}

#[test]
fn every_size_is_drawn_and_a_narrow_one_has_the_lists_below_each_other() {
    let state = state();
    for (width, height) in [(1, 1), (2, 3), (10, 5), (20, 10), (40, 12), (79, 24), (300, 100)] {
        screen(&state, width, height);
    }
    let narrow = screen(&state, 60, 24);
    let line_of = |text: &str| narrow.lines().position(|line| line.contains(text));
    assert!(
        line_of("/cart") < line_of("per_user") && line_of("per_user") < line_of("user_id=42"),
        "{narrow}"
    );
}

#[test]
fn trouble_is_told_and_what_was_known_stays() {
    let mut state = state();
    state.take(Err(Error::Slow { url: "http://127.0.0.1:6070".into() }));
    let told = screen(&state, 120, 30);
    assert!(told.contains("does not answer within 20 s") && told.contains("/cart"), "{told}");
    let nothing = screen(&TopState::default(), 80, 24);
    assert!(nothing.contains("waiting for the server"), "{nothing}");
    let mut state = TopState::default();
    state.take(Ok(ServerSample { lists: Err("history is turned off".into()), ..sample(1, 1) }));
    let without = screen(&state, 80, 24);
    assert!(without.contains("there are no lists: history is turned off"), "{without}");
}
