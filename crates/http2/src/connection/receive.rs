//! Frames in, events out.
//!
//! Invariants: a frame is looked at when it is whole, in the order of arrival; every block of header
//! fields is decoded, whatever becomes of its stream; bytes of bodies count against both windows even
//! if nobody wants them.

use super::{CLOSE_PING, Closing, Event, FAULTS_MAX, Fault, Http2Connection, Opening, PREFACE, PartialBlock};
use crate::field::HeaderField;
use crate::flow::{ReceiveWindow, WINDOW_MAX};
use crate::frame::{
    ACK, END_HEADERS, END_STREAM, ErrorCode, FrameHead, FrameKind, HEAD_BYTES, PADDED, PAYLOAD_MAX, PRIORITY,
    first_number31, put_go_away, put_head, put_headers, put_ping, put_reset, put_window_update,
};
use crate::head::{BuiltHead, HeadBuilder, is_of_trailers};
use crate::hpack::encoder::put_field;
use crate::settings;
use crate::streams::Http2Stream;

/// Frames of one block of header fields. More is not a long block but a flood of empty ones.
const BLOCK_FRAMES_MAX: usize = 16;

impl<T: Default> Http2Connection<T> {
    /// The owner has read something, and will ask for the events of it.
    pub const fn begin_read(&mut self) {
        self.last_before_read = self.last;
        self.resets = 0;
    }

