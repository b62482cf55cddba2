//! Owns the terminal: draws samples, and reads keys.
//!
//! Invariants: the terminal is restored when this ends, also by a panic; a server that
//! does not answer never delays a key.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tollgate_history::query::TopOrder;

use super::sample::{Sampler, ServerSample};
use super::state::TopState;
use super::view;
use crate::remote::Error;

/// How soon a key is read and a new size drawn, at the latest.
const LISTEN: Duration = Duration::from_millis(100);

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyAction {
    Quit,
    Sort,
    Nothing,
}

/// Shows samples until the user quits.
pub(super) fn show(sampler: Sampler, every: Duration) -> io::Result<()> {
    let (wishes, wished) = channel();
    let (tell, told) = channel();
    let asker = std::thread::Builder::new()
        .name("tollgate-top".to_owned())
        .spawn(move || ask_on(&sampler, every, &wished, &tell))?;
    let mut terminal = ratatui::try_init()?;
    let shown = draw_on(&mut terminal, &wishes, &told);
    ratatui::restore();
    // It may wait for the server for seconds; not joined.
    drop(asker);
    shown
}

/// Asks again and again, or at once if the order changes, until nobody listens.
fn ask_on(
    sampler: &Sampler,
    every: Duration,
    wished: &Receiver<TopOrder>,
    tell: &Sender<Result<ServerSample, Error>>,
) {
    let mut order = TopOrder::Total;
    while tell.send(sampler.sample(order)).is_ok() {
        match wished.recv_timeout(every) {
            Ok(other) => order = other,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn draw_on(
    terminal: &mut ratatui::DefaultTerminal,
    wishes: &Sender<TopOrder>,
    told: &Receiver<Result<ServerSample, Error>>,
) -> io::Result<()> {
    let mut state = TopState::default();
    let mut order = TopOrder::Total;
    loop {
        told.try_iter().for_each(|came| state.take(came));
        terminal.draw(|frame| view::draw(frame, &state))?;
        if !event::poll(LISTEN)? {
            continue;
        }
        match key_action(&event::read()?) {
            KeyAction::Quit => return Ok(()),
            KeyAction::Sort => {
                order = other(order);
                // The asker lives as long as we do; without it there is nothing to show.
                wishes.send(order).map_err(io::Error::other)?;
            }
            KeyAction::Nothing => {}
        }
    }
}

const fn other(order: TopOrder) -> TopOrder {
    match order {
        TopOrder::Total => TopOrder::Denied,
        TopOrder::Denied => TopOrder::Total,
    }
}

fn key_action(event: &Event) -> KeyAction {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return KeyAction::Nothing;
    };
    let is_interrupt = *code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
    if is_interrupt || [KeyCode::Char('q'), KeyCode::Esc].contains(code) {
        KeyAction::Quit
    } else if *code == KeyCode::Char('d') {
        KeyAction::Sort
    } else {
        KeyAction::Nothing
    }
}
