//! The short way for what nearly all clients send: no hyper in between.
//!
//! hyper is a general server and a general client: a task for each connection to an upstream, a
//! channel between the two, maps of fields, bodies that are streams. A request that came whole in
//! one read needs none of it. It is decided from the lines of its head; a denial is one write, and
//! what is let through goes to a kept connection in one write, and comes back in one.
//!
//! A request takes this way if all of this is so, which is known before anything is decided:
//!
//! - HTTP/1.1, head and body are there, and `strict` has nothing against the head;
//! - its method is one of the usual, and target and host have only the usual characters;
//! - it does not upgrade, expect, name fields in `Connection`, ask for trailers or for an end;
//! - its route leads to upstreams of HTTP/1.1 without TLS, and nothing is charged by the answer;
//! - no limit of its domain may put it off, and it does not ask about a request that was.
//!
//! Whatever else comes is hyper's, with all that was read, and so is the rest of that connection:
//! slow heads, large bodies, malformed requests, tunnels and their timeouts have one place. All that
//! is decided here is decided by the same functions: routes, levels, mapping, limits, waiting lines,
//! health and load of upstreams, retries, the access log.
//!
//! | module | what it holds |
//! |---|---|
//! | `request` | a request that came whole and has nothing unusual about it |
//! | `client_stream` | the client's bytes, whether it is still there, and timeouts |
//! | `outgoing_head` | the head as the upstream gets it |
//! | `forwarding` | a request → an upstream's answer, with its one retry |
//! | `response_head` | an upstream's head as the client gets it; answers of our own |
//! | `told` | what a client is told about its limits |
//! | `relay` | the body of an answer |
//! | `buffers`, `date` | buffers that connections share; the `Date` field |
//!
//! Invariants: hyper would send the same lines to both sides, though not always in the same order;
//! `tests/it/direct.rs` compares both ways. Nothing is decided twice: a request that was asked about
//! is answered here. An upstream is read only as fast as the client takes the answer.

mod buffers;
mod client_stream;
mod date;
mod forwarding;
mod outgoing_head;
mod relay;
mod request;
mod response_head;
mod told;

use std::sync::Arc;

