//! One connection and its requests in flight.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use mio::net::TcpStream;

use crate::codec::{self, Codec, ConnectionFailure, Decoded, ResponseVerdict};
use crate::keys::KeySource;
use crate::plan::Plan;
use crate::transport::LoadStream;

/// Bytes of an incomplete response at most; more than any response has.
const INBOX_MAX: usize = 4 << 20;

/// One connection.
pub(crate) struct LoadConnection {
    pub(crate) socket: LoadStream<TcpStream>,
    codec: Box<dyn Codec>,
    keys: KeySource,
    outbox: Vec<u8>,
    /// How much of the outbox is sent.
    sent: usize,
    inbox: Vec<u8>,
    /// When each request from the number `first` on was due; none if its response has arrived.
    due: VecDeque<Option<Duration>>,
    first: u64,
    in_flight: usize,
    /// When the next request is due, in an open loop.
    pub(crate) next_due: Duration,
}

/// What became of a request.
pub(crate) struct LoadResponse {
    pub(crate) verdict: ResponseVerdict,
    /// When the request was due.
    pub(crate) due: Duration,
}

impl LoadConnection {
    pub(crate) fn open(plan: &Plan, keys: KeySource) -> io::Result<Self> {
        // The clock does not run yet.
        let mut socket = LoadStream::open(plan.target, plan.connect.tls.as_ref())?;
        socket.socket().set_nonblocking(true)?;
        let (mut codec, mut outbox) = (codec::new(plan), Vec::new());
        codec.open(&mut outbox);
        Ok(Self {
            socket: socket.map(TcpStream::from_std),
            codec,
            keys,
            outbox,
            sent: 0,
            inbox: Vec::new(),
            due: VecDeque::new(),
            first: 0,
            in_flight: 0,
            next_due: Duration::ZERO,
        })
    }

    /// How many responses are still to come.
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether another request may be sent where so many may be in flight.
    pub(crate) fn has_room(&self, in_flight_max: usize) -> bool {
        self.in_flight < in_flight_max && self.codec.has_room(self.in_flight)
    }

    /// Puts a request that is due at an instant into the outbox.
    pub(crate) fn push(&mut self, due: Duration) {
        let number = self.first + u64::try_from(self.due.len()).unwrap_or(u64::MAX);
        let key = self.keys.draw();
        self.codec.encode(number, key, &mut self.outbox);
        self.due.push_back(Some(due));
        self.in_flight += 1;
    }

    /// Sends what the socket takes.
    pub(crate) fn send(&mut self) -> Result<(), ConnectionFailure> {
        while let Some(rest) = self.outbox.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ConnectionFailure::Closed(error.to_string())),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what has arrived, by way of `chunk`, and hands on every response.
    pub(crate) fn receive(
        &mut self,
        chunk: &mut [u8],
        mut tell: impl FnMut(LoadResponse),
    ) -> Result<(), ConnectionFailure> {
        loop {
            let count = match self.socket.read(chunk) {
                Ok(0) => return Err(ConnectionFailure::Closed("the connection was closed".to_owned())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(ConnectionFailure::Closed(error.to_string())),
            };
            self.inbox.extend_from_slice(chunk.get(..count).unwrap_or_default());
            self.decode(&mut tell)?;
            if count < chunk.len() && self.socket.is_plain() {
                // All is read; the poll tells when there is more.
                return Ok(());
            }
        }
    }

    fn decode(&mut self, tell: &mut impl FnMut(LoadResponse)) -> Result<(), ConnectionFailure> {
        let mut at = 0;
        loop {
            let rest = self.inbox.get(at..).unwrap_or_default();
            match self.codec.decode(rest, &mut self.outbox)? {
                Decoded::Incomplete => break,
                Decoded::Control { length } => at += length,
                Decoded::Response { length, number, verdict } => {
                    at += length;
                    if let Some(due) = self.settle(number) {
                        tell(LoadResponse { verdict, due });
                    }
                }
            }
        }
        self.inbox.drain(..at.min(self.inbox.len()));
        match self.inbox.len() > INBOX_MAX {
            true => Err(ConnectionFailure::WrongProtocol("a response without end".to_owned())),
            false => Ok(()),
        }
    }

    /// When the request of that number was due; none if there is no such request in flight.
    fn settle(&mut self, number: u64) -> Option<Duration> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let due = self.due.get_mut(index)?.take()?;
        while let Some(None) = self.due.front() {
            self.due.pop_front();
            self.first += 1;
        }
        self.in_flight -= 1;
        Some(due)
    }
}
