//! A connection: what both ends have said so far.
//!
//! `receive` takes frames in and makes events of them, `send` answers. Both append to the output, in
//! the order in which things must arrive.
//!
//! Invariants: after an error of the connection there is a GOAWAY in the output and no event any more.
//! A connection that was asked to close finishes the calls that it has begun.

mod receive;
mod send;
#[cfg(test)]
mod tests;

pub use send::MessageWriter;

use std::collections::VecDeque;

use crate::config::Http2Config;
use crate::flow::{ReceiveWindow, WINDOW_DEFAULT};
use crate::frame::{ErrorCode, put_go_away, put_ping, put_window_update};
use crate::head::RequestHead;
use crate::hpack::decoder::HpackDecoder;
use crate::settings;
use crate::streams::Streams;

/// What a caller sends before the first frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Asks whether the other end is there.
const ALIVE_PING: [u8; 8] = *b"tollgate";
/// Asks whether the other end has read that we are going to close.
const CLOSE_PING: [u8; 8] = *b"goodbye!";
/// The largest identifier of a stream.
const STREAM_MAX: u32 = (1 << 31) - 1;
/// Streams that a caller makes us reset by breaking the protocol. h2 allows as many.
const FAULTS_MAX: usize = 1_024;

/// What a caller did.
#[derive(Debug)]
pub enum Event<'b> {
    /// It began a call.
    Request {
        /// The call.
        stream: u32,
        /// What it is about.
        head: RequestHead,
        /// There is no body.
        is_end: bool,
    },
    /// It sent some of a body.
    Data {
        /// The call.
        stream: u32,
        /// The bytes.
        data: &'b [u8],
        /// There are no more.
        is_end: bool,
    },
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// So many bytes of the preface have arrived.
    Preface(usize),
    /// The caller's settings are to come.
    Settings,
    Done,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// The caller was told, and may have begun calls before it knew.
    Announced,
    /// No call begins any more.
    Final,
    /// The protocol was broken.
    Failed,
}

/// Why a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Stream(u32, ErrorCode),
    Connection(ErrorCode),
}

/// A block of header fields that goes on in the next frame.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    is_end: bool,
    bytes: Vec<u8>,
    frames: usize,
}

/// A connection of HTTP/2, whose owner keeps a `T` for each call.
#[derive(Debug)]
pub struct Http2Connection<T> {
    config: Http2Config,
    opening: Opening,
    closing: Closing,
    decoder: HpackDecoder,
    partial: Option<Box<PartialBlock>>,
    streams: Streams<T>,
    /// The last stream that the caller opened, and the one before it.
    last: u32,
    before_last: u32,
    /// The last stream when the owner began to hand over what it read.
    last_before_read: u32,
    /// Streams that were opened and reset in what was read.
    resets: usize,
    /// Streams that we had to reset.
    faults: usize,
    /// Whole frames so far.
    frames: u64,
    is_acknowledged: bool,
    receive_window: ReceiveWindow,
    /// What all streams together may send.
    send_window: i64,
    /// What each stream may send at first.
    stream_window: u32,
    /// Streams with something in their queue, the longest waiting first.
    queued: VecDeque<u32>,
    /// Windows may have opened for them.
    is_queue_due: bool,
    /// Streams that we have ended before the caller had.
    ended_early: VecDeque<u32>,
    output: Vec<u8>,
}

impl<T: Default> Http2Connection<T> {
    /// A connection on which nothing was read yet. Its output begins with our settings.
    pub fn new(config: Http2Config) -> Self {
        let mut output = Vec::new();
        settings::put_ours(&mut output, &config);
        put_window_update(&mut output, 0, config.connection_window.saturating_sub(WINDOW_DEFAULT));
        Self {
            opening: Opening::Preface(0),
            closing: Closing::No,
            decoder: HpackDecoder::new(config.known_paths),
            partial: None,
            streams: Streams::new(),
            last: 0,
            before_last: 0,
            last_before_read: 0,
            resets: 0,
            faults: 0,
            frames: 0,
            is_acknowledged: false,
            receive_window: ReceiveWindow::new(config.connection_window),
            send_window: i64::from(WINDOW_DEFAULT),
            stream_window: WINDOW_DEFAULT,
            queued: VecDeque::new(),
            is_queue_due: false,
            ended_early: VecDeque::new(),
            output,
            config,
        }
    }

    /// What is to be written. Whoever writes it removes it.
    pub const fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// What the owner keeps about a call; none if it is over.
    #[inline]
    pub fn call_mut(&mut self, stream: u32) -> Option<&mut T> {
        self.streams.get_mut(stream).map(|stream| &mut stream.call)
    }

    /// The calls that are going on, in no order.
    pub fn calls_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.streams.iter_mut().map(|stream| (stream.id, &mut stream.call))
    }

    /// Whether no call is going on.
    pub const fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whole frames so far: a caller that sends any is there.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Asks whether the caller is there.
    pub fn ping(&mut self) {
        put_ping(&mut self.output, 0, &ALIVE_PING);
    }

    /// Asks the caller to go. What it has begun meanwhile is still answered.
    pub fn close(&mut self) {
        if self.closing != Closing::No {
            return;
        }
        if self.opening != Opening::Done {
            // Nobody is there who could begin anything.
            self.closing = Closing::Final;
            return;
        }
        self.closing = Closing::Announced;
        put_go_away(&mut self.output, STREAM_MAX, ErrorCode::NoError);
        put_ping(&mut self.output, 0, &CLOSE_PING);
    }

    /// Whether everything is done that will be, apart from writing the output.
    pub const fn is_over(&self) -> bool {
        match self.closing {
            Closing::No | Closing::Announced => false,
            Closing::Final => self.streams.is_empty(),
            Closing::Failed => true,
        }
    }

    /// Whether the caller broke the protocol.
    pub fn has_failed(&self) -> bool {
        self.closing == Closing::Failed
    }

    /// Gives back what was kept for speed and is not needed while nothing comes.
    pub fn rest(&mut self) {
        self.decoder.forget_texts();
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        if self.queued.is_empty() {
            self.queued = VecDeque::new();
        }
    }

    fn fail(&mut self, code: ErrorCode) {
        put_go_away(&mut self.output, self.last, code);
        self.closing = Closing::Failed;
        self.streams.clear();
        self.queued.clear();
        self.partial = None;
    }

    /// Ends a stream; whether it was there, and its request goes on.
    fn remove(&mut self, stream: u32) -> Option<bool> {
        let removed = self.streams.remove(stream)?;
        if removed.queue.is_some() {
            self.forget_queued(stream);
        }
        Some(removed.is_receiving)
    }

    /// Nothing of this stream waits any more.
    fn forget_queued(&mut self, stream: u32) {
        if let Some(place) = self.queued.iter().rposition(|queued| *queued == stream) {
            self.queued.remove(place);
        }
    }

    /// A stream that was ended before the caller has: what still comes for it is no fault.
    fn note_ended_early(&mut self, stream: u32) {
        if self.ended_early.len() >= usize::try_from(self.config.streams_max).unwrap_or(usize::MAX) {
            self.ended_early.pop_front();
        }
        self.ended_early.push_back(stream);
    }
}
