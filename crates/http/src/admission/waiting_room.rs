//! Requests that are held until it is their turn.
//!
//! The limiter says when a request may go; here it waits for that, in a line of its key, first in,
//! first out. Whoever leaves a line early gives up its place: everybody behind moves up by
//! one turn, the charge is given back, and then the last turn leaves the line. Not before: a request that is decided
//! meanwhile still gets a later turn from the limiter, and takes the one that was left.
//!
//! Invariants: a line has a turn for each request, and one for each that has left and is not given back yet. How
//! many wait is bounded by the limit's `burst` and by `max_wait`, both decided when a request arrives.
//!
//! Deliberately not here: turns that others hold, such as another node on the same Redis. Nor the turn of a request
//! that was decided and has not entered the line yet, which is a moment where the decision comes from elsewhere: if
//! somebody leaves just then and has its charge back within that moment, the last turn that the line knows of leaves
//! instead of the one that is about to enter. That turn stays empty then, and the later one is given twice.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The requests of one key.
#[derive(Debug, Default)]
struct WaitingLine {
    /// By ticket, in the order of arrival.
    waiters: BTreeMap<u64, Arc<Notify>>,
    /// When the first, the second and so on may go.
    turns: VecDeque<Instant>,
}

/// Everybody who waits.
#[derive(Debug, Default, Clone)]
pub(super) struct WaitingRoom(Arc<Mutex<WaitingLines>>);

#[derive(Debug, Default)]
struct WaitingLines {
    lines: HashMap<u64, WaitingLine>,
    next_ticket: u64,
}

/// A turn that nobody takes any more; leaves its line when it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct FreedTurn {
    room: WaitingRoom,
    line: u64,
}

impl Drop for FreedTurn {
    fn drop(&mut self) {
        self.room.change(self.line, |line| {
            line.turns.pop_back();
        });
    }
}

/// A request's place in a line; leaves the line when it is dropped.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    room: WaitingRoom,
    line: u64,
    ticket: u64,
    is_called: Arc<Notify>,
    has_gone: bool,
}

impl WaitingRoom {
    /// A place at the end of a line, whose turn is after `wait`.
    pub(super) fn enter(&self, line: u64, wait: Duration) -> WaitingPlace {
        let turn = Instant::now() + wait;
        let is_called = Arc::new(Notify::new());
        let mut lines = self.0.lock();
        let ticket = lines.next_ticket;
        lines.next_ticket += 1;
        let own = lines.lines.entry(line).or_default();
        own.waiters.insert(ticket, Arc::clone(&is_called));
        let at = own.turns.partition_point(|other| *other <= turn);
        own.turns.insert(at, turn);
        drop(lines);
        WaitingPlace { room: self.clone(), line, ticket, is_called, has_gone: false }
    }

    /// Changes a line, and drops it if nothing is left of it.
    fn change(&self, line: u64, change: impl FnOnce(&mut WaitingLine)) {
        let mut lines = self.0.lock();
        let Entry::Occupied(mut line) = lines.lines.entry(line) else { return };
        change(line.get_mut());
        if line.get().waiters.is_empty() && line.get().turns.is_empty() {
            drop(line.remove());
        }
    }

    /// How many wait.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().lines.values().map(|line| line.waiters.len()).sum()
    }
}

impl WaitingPlace {
    /// Waits for its turn.
    pub(super) async fn turn(&mut self) {
        loop {
            // Made before the look, so that no call is missed in between.
            let is_called = Arc::clone(&self.is_called);
            let called = is_called.notified();
            match self.own_turn() {
                None => called.await,
                Some(turn) => tokio::select! {
                    () = tokio::time::sleep_until(turn) => break,
                    () = called => {}
                },
            }
        }
        self.leave(|turns| {
            turns.pop_front();
        });
    }

    /// Leaves the line, in which everybody behind moves up. What was taken has yet to be given back, and then the turn.
    pub(super) fn give_up(mut self) -> FreedTurn {
        self.leave_early()
    }

    fn leave_early(&mut self) -> FreedTurn {
        self.leave(|_| ());
        FreedTurn { room: self.room.clone(), line: self.line }
    }

    /// Its turn, if it is the first in line.
    fn own_turn(&self) -> Option<Instant> {
        let lines = self.room.0.lock();
        let line = lines.lines.get(&self.line)?;
        let (first, _) = line.waiters.first_key_value()?;
        line.turns.front().filter(|_| *first == self.ticket).copied()
    }

    fn leave(&mut self, change: impl FnOnce(&mut VecDeque<Instant>)) {
        self.has_gone = true;
        self.room.change(self.line, |line| {
            line.waiters.remove(&self.ticket);
            change(&mut line.turns);
            if let Some((_, next)) = line.waiters.first_key_value() {
                next.notify_one();
            }
        });
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        if !self.has_gone {
            drop(self.leave_early());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of these waits ends, in milliseconds.
    async fn wait_all(places: Vec<WaitingPlace>) -> Vec<u128> {
        let start = Instant::now();
        let mut waits = Vec::new();
        for mut place in places {
            waits.push(tokio::spawn(async move {
                place.turn().await;
                start.elapsed().as_millis()
            }));
        }
        let mut ends = Vec::new();
        for wait in waits {
            ends.push(wait.await.unwrap());
        }
        ends
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_goes_in_turn() {
        let room = WaitingRoom::default();
        let places = (1..=100).map(|n| room.enter(1, Duration::from_millis(n * 500))).collect();
        let expected: Vec<u128> = (1..=100).map(|n| n * 500).collect();
        assert_eq!(wait_all(places).await, expected);
        assert_eq!(room.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_gives_its_turn_to_those_behind() {
        let room = WaitingRoom::default();
        let mut places: Vec<_> = (1..=4).map(|n| room.enter(1, Duration::from_secs(n))).collect();
        let other = room.enter(2, Duration::from_secs(1));
        drop(places.remove(1));
        // The limiter has the charge back and gives the last turn again.
        places.push(room.enter(1, Duration::from_secs(4)));
        assert_eq!(wait_all(places).await, [1000, 2000, 3000, 4000]);
        drop(other);
        assert_eq!(room.len(), 0);
    }

    /// The limiter has the charge back a while after the caller has left; whoever is decided meanwhile is told a turn
    /// that is one too late, and the next one is told it as well.
    #[tokio::test(start_paused = true)]
    async fn no_turn_is_empty_or_taken_twice_while_a_charge_is_given_back() {
        let room = WaitingRoom::default();
        let enter = |turn| room.enter(1, Duration::from_secs(turn));
        let (first, leaving) = (enter(1), enter(2));
        let freed = leaving.give_up();
        let meanwhile = enter(3);
        drop(freed);
        let next = enter(3);
        assert_eq!(wait_all(vec![first, meanwhile, next]).await, [1000, 2000, 3000]);
        // The same if nobody is left in the line.
        let freed = enter(1).give_up();
        assert_eq!(wait_all(vec![enter(2)]).await, [1000]);
        drop(freed);
        assert!(room.0.lock().lines.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_in_line_notices_that_the_first_has_left() {
        let room = WaitingRoom::default();
        let first = room.enter(1, Duration::from_secs(1));
        let mut second = room.enter(1, Duration::from_secs(2));
        let second = tokio::spawn(async move { second.turn().await });
        tokio::task::yield_now().await;
        let start = Instant::now();
        drop(first);
        second.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }
}
