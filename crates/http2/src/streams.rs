//! The streams of a connection that are going on.
//!
//! Invariants: identifiers only grow, so that the index is sorted by pushing; a stream that is not here
//! is idle or closed.

use slab::Slab;

use crate::flow::ReceiveWindow;

/// After a burst of more calls than this at a time, what they took is given back.
const KEPT: usize = 16;

/// One call.
#[derive(Debug)]
pub(crate) struct Http2Stream<T> {
    pub(crate) id: u32,
    /// What its owner keeps about it.
    pub(crate) call: T,
    /// The request goes on.
    pub(crate) is_receiving: bool,
    pub(crate) receive_window: ReceiveWindow,
    /// What is missing of the body, if its length is known.
    pub(crate) body_left: Option<u64>,
    /// What may be sent, less what every stream may at first.
    pub(crate) send_credit: i64,
    /// What waits for the window.
    pub(crate) queue: Option<Box<SendQueue>>,
}

/// What of a response waits for the window.
#[derive(Debug)]
pub(crate) struct SendQueue {
    pub(crate) bytes: Vec<u8>,
    /// How much of it has been sent.
    pub(crate) sent: usize,
    pub(crate) end: QueueEnd,
}

/// What comes after the bytes of a queue.
#[derive(Debug)]
pub(crate) enum QueueEnd {
    /// More bytes, later.
    Open,
    /// The end of the stream.
    End,
    /// A block of header fields, and the end of the stream.
    Trailers(Vec<u8>),
}

/// The streams of a connection that are going on.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    /// Identifiers and places, by identifier.
    index: Vec<(u32, usize)>,
    streams: Slab<Http2Stream<T>>,
}

impl<T> Streams<T> {
    pub(crate) const fn new() -> Self {
        Self { index: Vec::new(), streams: Slab::new() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A stream whose identifier is larger than all before it.
    pub(crate) fn push(&mut self, stream: Http2Stream<T>) {
        self.index.push((stream.id, self.streams.insert(stream)));
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        // Nearly always a frame is about the newest.
        match self.index.last() {
            Some((last, _)) if *last == id => Some(self.index.len() - 1),
            _ => self.index.binary_search_by_key(&id, |(id, _)| *id).ok(),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Http2Stream<T>> {
        let (_, key) = self.index.get(self.place(id)?)?;
        self.streams.get_mut(*key)
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Http2Stream<T>> {
        let (_, key) = self.index.remove(self.place(id)?);
        let removed = self.streams.try_remove(key);
        if self.index.is_empty() && self.streams.capacity() > KEPT {
            *self = Self::new();
        }
        removed
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Http2Stream<T>> {
        self.streams.iter().map(|(_, stream)| stream)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Http2Stream<T>> {
        self.streams.iter_mut().map(|(_, stream)| stream)
    }
}
