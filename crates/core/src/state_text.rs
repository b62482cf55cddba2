//! The written form of a state, for stores that keep text.
//!
//! Shared with the Lua that decides inside such a store, and described in
//! `spec/keys.md`: numbers in decimal with spaces between, and for a log the
//! gaps behind a colon.
//!
//! Invariant: what cannot have been written here is not read: a state that
//! does not add up counts as none.

use crate::algorithm::window_log;
use crate::limit::{Limit, StateForm};
use crate::packed_log::{Log, LogHead};
use crate::state::{Cell, State};
use crate::time::Time;
use crate::written_log::{read_gaps, write_gaps};

impl State {
    /// Appends the written form of a state under `limit`.
    pub fn write_text(&self, limit: &Limit, out: &mut Vec<u8>) {
        let text = match self {
            Self::Cell(cell) if limit.shape().state_form() == StateForm::Pair => {
                let (first, second) = cell.pair();
                format!("{} {first} {second}", cell.deadline().get())
            }
            Self::Cell(cell) => format!("{} {}", cell.deadline().get(), cell.low()),
            Self::Log(log) => {
                let LogHead { first, last, last_cost, total, .. } = log.parts().0;
                format!("{first} {last} {last_cost} {total}:")
            }
        };
        out.extend_from_slice(text.as_bytes());
        if let Self::Log(log) = self {
            write_gaps(log, out);
        }
    }

    /// Reads the written form of a state under `limit`; none if it is not one.
    pub fn read_text(bytes: &[u8], limit: &Limit) -> Option<Self> {
        match limit.shape().state_form() {
            StateForm::Pair => {
                let [deadline, first, second] = numbers(bytes)?;
                (first < 1 << 36 && second < 1 << 36)
                    .then(|| Self::Cell(Cell::of_pair(Time::new(deadline), first, second)))
            }
            StateForm::Log => read_log(bytes, limit).map(Self::Log),
            StateForm::Number => {
                let [deadline, low] = numbers(bytes)?;
                Some(Self::Cell(Cell::new(Time::new(deadline), low)))
            }
        }
    }
}

fn read_log(bytes: &[u8], limit: &Limit) -> Option<Log> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let [first, last, last_cost, total] = numbers(bytes.get(..colon)?)?;
    let head = LogHead { deadline: window_log::leaves(limit, last), first, last, last_cost, total };
    read_gaps(head, bytes.get(colon + 1..)?)
}

/// Exactly `N` numbers below 2^53.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut pieces = str::from_utf8(bytes).ok()?.split(' ');
    for number in &mut numbers {
        let piece = pieces.next()?;
        *number =
            piece.parse().ok().filter(|n| *n < 1 << 53 && piece.bytes().all(|byte| byte.is_ascii_digit()))?;
    }
    pieces.next().is_none().then_some(numbers)
}
