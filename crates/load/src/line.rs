//! One connection, and what is on its way on it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use mio::net::TcpStream;

use crate::door::Pipe;
use crate::keys::Drawer;
use crate::plan::Plan;
use crate::wire::{self, Broken, Heard, Verdict, Wire};

/// Bytes of answers that are not whole yet; more than any answer has.
const INBOX_MAX: usize = 4 << 20;

/// One connection.
pub(crate) struct Line {
    pub(crate) socket: Pipe<TcpStream>,
    wire: Box<dyn Wire>,
    keys: Drawer,
    outbox: Vec<u8>,
    /// How much of the outbox is sent.
    sent: usize,
    inbox: Vec<u8>,
    /// When each question was due whose answer is still to come, from the
    /// number `first` on; none if it has come.
    due: VecDeque<Option<Duration>>,
    first: u64,
    on_the_way: usize,
    /// When the next question is due, in an open loop.
    pub(crate) next_due: Duration,
}

/// What became of a question.
pub(crate) struct Answered {
    pub(crate) verdict: Verdict,
    /// When the question was due.
    pub(crate) due: Duration,
}

impl Line {
    pub(crate) fn open(plan: &Plan, keys: Drawer) -> io::Result<Self> {
        // A connection is made before the clock starts, and may take its time.
        let mut socket = Pipe::open(plan.target, plan.door.tls.as_ref())?;
        socket.socket().set_nonblocking(true)?;
        let (mut wire, mut outbox) = (wire::new(plan), Vec::new());
        wire.hello(&mut outbox);
        Ok(Self {
            socket: socket.map(TcpStream::from_std),
            wire,
            keys,
            outbox,
            sent: 0,
            inbox: Vec::new(),
            due: VecDeque::new(),
            first: 0,
            on_the_way: 0,
            next_due: Duration::ZERO,
        })
    }

    /// How many answers are still to come.
    pub(crate) const fn on_the_way(&self) -> usize {
        self.on_the_way
    }

    /// Whether another question may be on its way besides those that are.
    pub(crate) fn has_room(&self, in_flight: usize) -> bool {
        self.on_the_way < in_flight && self.wire.has_room(self.on_the_way)
    }

    /// Puts a question into the outbox that is due at an instant.
    pub(crate) fn ask(&mut self, due: Duration) {
        let number = self.first + u64::try_from(self.due.len()).unwrap_or(u64::MAX);
        let key = self.keys.draw();
        self.wire.ask(number, key, &mut self.outbox);
        self.due.push_back(Some(due));
        self.on_the_way += 1;
    }

    /// Sends what the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), Broken> {
        while let Some(rest) = self.outbox.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken::Goodbye(error.to_string())),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(())
    }

    /// Takes in what has come, by way of `chunk`, and hands on every answer.
    pub(crate) fn receive(&mut self, chunk: &mut [u8], mut tell: impl FnMut(Answered)) -> Result<(), Broken> {
        loop {
            let count = match self.socket.read(chunk) {
                Ok(0) => return Err(Broken::Goodbye("the connection was closed".to_owned())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Broken::Goodbye(error.to_string())),
            };
            self.inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
            self.take_in(&mut tell)?;
            if count < chunk.len() && self.socket.is_plain() {
                // There is no more, and if there is, we are told.
                return Ok(());
            }
        }
    }

    fn take_in(&mut self, tell: &mut impl FnMut(Answered)) -> Result<(), Broken> {
        let mut at = 0;
        loop {
            let rest = self.inbox.get(at..).unwrap_or_default();
            match self.wire.hear(rest, &mut self.outbox)? {
                Heard::Part => break,
                Heard::Aside { length } => at += length,
                Heard::Answer { length, number, verdict } => {
                    at += length;
                    if let Some(due) = self.settle(number) {
                        tell(Answered { verdict, due });
                    }
                }
            }
        }
        self.inbox.drain(..at.min(self.inbox.len()));
        match self.inbox.len() > INBOX_MAX {
            true => Err(Broken::Foreign("an answer without end".to_owned())),
            false => Ok(()),
        }
    }

    /// When the question of that number was due; none if there is no such question.
    fn settle(&mut self, number: u64) -> Option<Duration> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let due = self.due.get_mut(index)?.take()?;
        while let Some(None) = self.due.front() {
            self.due.pop_front();
            self.first += 1;
        }
        self.on_the_way -= 1;
        Some(due)
    }
}
