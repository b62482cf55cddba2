//! The calls of a connection: what becomes of each event, and how each is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable};
use hyper::{HeaderMap, StatusCode};
use tollgate_http2::{ErrorCode, Event, MessageWriter, RequestHead, RequestPath};

use super::GrpcConnection;
use crate::bounds::{RESPONSE_LARGE, SIDE_CALLS_MAX};
use crate::grpc::error::GrpcError;
use crate::grpc::request_body::request_body;
use crate::grpc::should_rate_limit::{Decided, RateLimitAnswer, RateLimitCall};
use crate::grpc::side_call::{SideCall, SideEvent};
use crate::grpc::{OPERATIONS, message_wire, response_wire, to_wire};
use crate::listen::stream::WaitingBytes;

/// What a call counts in a turn besides its message.
const CALL_BYTES: usize = 64;

/// How far a call has got. It ends with its stream.
#[derive(Debug, Default)]
pub(super) enum CallState {
    /// It has only begun.
    #[default]
    New,
    /// Its message arrives.
    Receiving(RateLimitCall),
    /// It waits for the store.
    Deciding { _abort: AbortOnDrop },
    /// Its answer waits for the caller's window.
    Sending { _waiting: Option<WaitingBytes> },
    /// Tonic answers it.
    Side(Box<SideCall>),
}

/// A call that waits for the store, and its stream.
pub(super) type PendingCall = Abortable<Pin<Box<dyn Future<Output = (u32, RateLimitAnswer)> + Send>>>;