    /// The next event, taking whole frames off `input`. None if there is no whole frame any more, or if
    /// the connection is over.
    #[inline]
    pub fn next_event<'b>(&mut self, input: &mut &'b [u8]) -> Option<Event<'b>> {
        while self.closing != Closing::Failed {
            match self.next_frame(input) {
                Ok(None) => return None,
                Ok(Some((head, payload))) => match self.frame(head, payload) {
                    Ok(None) => {}
                    Ok(event) => return event,
                    Err(fault) => self.refuse(fault),
                },
                Err(code) => self.fail(code),
            }
        }
        None
    }

    fn refuse(&mut self, fault: Fault) {
        match fault {
            Fault::Connection(code) => self.fail(code),
            Fault::Stream(stream, code) => {
                self.reset(stream, code);
                // Before it knows our settings, a caller cannot know how many streams are too many.
                let is_its_fault = code != ErrorCode::RefusedStream || self.is_acknowledged;
                self.faults += usize::from(is_its_fault);
                if self.faults > FAULTS_MAX {
                    self.fail(ErrorCode::EnhanceYourCalm);
                }
            }
        }
    }

    /// Takes a frame off `input`, once it is whole.
    fn next_frame<'b>(&mut self, input: &mut &'b [u8]) -> Result<Option<(FrameHead, &'b [u8])>, ErrorCode> {
        if let Opening::Preface(seen) = self.opening {
            let expected = PREFACE.get(seen..).unwrap_or_default();
            let (begin, rest) = input.split_at_checked(expected.len()).unwrap_or((*input, &[]));
            if !expected.starts_with(begin) {
                return Err(ErrorCode::Protocol);
            }
            *input = rest;
            if begin.len() < expected.len() {
                self.opening = Opening::Preface(seen + begin.len());
                return Ok(None);
            }
            self.opening = Opening::Settings;
        }
        let Some(head) = FrameHead::at(input) else { return Ok(None) };
        if head.length > PAYLOAD_MAX {
            return Err(ErrorCode::FrameSize);
        }
        let Some((frame, rest)) = input.split_at_checked(HEAD_BYTES + head.length) else { return Ok(None) };
        *input = rest;
        self.frames += 1;
        Ok(Some((head, frame.get(HEAD_BYTES..).unwrap_or_default())))
    }

    fn frame<'b>(&mut self, head: FrameHead, payload: &'b [u8]) -> Result<Option<Event<'b>>, Fault> {
        const BROKEN: Fault = Fault::Connection(ErrorCode::Protocol);
        if self.partial.is_some() != (head.kind == FrameKind::Continuation) {
            return Err(BROKEN);
        }
        if self.opening == Opening::Settings {
            if head.kind != FrameKind::Settings || head.has(ACK) {
                return Err(BROKEN);
            }
            self.opening = Opening::Done;
        }
        // Streams have odd numbers where callers open them, and some frames are about none.
        let is_lawful = match head.kind {
            FrameKind::Data | FrameKind::Headers | FrameKind::Continuation | FrameKind::Reset => {
                head.stream % 2 == 1
            }
            FrameKind::Settings | FrameKind::Ping | FrameKind::GoAway => head.stream == 0,
            FrameKind::Priority => head.stream != 0,
            FrameKind::WindowUpdate => head.stream == 0 || head.stream % 2 == 1,
            FrameKind::PushPromise => false,
            FrameKind::Unknown => true,
        };
        if !is_lawful {
            return Err(BROKEN);
        }
        match head.kind {
            FrameKind::Data => return self.data(head, payload),
            FrameKind::Headers => return self.headers(head, payload),
            FrameKind::Continuation => return self.continuation(head, payload),
            FrameKind::Settings => self.settings(head, payload)?,
            FrameKind::WindowUpdate => self.window_update(head.stream, payload)?,
            FrameKind::Reset => self.reset_by_caller(head.stream, payload)?,
            FrameKind::Ping => self.pinged(head, payload)?,
            FrameKind::Priority => priority(head.stream, payload)?,
            // Who says goodbye need not be told anything, and its calls go on.
            FrameKind::GoAway if payload.len() < 8 => return Err(Fault::Connection(ErrorCode::FrameSize)),
            FrameKind::GoAway | FrameKind::PushPromise | FrameKind::Unknown => {}
        }
        Ok(None)
    }

    fn data<'b>(&mut self, head: FrameHead, payload: &'b [u8]) -> Result<Option<Event<'b>>, Fault> {
        let (id, bytes) = (head.stream, payload.len());
        if id > self.last {
            return Err(Fault::Connection(ErrorCode::Protocol));
        }
        self.receive_window.take(bytes).ok_or(Fault::Connection(ErrorCode::FlowControl))?;
        let data = unpadded(head, payload)?;
        let Some(stream) = self.streams.get_mut(id) else {
            self.give_back(bytes);
            return if self.ended_early.contains(&id) {
                Ok(None)
            } else {
                Err(Fault::Stream(id, ErrorCode::StreamClosed))
            };
        };
        if !stream.is_receiving {
            self.give_back(bytes);
            return Err(Fault::Stream(id, ErrorCode::StreamClosed));
        }
        let fits = stream.receive_window.take(bytes).is_some();
        let is_end = head.has(END_STREAM);
        let is_expected = match &mut stream.body_left {
            None => true,
            Some(left) => match left.checked_sub(u64::try_from(data.len()).unwrap_or(u64::MAX)) {
                None => false,
                Some(rest) => {
                    *left = rest;
                    !is_end || rest == 0
                }
            },
        };
        stream.is_receiving = !is_end;
        if !fits || !is_expected {
            self.give_back(bytes);
            let code = if fits { ErrorCode::Protocol } else { ErrorCode::FlowControl };
            return Err(Fault::Stream(id, code));
        }
        if data.len() < bytes {
            self.consumed(id, bytes - data.len());
        }
        Ok(Some(Event::Data { stream: id, data, is_end }))
    }

    fn headers<'b>(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event<'b>>, Fault> {
        let mut block = unpadded(head, payload)?;
        if head.has(PRIORITY) {
            let (depends, rest) = block.split_at_checked(5).ok_or(Fault::Connection(ErrorCode::FrameSize))?;
            priority(head.stream, depends)?;
            block = rest;
        }
        let is_end = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.block(head.stream, block, is_end);
        }
        let bytes = block.to_vec();
        self.partial = Some(Box::new(PartialBlock { stream: head.stream, is_end, bytes, frames: 1 }));
        Ok(None)
    }

    fn continuation<'b>(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event<'b>>, Fault> {
        let Some(mut partial) = self.partial.take().filter(|partial| partial.stream == head.stream) else {
            return Err(Fault::Connection(ErrorCode::Protocol));
        };
        // A request that is too large is refused by itself, and one that is far too large with its connection.
        let bytes_max = PAYLOAD_MAX + usize::try_from(self.config.headers_max).unwrap_or(usize::MAX);
        partial.frames += 1;
        if partial.frames > BLOCK_FRAMES_MAX || partial.bytes.len() + payload.len() > bytes_max {
            return Err(Fault::Connection(ErrorCode::EnhanceYourCalm));
        }
        partial.bytes.extend_from_slice(payload);
        if head.has(END_HEADERS) {
            return self.block(partial.stream, &partial.bytes, partial.is_end);
        }
        self.partial = Some(partial);
        Ok(None)
    }

    /// A whole block of header fields.
    fn block<'b>(&mut self, id: u32, block: &[u8], is_end: bool) -> Result<Option<Event<'b>>, Fault> {
        if id <= self.last {
            return self.trailers(id, block, is_end);
        }
        let mut builder = HeadBuilder::new(self.config.headers_max, self.config.keeps_fields);
        let decoded = self.decoder.decode(block, |field| builder.add(field));
        decoded.map_err(|_| Fault::Connection(ErrorCode::Compression))?;
        (self.before_last, self.last) = (self.last, id);
        if self.closing != Closing::No && self.closing != Closing::Announced {
            // It was told that this will not be answered.
            self.note_ended_early(id);
            return Ok(None);
        }
        if self.streams.len() >= usize::try_from(self.config.streams_max).unwrap_or(usize::MAX) {
            return Err(Fault::Stream(id, ErrorCode::RefusedStream));
        }
        match builder.finish() {
            BuiltHead::Malformed => Err(Fault::Stream(id, ErrorCode::Protocol)),
            BuiltHead::TooLarge => {
                self.refuse_large(id, is_end);
                Ok(None)
            }
            BuiltHead::Request(_, Some(1..)) if is_end => Err(Fault::Stream(id, ErrorCode::Protocol)),
            BuiltHead::Request(head, body_left) => {
                let window = self.config.stream_window;
                let receive_window = match self.is_acknowledged {
                    true => ReceiveWindow::new(window),
                    false => ReceiveWindow::before_settings(window),
                };
                self.streams.push(Http2Stream {
                    id,
                    call: T::default(),
                    is_receiving: !is_end,
                    receive_window,
                    body_left,
                    send_credit: 0,
                    queue: None,
                });
                Ok(Some(Event::Request { stream: id, head, is_end }))
            }
        }
    }

    /// Says that the header fields are too large.
    fn refuse_large(&mut self, id: u32, is_end: bool) {
        let mut block = Vec::new();
        put_field(&mut block, b":status", b"431");
        put_headers(&mut self.output, &block, END_STREAM, id);
        if !is_end {
            put_reset(&mut self.output, id, ErrorCode::NoError);
            self.note_ended_early(id);
        }
    }

    /// A block of header fields for a stream that was opened before.
    fn trailers<'b>(&mut self, id: u32, block: &[u8], is_end: bool) -> Result<Option<Event<'b>>, Fault> {
        let mut is_lawful = true;
        let look = |field: HeaderField<'_>| is_lawful &= is_of_trailers(field.kind);
        let decoded = self.decoder.decode(block, look);
        decoded.map_err(|_| Fault::Connection(ErrorCode::Compression))?;
        let Some(stream) = self.streams.get_mut(id) else {
            return if self.ended_early.contains(&id) {
                Ok(None)
            } else if id > self.before_last && id < self.last {
                // It was passed over, so that it never was open.
                Err(Fault::Connection(ErrorCode::Protocol))
            } else {
                Err(Fault::Connection(ErrorCode::StreamClosed))
            };
        };
        if !stream.is_receiving {
            return Err(Fault::Stream(id, ErrorCode::StreamClosed));
        }
        if !is_end || !is_lawful || stream.body_left.is_some_and(|left| left > 0) {
            return Err(Fault::Stream(id, ErrorCode::Protocol));
        }
        stream.is_receiving = false;
        Ok(Some(Event::Data { stream: id, data: &[], is_end: true }))
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.has(ACK) {
            self.is_acknowledged = true;
            return if payload.is_empty() { Ok(()) } else { Err(Fault::Connection(ErrorCode::FrameSize)) };
        }
        if let Some(window) = settings::initial_window(payload).map_err(Fault::Connection)? {
            let overflows = |stream: &Http2Stream<T>| stream.send_credit + i64::from(window) > WINDOW_MAX;
            if window > self.stream_window && self.streams.iter().any(overflows) {
                return Err(Fault::Connection(ErrorCode::FlowControl));
            }
            self.is_queue_due |= window > self.stream_window;
            self.stream_window = window;
        }
        put_head(&mut self.output, 0, FrameKind::Settings, ACK, 0);
        Ok(())
    }

    fn window_update(&mut self, id: u32, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(Fault::Connection(ErrorCode::FrameSize));
        }
        let more = i64::from(first_number31(payload));
        if id == 0 {
            self.send_window += more;
            self.is_queue_due = true;
            return match more {
                0 => Err(Fault::Connection(ErrorCode::Protocol)),
                _ if self.send_window > WINDOW_MAX => Err(Fault::Connection(ErrorCode::FlowControl)),
                _ => Ok(()),
            };
        }
        let Some(stream) = self.streams.get_mut(id) else {
            // It may be about one that has just ended.
            return if id > self.last { Err(Fault::Connection(ErrorCode::Protocol)) } else { Ok(()) };
        };
        stream.send_credit += more;
        self.is_queue_due |= stream.queue.is_some();
        match more {
            0 => Err(Fault::Stream(id, ErrorCode::Protocol)),
            _ if stream.send_credit + i64::from(self.stream_window) > WINDOW_MAX => {
                Err(Fault::Stream(id, ErrorCode::FlowControl))
            }
            _ => Ok(()),
        }
    }

    fn reset_by_caller(&mut self, id: u32, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(Fault::Connection(ErrorCode::FrameSize));
        }
        if id > self.last {
            return Err(Fault::Connection(ErrorCode::Protocol));
        }
        let was_open = self.remove(id).is_some();
        if was_open && id > self.last_before_read {
            self.resets += 1;
            if self.resets > self.config.resets_max {
                return Err(Fault::Connection(ErrorCode::EnhanceYourCalm));
            }
        }
        Ok(())
    }

    fn pinged(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != CLOSE_PING.len() {
            return Err(Fault::Connection(ErrorCode::FrameSize));
        }
        if !head.has(ACK) {
            put_ping(&mut self.output, ACK, payload);
        } else if payload == CLOSE_PING && self.closing == Closing::Announced {
            self.closing = Closing::Final;
            put_go_away(&mut self.output, self.last, ErrorCode::NoError);
        }
        Ok(())
    }

    /// So many bytes of a body need no room any more.
    pub fn consumed(&mut self, id: u32, bytes: usize) {
        self.give_back(bytes);
        self.taken(id, bytes);
    }

    /// The same where the owner holds the bytes of a stream apart, within its window: other streams need not
    /// wait for it, however it ends.
    pub fn taken(&mut self, id: u32, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(id)
            && stream.is_receiving
            && let Some(more) = stream.receive_window.give_back(bytes)
        {
            put_window_update(&mut self.output, id, more);
        }
    }

    /// So many bytes need no room in the window of all streams any more.
    pub fn give_back(&mut self, bytes: usize) {
        if let Some(more) = self.receive_window.give_back(bytes) {
            put_window_update(&mut self.output, 0, more);
        }
    }
}

/// The payload without its padding.
fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], Fault> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Fault::Connection(ErrorCode::FrameSize))?;
    let length = rest.len().checked_sub(usize::from(*padding));
    length.and_then(|length| rest.get(..length)).ok_or(Fault::Connection(ErrorCode::Protocol))
}

/// Priorities are for nobody any more, but no stream may depend on itself.
fn priority(stream: u32, payload: &[u8]) -> Result<(), Fault> {
    if payload.len() != 5 {
        return Err(Fault::Connection(ErrorCode::FrameSize));
    }
    if first_number31(payload) == stream { Err(Fault::Connection(ErrorCode::Protocol)) } else { Ok(()) }
}