use http::{Method, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tollgate_core::{Time, Verdict};
use tollgate_http::response::HeaderLines;
use tollgate_http::{Admission, Checker, HeaderFields, HttpRequestFacts};

use crate::Gateway;
use crate::access_log::AccessRecord;
use crate::bounds::DIRECT_OUT_BYTES;
use crate::connection_context::{CloseSignal, ConnectionContext};
use crate::error::GatewayError;
use crate::exchange::origin;
use crate::problem;
use crate::route::RouteQuery;
use crate::route_table::Route;
use client_stream::{ClientStream, NextRead};

pub(crate) use client_stream::poll_read_with;
use date::DateHeader;
use forwarding::{Forwarding, ForwardingEnd};
use request::{DirectRequest, Fields};
use response_head::{OwnAnswer, OwnAnswers};
use told::Told;

/// What became of a connection.
pub(crate) enum DirectEnd<I> {
    Over,
    /// hyper goes on, with these bytes first.
    HandedOver(I, Vec<u8>),
}

/// A connection that has only sent what is answered here.
pub(crate) struct DirectConnection<'g, 'f, C, I, F> {
    gateway: &'g Gateway<C>,
    context: &'g ConnectionContext,
    client: ClientStream<'g, 'f, I, F>,
    /// What was answered and not written yet.
    out: Vec<u8>,
    date: DateHeader,
    /// An answer said that it is the last.
    is_last: bool,
    /// The request that is being answered is a HEAD.
    is_head_request: bool,
}

/// The connection cannot go on.
struct ConnectionOver;

impl<'g, 'f, C, I, F> DirectConnection<'g, 'f, C, I, F>
where
    C: Checker,
    I: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    pub(crate) fn new(
        gateway: &'g Gateway<C>,
        context: &'g ConnectionContext,
        io: I,
        close: &'g mut CloseSignal<'f, F>,
    ) -> Self {
        let client = ClientStream::new(io, close);
        let (out, date) = (Vec::new(), DateHeader::default());
        Self { gateway, context, client, out, date, is_last: false, is_head_request: false }
    }

    /// Answers requests, of which `input` was read already, until one is not for here.
    pub(crate) async fn serve(mut self, mut input: Vec<u8>) -> DirectEnd<I> {
        loop {
            if input.is_empty() || self.is_last {
                buffers::give(input);
                input = Vec::new();
                if self.flush().await.is_err() {
                    return DirectEnd::Over;
                }
                let read = if self.is_last { Ok(NextRead::Over) } else { self.client.read(&mut input).await };
                if !matches!(read, Ok(NextRead::Bytes)) {
                    self.client.end().await;
                    return DirectEnd::Over;
                }
            }
            match self.answer_next(&mut input).await {
                Ok(Some(used)) => {
                    input.drain(..used);
                    input.append(&mut self.client.ahead);
                }
                Ok(None) => return DirectEnd::HandedOver(self.client.io, input),
                Err(ConnectionOver) => return DirectEnd::Over,
            }
        }
    }

    /// Answers the request at the beginning of `input`; how long it was, or none if it is hyper's.
    async fn answer_next(&mut self, input: &mut [u8]) -> Result<Option<usize>, ConnectionOver> {
        let mut fields = Fields::new();
        let found = DirectRequest::read(input, &mut fields).and_then(|request| {
            let route = self.route(&request)?;
            Some((request, route))
        });
        let Some((request, route)) = found else {
            self.flush().await?;
            return Ok(None);
        };
        self.answer(&request, &route).await?;
        Ok(Some(request.length))
    }

    /// Where the request goes, if it can go there from here.
    fn route(&self, request: &DirectRequest<'_>) -> Option<Arc<Route>> {
        let query = RouteQuery {
            host: Some(request.host),
            path: request.path(),
            method: &request.method,
            headers: HeaderFields::Lines(request.fields),
        };
        let is_direct = |route: &Arc<Route>| route.is_direct && !self.gateway.is_deferring(route, query.path);
        self.gateway.find_route(&query).filter(is_direct)
    }

    /// Answers a request; what goes wrong is an answer, too.
    async fn answer(
        &mut self,
        request: &DirectRequest<'_>,
        route: &Arc<Route>,
    ) -> Result<(), ConnectionOver> {
        self.is_head_request = request.method == Method::HEAD;
        let fields = HeaderFields::Lines(request.fields);
        let mut access = self.gateway.access_record(self.context);
        if let Some(access) = &mut access {
            let line = (&request.method, request.target, Version::HTTP_11);
            access.requested_by(line, Some(request.host.as_bytes()), fields);
        }
        let facts = HttpRequestFacts {
            peer: self.context.socket.peer,
            peer_name: None,
            method: request.method.as_str(),
            target: request.target.as_bytes(),
            host: Some(request.host),
            headers: fields,
        };
        let gateway = self.gateway;
        let calendar = || gateway.checker.calendar();
        let mut told = Told::new(self.own_answers(&calendar), access.is_some());
        let admitted = match gateway.admit_at_once(route, &facts, &mut told) {
            Some(admitted) => admitted,
            None => gateway.admit(route, &facts, &mut told).await,
        };
        let Told { lines: told, denied_bytes, .. } = told;
        let mut admission = match admitted {
            Ok(admission) => admission,
            Err(error) => {
                buffers::give(told.into());
                return self.refuse(&error, access).await;
            }
        };
        if let Some(access) = &mut access {
            let client = origin(self.context, route, fields, Version::HTTP_11).client;
            access.decided(client, (admission.verdict, admission.outcome), admission.rule.as_deref());
        }
        if admission.verdict.is_deny() {
            let denied = self.deny(&mut admission, &told, denied_bytes, access).await;
            buffers::give(told.into());
            return denied;
        }
        self.flush().await?;
        if matches!(admission.verdict, Verdict::Delay { .. }) {
            let held = Instant::now();
            let mut turn = std::pin::pin!(admission.turn());
            // Its place is given back if the client goes away.
            let turned = self.client.wait(None, |cx| turn.as_mut().poll(cx)).await;
            turned.map_err(|_| ConnectionOver)?;
            if let Some(access) = &mut access {
                access.held(held.elapsed());
            }
        }
        let origin = origin(self.context, route, fields, Version::HTTP_11);
        let decided = (admission.verdict, admission.rule.as_deref());
        let forwarding = Forwarding { request, route, origin: &origin, decided, told: &told };
        let forwarded = self.forward(&forwarding, access.as_deref_mut()).await;
        buffers::give(told.into());
        match forwarded {
            Ok(()) => Ok(()),
            Err(ForwardingEnd::Refused(error)) => self.refuse(&error, access).await,
            Err(ForwardingEnd::Over) => Err(ConnectionOver),
        }
    }

    /// Tells the client that it is denied, if it was not told already, by `denied_bytes` of a body.
    async fn deny(
        &mut self,
        admission: &mut Admission<C>,
        told: &HeaderLines,
        denied_bytes: Option<usize>,
        access: Option<Box<AccessRecord>>,
    ) -> Result<(), ConnectionOver> {
        let status = StatusCode::TOO_MANY_REQUESTS;
        if let Some(bytes) = denied_bytes {
            note_answer(access, status, bytes);
            return self.flush_if_large().await;
        }
        let mut body = Vec::new();
        if let Some(problem) = admission.problem.take() {
            problem.write(&mut body);
        }
        let (verdict, body) = (Some(admission.verdict.word()), [body.as_slice(), b"", b""]);
        self.answer_own(&OwnAnswer { status, verdict, told: told.as_bytes(), body }, access).await
    }

    /// Tells the client why there is no answer.
    async fn refuse(
        &mut self,
        error: &GatewayError,
        access: Option<Box<AccessRecord>>,
    ) -> Result<(), ConnectionOver> {
        let (status, body) = (error.status(), problem::body(error));
        let body = [body.as_slice(), b"", b""];
        self.answer_own(&OwnAnswer { status, verdict: None, told: &[], body }, access).await
    }

    /// An answer of our own; it is written with those to other requests of the same read.
    async fn answer_own(
        &mut self,
        answer: &OwnAnswer<'_>,
        access: Option<Box<AccessRecord>>,
    ) -> Result<(), ConnectionOver> {
        let gateway = self.gateway;
        let calendar = || gateway.checker.calendar();
        let bytes = self.own_answers(&calendar).write(answer);
        note_answer(access, answer.status, bytes);
        self.flush_if_large().await
    }

    /// Who writes answers of our own.
    fn own_answers<'a>(&'a mut self, calendar: &'a (dyn Fn() -> Time + Sync)) -> OwnAnswers<'a> {
        self.is_last = self.client.is_closing();
        OwnAnswers {
            out: &mut self.out,
            is_last: self.is_last,
            is_head_request: self.is_head_request,
            date: &mut self.date,
            calendar,
            written_at: &mut self.client.seen_at,
        }
    }

    async fn flush_if_large(&mut self) -> Result<(), ConnectionOver> {
        if self.out.len() >= DIRECT_OUT_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Writes what was answered.
    async fn flush(&mut self) -> Result<(), ConnectionOver> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.client.write(&self.out).await;
        self.out.clear();
        buffers::give(std::mem::take(&mut self.out));
        written.map_err(|_| ConnectionOver)
    }
}

/// Tells the access log of an answer of our own.
fn note_answer(access: Option<Box<AccessRecord>>, status: StatusCode, bytes: usize) {
    if let Some(mut access) = access {
        access.answered(status.as_u16(), access.upstream_time());
        access.sent(bytes);
    }
}