/// Ends the wait for the store with the call.
#[derive(Debug)]
pub(super) struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GrpcConnection {
    /// Does what an event asks for.
    #[inline]
    pub(super) fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Request { stream, head, is_end } => self.begin(stream, head, is_end),
            Event::Data { stream, data, is_end } => self.receive(stream, data, is_end),
        }
    }

    fn begin(&mut self, stream: u32, head: RequestHead, is_end: bool) {
        let operation = match (&head.path, &head.other_method) {
            (RequestPath::Known(place), None) => OPERATIONS.get(*place).copied(),
            _ => None,
        };
        let Some(operation) = operation else { return self.begin_side_call(stream, head, is_end) };
        if !head.is_grpc {
            let refusal = response_wire::head(StatusCode::UNSUPPORTED_MEDIA_TYPE, &HeaderMap::new());
            return self.http2.send_head(stream, &refusal, true);
        }
        if self.bytes.is_full() {
            return self.refuse(stream, &GrpcError::NotRead);
        }
        let call = RateLimitCall::new(&self.grpc.service, operation, &head.fields, self.read_at);
        if is_end {
            self.decide(stream, call, &[]);
        } else if let Some(state) = self.http2.call_mut(stream) {
            *state = CallState::Receiving(call);
        }
    }

    fn receive(&mut self, stream: u32, data: &[u8], is_end: bool) {
        let Some(state) = self.http2.call_mut(stream) else { return };
        if let CallState::Side(call) = state {
            // Its own window opens when tonic has taken it.
            call.request.push(data, is_end);
            return self.http2.give_back(data.len());
        }
        match state {
            CallState::Receiving(call) if !is_end => {
                if let Err(error) = call.push(data) {
                    self.fail(stream, error);
                }
            }
            CallState::Receiving(_) => {
                if let CallState::Receiving(call) = std::mem::take(state) {
                    self.decide(stream, call, data);
                }
            }
            // It was answered before it was whole.
            CallState::New | CallState::Deciding { .. } | CallState::Sending { .. } | CallState::Side(_) => {}
        }
        self.http2.consumed(stream, data.len());
    }

    /// Decides a call whose message is there.
    fn decide(&mut self, stream: u32, call: RateLimitCall, last: &[u8]) {
        self.decided_bytes += CALL_BYTES + call.bytes() + last.len();
        match call.decide(&self.grpc.service, last, self.read_at) {
            Decided::Now(answer) => self.answer(stream, answer),
            Decided::Later(later) => {
                let (abort, registration) = AbortHandle::new_pair();
                if let Some(state) = self.http2.call_mut(stream) {
                    *state = CallState::Deciding { _abort: AbortOnDrop(abort) };
                }
                let later: Pin<Box<dyn Future<Output = _> + Send>> =
                    Box::pin(async move { (stream, later.decide().await) });
                self.pending.push(Abortable::new(later, registration));
            }
        }
    }

    /// Answers a call, as far as the caller's window allows.
    pub(super) fn answer(&mut self, stream: u32, answer: RateLimitAnswer) {
        let RateLimitAnswer { result, mut span } = answer;
        let result = if self.bytes.is_full() { result.and(Err(GrpcError::NotRead)) } else { result };
        let message = match result {
            Ok(message) => message,
            Err(error) => {
                let status = to_wire::status(&error);
                span.failed(status.message());
                return self.http2.send_head(stream, &response_wire::failure(status), true);
            }
        };
        let length = message_wire::framed_bytes(&message);
        let write = |out: &mut Vec<u8>| message_wire::encode(&message, length, out);
        let (head, trailers) = (response_wire::OK_HEAD, response_wire::OK_TRAILERS);
        let is_sent = self.http2.respond(stream, head, MessageWriter { length, write }, trailers);
        if !is_sent && let Some(state) = self.http2.call_mut(stream) {
            *state = CallState::Sending { _waiting: WaitingBytes::new(Arc::clone(&self.bytes), length) };
        }
    }

    /// Ends a call whose message is not wanted, or did not come.
    pub(super) fn fail(&mut self, stream: u32, error: GrpcError) {
        if let Some(state) = self.http2.call_mut(stream)
            && let CallState::Receiving(call) = std::mem::take(state)
        {
            let answer = call.fail(&self.grpc.service, error);
            self.answer(stream, answer);
        }
    }

    fn refuse(&mut self, stream: u32, error: &GrpcError) {
        self.http2.send_head(stream, &response_wire::failure(to_wire::status(error)), true);
    }

    fn begin_side_call(&mut self, stream: u32, head: RequestHead, is_end: bool) {
        let http2 = &mut self.http2;
        self.side_calls.retain(|call| http2.call_mut(*call).is_some());
        if self.side_calls.len() >= SIDE_CALLS_MAX {
            return self.refuse(stream, &GrpcError::SideCalls);
        }
        let (sender, body) = request_body();
        if is_end {
            sender.push(&[], true);
        }
        let Some(call) = SideCall::new(&self.grpc, head, sender, body) else {
            return self.http2.reset(stream, ErrorCode::Protocol);
        };
        if let Some(state) = self.http2.call_mut(stream) {
            *state = CallState::Side(Box::new(call));
            self.side_calls.push(stream);
        }
    }

    /// Sends what has come of the calls that tonic answers; whether they are put off until there is less to
    /// write.
    pub(super) fn poll_side_calls(&mut self, cx: &mut Context<'_>) -> bool {
        if self.side_calls.is_empty() {
            return false;
        }
        if self.http2.output().len() > RESPONSE_LARGE {
            return true;
        }
        let mut calls = std::mem::take(&mut self.side_calls);
        calls.retain(|stream| {
            let Some(state) = self.http2.call_mut(*stream) else { return false };
            let CallState::Side(mut call) = std::mem::take(state) else { return false };
            self.poll_side_call(*stream, &mut call, cx);
            let state = self.http2.call_mut(*stream);
            state.map(|state| *state = CallState::Side(call)).is_some()
        });
        self.side_calls = calls;
        false
    }

    fn poll_side_call(&mut self, stream: u32, call: &mut SideCall, cx: &mut Context<'_>) {
        while self.http2.call_mut(stream).is_some() && !self.http2.is_waiting(stream) {
            let Poll::Ready(event) = call.poll(cx) else { break };
            match event {
                SideEvent::Head { status, headers, is_end } => {
                    self.http2.send_head(stream, &response_wire::head(status, &headers), is_end);
                }
                SideEvent::Data(data) => {
                    self.http2.send_data(stream, &data);
                    if self.http2.is_waiting(stream) && call.wait(&self.bytes, data.len()).is_none() {
                        self.http2.reset(stream, ErrorCode::EnhanceYourCalm);
                    }
                }
                SideEvent::Trailers(fields) => {
                    self.http2.send_end(stream, Some(response_wire::trailers(&fields)));
                }
                SideEvent::End => self.http2.send_end(stream, None),
                SideEvent::Broken => self.http2.reset(stream, ErrorCode::Internal),
            }
        }
        let taken = call.request.taken(cx);
        if taken > 0 {
            self.http2.taken(stream, taken);
        }
    }
}
