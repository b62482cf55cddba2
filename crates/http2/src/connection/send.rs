//! Answers in, frames out.
//!
//! Invariants: no more bytes of bodies go out than both windows allow; a stream that waits for the
//! window of the connection is ahead of all that ask after it, because it leaves nothing of it.

use super::Http2Connection;
use crate::frame::{END_STREAM, ErrorCode, FrameKind, PAYLOAD_MAX, put_head, put_headers, put_reset};
use crate::streams::{QueueEnd, SendQueue};

/// Once there is this much to write, queues wait until it is written.
const OUTPUT_ENOUGH: usize = 64 << 10;

/// A message that is written where it belongs.
#[derive(Debug)]
pub struct MessageWriter<F> {
    /// How many bytes it has.
    pub length: usize,
    /// Appends as many.
    pub write: F,
}

impl<T: Default> Http2Connection<T> {
    /// Answers a call with a block of header fields, a message and a block of trailers. Whether all of
    /// it is in the output; else the rest follows as windows open, and the call goes on until then.
    pub fn respond(
        &mut self,
        id: u32,
        head: &[u8],
        message: MessageWriter<impl FnOnce(&mut Vec<u8>)>,
        trailers: &[u8],
    ) -> bool {
        let Some(stream) = self.streams.get_mut(id) else { return true };
        put_headers(&mut self.output, head, 0, id);
        let window = self.send_window.min(stream.send_credit + i64::from(self.stream_window));
        let bytes = i64::try_from(message.length).unwrap_or(i64::MAX);
        if bytes > window || message.length > PAYLOAD_MAX {
            let mut bytes = Vec::with_capacity(message.length);
            (message.write)(&mut bytes);
            let end = QueueEnd::Trailers(trailers.to_vec());
            stream.queue = Some(Box::new(SendQueue { bytes, sent: 0, end }));
            self.queued.push_back(id);
            return self.send_queued(id);
        }
        self.send_window -= bytes;
        put_head(&mut self.output, message.length, FrameKind::Data, 0, id);
        (message.write)(&mut self.output);
        put_headers(&mut self.output, trailers, END_STREAM, id);
        self.finish(id);
        true
    }

    /// Sends a block of header fields, which may be all of the answer.
    pub fn send_head(&mut self, id: u32, block: &[u8], is_end: bool) {
        if self.streams.get_mut(id).is_none() {
            return;
        }
        put_headers(&mut self.output, block, if is_end { END_STREAM } else { 0 }, id);
        if is_end {
            self.finish(id);
        }
    }

    /// Sends some of a body, as windows open.
    pub fn send_data(&mut self, id: u32, data: &[u8]) {
        self.send_later(id, |queue| queue.bytes.extend_from_slice(data));
    }

    /// Ends an answer, with trailers or without, after what waits.
    pub fn send_end(&mut self, id: u32, trailers: Option<Vec<u8>>) {
        self.send_later(id, |queue| queue.end = trailers.map_or(QueueEnd::End, QueueEnd::Trailers));
    }

    fn send_later(&mut self, id: u32, change: impl FnOnce(&mut SendQueue)) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.queue.is_none() {
            self.queued.push_back(id);
        }
        let empty = || Box::new(SendQueue { bytes: Vec::new(), sent: 0, end: QueueEnd::Open });
        change(stream.queue.get_or_insert_with(empty));
        self.send_queued(id);
    }

    /// Whether some of an answer waits for windows.
    pub fn is_waiting(&mut self, id: u32) -> bool {
        self.streams.get_mut(id).is_some_and(|stream| stream.queue.is_some())
    }

    /// Ends a call with an error.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        put_reset(&mut self.output, id, code);
        self.remove(id);
        self.note_ended_early(id);
    }

    /// Sends of what waits as much as windows allow, up to a bound; whether there may be more to send
    /// once the output is written.
    pub fn send_waiting(&mut self) -> bool {
        if !std::mem::take(&mut self.is_queue_due) {
            return false;
        }
        for _ in 0..self.queued.len() {
            if self.send_window <= 0 {
                break;
            }
            if self.output.len() >= OUTPUT_ENOUGH {
                self.is_queue_due = true;
                break;
            }
            let Some(id) = self.queued.pop_front() else { break };
            self.queued.push_back(id);
            self.send_queued(id);
        }
        self.is_queue_due
    }

    /// Sends of one queue as much as windows allow; whether the stream has ended by it.
    fn send_queued(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.get_mut(id) else { return true };
        let Some(queue) = &mut stream.queue else { return false };
        let window = self.send_window.min(stream.send_credit + i64::from(self.stream_window)).max(0);
        let rest = queue.bytes.get(queue.sent..).unwrap_or_default();
        let room = usize::try_from(window).unwrap_or(usize::MAX).min(rest.len());
        let is_all = room == rest.len();
        let ends_here = is_all && matches!(queue.end, QueueEnd::End);
        let sent = rest.get(..room).unwrap_or_default();
        if !sent.is_empty() || ends_here {
            put_data(&mut self.output, sent, if ends_here { END_STREAM } else { 0 }, id);
        }
        let bytes = i64::try_from(room).unwrap_or(i64::MAX);
        queue.sent += room;
        stream.send_credit -= bytes;
        self.send_window -= bytes;
        if !is_all {
            return false;
        }
        let queue = stream.queue.take();
        self.forget_queued(id);
        match queue.map(|queue| queue.end) {
            None | Some(QueueEnd::Open) => return false,
            Some(QueueEnd::End) => {}
            Some(QueueEnd::Trailers(block)) => put_headers(&mut self.output, &block, END_STREAM, id),
        }
        self.finish(id);
        true
    }

    /// Our side has ended, and with it the call.
    fn finish(&mut self, id: u32) {
        if self.remove(id) == Some(true) {
            // The rest of the request is for nobody.
            put_reset(&mut self.output, id, ErrorCode::NoError);
            self.note_ended_early(id);
        }
    }
}

/// Writes bytes of a body, in as many frames as it takes.
fn put_data(out: &mut Vec<u8>, data: &[u8], end_stream: u8, id: u32) {
    let mut rest = data;
    loop {
        let (part, others) = rest.split_at_checked(PAYLOAD_MAX).unwrap_or((rest, &[]));
        let flags = if others.is_empty() { end_stream } else { 0 };
        put_head(out, part.len(), FrameKind::Data, flags, id);
        out.extend_from_slice(part);
        if others.is_empty() {
            return;
        }
        rest = others;
    }
}
