//! Owns the terminal: draws what comes, and listens to keys.
//!
//! Invariants: the terminal is as it was when this ends, also by a panic; a server
//! that does not answer never keeps a key from being heard.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::sample::{Asking, Order, Sample};
use super::state::State;
use super::view;
use crate::remote::Error;

/// So soon a key is heard and a new size drawn, at the latest.
const LISTEN: Duration = Duration::from_millis(100);

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Quit,
    Sort,
    Nothing,
}

/// Shows what the server says until somebody quits.
pub(super) fn show(asking: Asking, every: Duration) -> io::Result<()> {
    let (wishes, wished) = channel();
    let (tell, told) = channel();
    let asker = std::thread::Builder::new()
        .name("tollgate-top".to_owned())
        .spawn(move || ask_on(&asking, every, &wished, &tell))?;
    let mut terminal = ratatui::try_init()?;
    let shown = draw_on(&mut terminal, &wishes, &told);
    ratatui::restore();
    // It may wait for a server for seconds, and nobody waits for it.
    drop(asker);
    shown
}

/// Asks again and again, or at once if the order changes, until nobody listens.
fn ask_on(asking: &Asking, every: Duration, wished: &Receiver<Order>, tell: &Sender<Result<Sample, Error>>) {
    let mut order = Order::Total;
    while tell.send(asking.sample(order)).is_ok() {
        match wished.recv_timeout(every) {
            Ok(other) => order = other,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn draw_on(
    terminal: &mut ratatui::DefaultTerminal,
    wishes: &Sender<Order>,
    told: &Receiver<Result<Sample, Error>>,
) -> io::Result<()> {
    let mut state = State::default();
    let mut order = Order::Total;
    loop {
        told.try_iter().for_each(|came| state.take(came));
        terminal.draw(|frame| view::draw(frame, &state))?;
        if !event::poll(LISTEN)? {
            continue;
        }
        match wish(&event::read()?) {
            Wish::Quit => return Ok(()),
            Wish::Sort => {
                order = order.other();
                // The asker lives as long as we do; without it there is nothing to show.
                wishes.send(order).map_err(io::Error::other)?;
            }
            Wish::Nothing => {}
        }
    }
}

fn wish(event: &Event) -> Wish {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return Wish::Nothing;
    };
    let is_interrupt = *code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
    if is_interrupt || [KeyCode::Char('q'), KeyCode::Esc].contains(code) {
        Wish::Quit
    } else if *code == KeyCode::Char('d') {
        Wish::Sort
    } else {
        Wish::Nothing
    }
}
