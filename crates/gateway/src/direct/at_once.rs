//! Reads, decides and denies for as long as nobody has to wait.
//!
//! Called by [`DirectConnection::serve`] whenever there may be something to read. One call answers all
//! requests of a read, and the next one, when other connections had their turn, writes the answers together.
//!
//! Invariants: it never waits, so that nothing of it is kept with the connection. It ends with all that was
//! read answered, or with a [`NextStep`] about the first request that is not; then that one and those behind
//! it are in the connection's own buffer.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_core::Time;
use tollgate_http::{Admission, Checker, HeaderFields};

use super::client_stream::NextRead;
use super::request::{DirectRequest, FieldSpans, HeadSpans};
use super::response_head::{OwnAnswer, OwnAnswers};
use super::told::{Told, ToldEnd};
use super::told_lines::ToldLines;
use super::{DirectConnection, NextStep, OpenRequest, RouteCache, buffers};
use crate::access_log::AccessRecord;
use crate::bounds::DIRECT_OUT_BYTES;
use crate::error::GatewayError;
use crate::exchange::origin;
use crate::problem;
use crate::route::RouteQuery;
use crate::route_table::{Route, RouteTable};

impl<C, I, F> DirectConnection<'_, '_, C, I, F>
where
    C: Checker,
    I: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    /// Answers what has been read and what there is to read.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        routes: &mut RouteCache<'_>,
    ) -> Poll<NextStep<C>> {
        if !self.input.is_empty() {
            let mut input = std::mem::take(&mut self.input);
            let (used, next) = self.answer_all(&mut input, routes.load());
            input.drain(..used);
            self.keep_input(input);
            if let Some(next) = next {
                return Poll::Ready(next);
            }
        }
        buffers::with_input(|input| {
            loop {
                if !self.is_written(cx) {
                    return Poll::Ready(NextStep::Flush);
                }
                let read =
                    if self.is_last { Poll::Ready(NextRead::Over) } else { self.client.poll_read(cx, input) };
                let count = match read {
                    Poll::Ready(NextRead::Bytes(count)) => count,
                    Poll::Ready(NextRead::Over) => return Poll::Ready(NextStep::End),
                    Poll::Pending => return Poll::Pending,
                };
                let read = input.get_mut(..count).unwrap_or_default();
                let (used, next) = self.answer_all(read, routes.load());
                if let Some(next) = next {
                    self.input = buffers::take_with(read.get(used..).unwrap_or_default());
                    return Poll::Ready(next);
                }
                if !self.out.is_empty() {
                    // All connections that are ready are read before the first answer is written: answers that
                    // follow each other closely mostly find their reader awake, and waking it up costs more
                    // than the decision did.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        })
    }

    /// Whether the client has taken all answers.
    fn is_written(&mut self, cx: &mut Context<'_>) -> bool {
        if self.out.is_empty() {
            return true;
        }
        let written = self.client.write_at_once(cx, &self.out);
        if written < self.out.len() || !self.client.is_flushed(cx) {
            self.out.drain(..written);
            return false;
        }
        buffers::give(std::mem::take(&mut self.out));
        true
    }

    /// Answers the requests in `bytes`; how many bytes were answered, and what to do about the next ones.
    fn answer_all(&mut self, bytes: &mut [u8], routes: &RouteTable) -> (usize, Option<NextStep<C>>) {
        let mut used = 0;
        while let Some(rest) = bytes.get_mut(used..).filter(|rest| !rest.is_empty()) {
            // Whatever follows the last answer is dropped.
            if self.is_last {
                return (bytes.len(), None);
            }
            if self.out.len() >= DIRECT_OUT_BYTES {
                return (used, Some(NextStep::Flush));
            }
            match self.answer_first(rest, routes) {
                ControlFlow::Continue(length) => used += length,
                ControlFlow::Break(next) => return (used, Some(next)),
            }
        }
        (used, None)
    }

    /// Answers the first request; how long it is, or what is left to do about it.
    fn answer_first(&mut self, bytes: &mut [u8], routes: &RouteTable) -> ControlFlow<NextStep<C>, usize> {
        let (gateway, mut fields) = (self.gateway, FieldSpans::new());
        let Some(head) = HeadSpans::read(bytes, &mut fields) else {
            return ControlFlow::Break(NextStep::HandOver);
        };
        let request = head.of(bytes, &fields);
        let facts = request.facts(self.peer, routes.reads_hosts());
        let (host, path) = (facts.host, request.path());
        let query = RouteQuery { host, path, method: request.method, headers: facts.headers };
        let is_direct = |route: &&Arc<Route>| route.is_direct && !gateway.is_deferring(route, path);
        let Some(route) = routes.find(&query).filter(is_direct) else {
            return ControlFlow::Break(NextStep::HandOver);
        };
        let mut access = gateway.access_record(self.context);
        if let Some(access) = &mut access {
            let line = (request.method, request.target, Version::HTTP_11);
            access.requested_by(line, Some(request.host), facts.headers);
        }
        let calendar = || gateway.checker.calendar();
        let mut told = Told::new(self.own_answers(request, &calendar), access.is_some());
        let mut admitted = gateway.admit_at_once(route, &facts, &mut told);
        let told = told.end();
        if let Some(admitted) = &mut admitted
            && self.is_answered(request, route, (admitted, &told), &mut access)
        {
            told.lines.give_back();
            return ControlFlow::Continue(head.length);
        }
        let (route, admission, told) = (Arc::clone(route), admitted.and_then(Result::ok), told.lines);
        let open = OpenRequest { head, fields, route, access, admission, told };
        ControlFlow::Break(NextStep::Request(Box::new(open)))
    }

    /// Whether what was decided is the answer, which is written then.
    pub(super) fn is_answered(
        &mut self,
        request: DirectRequest<'_>,
        route: &Route,
        (admitted, told): (&mut Result<Admission<C>, GatewayError>, &ToldEnd),
        access: &mut Option<Box<AccessRecord>>,
    ) -> bool {
        let admission = match admitted {
            Ok(admission) => admission,
            Err(error) => {
                self.refuse(request, error, access.take());
                return true;
            }
        };
        if let Some(access) = access {
            let fields = HeaderFields::Lines(request.fields);
            let client = origin(self.context, route, fields, Version::HTTP_11).client;
            access.decided(client, (admission.verdict, admission.outcome), admission.rule.as_deref());
        }
        let is_denied = admission.verdict.is_deny();
        match told.denied_bytes {
            Some(bytes) => note_answer(access.take(), StatusCode::TOO_MANY_REQUESTS, bytes),
            None if is_denied => self.deny(request, admission, &told.lines, access.take()),
            None => {}
        }
        is_denied
    }

    /// Tells the client that it is denied.
    fn deny(
        &mut self,
        request: DirectRequest<'_>,
        admission: &mut Admission<C>,
        told: &ToldLines,
        access: Option<Box<AccessRecord>>,
    ) {
        let mut body = Vec::new();
        if let Some(problem) = admission.problem.take() {
            problem.write(&mut body);
        }
        let (status, body) = (StatusCode::TOO_MANY_REQUESTS, [body.as_slice(), b"", b""]);
        self.answer_own(request, &OwnAnswer { status, told: told.limits(), body }, access);
    }

    /// Tells the client why there is no answer.
    pub(super) fn refuse(
        &mut self,
        request: DirectRequest<'_>,
        error: &GatewayError,
        access: Option<Box<AccessRecord>>,
    ) {
        let (status, body) = (error.status(), problem::body(error));
        let body = [body.as_slice(), b"", b""];
        self.answer_own(request, &OwnAnswer { status, told: &[], body }, access);
    }

    fn answer_own(
        &mut self,
        request: DirectRequest<'_>,
        answer: &OwnAnswer<'_>,
        access: Option<Box<AccessRecord>>,
    ) {
        let gateway = self.gateway;
        let calendar = || gateway.checker.calendar();
        let bytes = self.own_answers(request, &calendar).write(answer);
        note_answer(access, answer.status, bytes);
    }

    /// Who writes answers of our own.
    pub(super) fn own_answers<'a>(
        &'a mut self,
        request: DirectRequest<'_>,
        calendar: &'a (dyn Fn() -> Time + Sync),
    ) -> OwnAnswers<'a> {
        self.is_last = self.client.is_closing();
        OwnAnswers {
            out: &mut self.out,
            is_last: self.is_last,
            is_head_request: request.is_head(),
            calendar,
            written_at: &mut self.client.idle_since,
        }
    }
}

/// Tells the access log of an answer of our own.
fn note_answer(access: Option<Box<AccessRecord>>, status: StatusCode, bytes: usize) {
    if let Some(mut access) = access {
        access.answered(status.as_u16(), access.upstream_time());
        access.sent(bytes);
    }
}
