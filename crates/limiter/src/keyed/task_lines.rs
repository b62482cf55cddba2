//! Tasks that wait out the delay of a leaky bucket, in lines by key.
//!
//! The limit says when a task may go, and here it waits for that. If one gives up and all behind it cost the same,
//! everybody behind moves up by one turn, and the last turn is free again. Behind it they may cost something else,
//! so that its turn suits nobody: then it stays empty.
//!
//! Invariants: a line has as many turns as tasks, and tasks go in the order in which they came. Who is decided about
//! and lined up, or leaves and gives back what it took, does both while nobody else does either, so that no
//! turn is given away twice. A task that is not polled holds up those behind it no longer than they had to wait
//! anyway.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::{Decision, Verdict};

/// All lines of a limiter.
#[derive(Debug, Default)]
pub(super) struct TaskLines(Mutex<LinesByKey>);

#[derive(Debug, Default)]
struct LinesByKey {
    lines: HashMap<u64, KeyLine>,
    next_ticket: u64,
}

/// The tasks that wait for one key.
#[derive(Debug, Default)]
struct KeyLine {
    /// By ticket, in the order of arrival.
    tasks: BTreeMap<u64, LinedUpTask>,
    /// When the first, the second and so on may go.
    turns: VecDeque<Instant>,
}

#[derive(Debug)]
struct LinedUpTask {
    cost: u64,
    is_nearer: Arc<Notify>,
}

/// A task's place in the line of a key.
#[derive(Debug)]
pub(super) struct LinePlace<'a> {
    lines: &'a TaskLines,
    key: u64,
    ticket: u64,
    is_nearer: Arc<Notify>,
}

impl TaskLines {
    /// Decides by `check` about a task of this cost, and lines it up if it is to wait.
    pub(super) fn check(
        &self,
        key: u64,
        cost: u64,
        check: impl FnOnce() -> Decision,
    ) -> (Decision, Option<LinePlace<'_>>) {
        let mut by_key = self.0.lock();
        let decision = check();
        let Verdict::Delay { wait } = decision.verdict else { return (decision, None) };
        let (turn, is_nearer) = (Instant::now() + wait.into(), Arc::new(Notify::new()));
        let ticket = by_key.next_ticket;
        by_key.next_ticket += 1;
        let line = by_key.lines.entry(key).or_default();
        line.tasks.insert(ticket, LinedUpTask { cost, is_nearer: Arc::clone(&is_nearer) });
        let at = line.turns.partition_point(|other| *other <= turn);
        line.turns.insert(at, turn);
        (decision, Some(LinePlace { lines: self, key, ticket, is_nearer }))
    }
}

impl KeyLine {
    /// How many are before this task.
    fn position(&self, ticket: u64) -> usize {
        self.tasks.range(..ticket).count()
    }
}

impl LinePlace<'_> {
    /// Waits for its turn, which comes nearer if somebody before it leaves.
    pub(super) async fn turn(&self) {
        while let Some(turn) = self.own_turn()
            && tokio::time::timeout_at(turn, self.is_nearer.notified()).await.is_ok()
        {}
    }

    fn own_turn(&self) -> Option<Instant> {
        let by_key = self.lines.0.lock();
        let line = by_key.lines.get(&self.key)?;
        line.turns.get(line.position(self.ticket)).copied()
    }

    /// Goes, as its turn has come.
    pub(super) fn go(self) {
        self.leave(|line, position, _| {
            line.turns.remove(position);
        });
    }

    /// Goes before its turn. `refund` is called if what it took is free again.
    pub(super) fn give_up(self, refund: impl FnOnce()) {
        self.leave(|line, position, own| {
            if line.tasks.range(self.ticket..).all(|(_, behind)| behind.cost == own.cost) {
                line.turns.pop_back();
                refund();
            } else {
                line.turns.remove(position);
            }
        });
    }

    fn leave(&self, leave_turn: impl FnOnce(&mut KeyLine, usize, &LinedUpTask)) {
        let mut by_key = self.lines.0.lock();
        let Entry::Occupied(mut line) = by_key.lines.entry(self.key) else { return };
        let own = line.get_mut();
        let position = own.position(self.ticket);
        let Some(task) = own.tasks.remove(&self.ticket) else { return };
        leave_turn(own, position, &task);
        // The one behind tells the next when it leaves itself, and until then all have time.
        if let Some((_, next)) = own.tasks.range(self.ticket..).next() {
            next.is_nearer.notify_one();
        }
        if own.tasks.is_empty() {
            line.remove();
        }
    }
}
