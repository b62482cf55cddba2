//! The short way for what nearly all clients send: no hyper in between.
//!
//! hyper is a general server and a general client: a task for each connection to an upstream, a
//! channel between the two, maps of fields, bodies that are streams. A request that came whole in
//! one read needs none of it. It is decided from the lines of its head; a denial is one write, and
//! what is let through goes to a kept connection in one write, and comes back in one.
//!
//! Besides the system calls, a denial takes less time to decide than to fetch what belongs to its
//! connection: there are many of those, and the kernel has used the caches in between. So whatever need not
//! wait is no future (`at_once`): it is read where all connections of a thread read, and has its place on
//! the stack. Only a request that goes on to an upstream, or to a store elsewhere, becomes a part of its
//! connection ([`OpenRequest`]).
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
//! | `at_once` | reads, decides and denies for as long as nobody has to wait |
//! | `request` | a request that came whole and has nothing unusual about it |
//! | `client_stream` | the client's bytes, whether it is still there, and timeouts |
//! | `outgoing_head` | the head as the upstream gets it |
//! | `forwarding` | a request → an upstream's answer, with its one retry |
//! | `response_head` | an upstream's head as the client gets it; answers of our own |
//! | `denial_answer` | the whole answer of a denial, kept for the next one |
//! | `told`, `told_lines` | what a client is told about its limits, at once or with the answer |
//! | `relay` | the body of an answer |
//! | `buffers`, `date` | buffers that connections share; the `Date` field |
//!
//! Invariants: hyper would send the same lines to both sides, though not always in the same order;
//! `tests/it/direct.rs` compares both ways. Nothing is decided twice: a request that was asked about
//! is answered here. An upstream is read only as fast as the client takes the answer.

mod at_once;
mod buffers;
mod client_stream;
mod date;
mod denial_answer;
mod forwarding;
mod outgoing_head;
mod relay;
mod request;
mod response_head;
mod told;
mod told_lines;

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use http::Version;
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_core::Verdict;
use tollgate_http::{Admission, Checker, HeaderFields};

use crate::Gateway;
use crate::access_log::AccessRecord;
use crate::connection_context::{CloseSignal, ConnectionContext};
use crate::exchange::origin;
use crate::route_table::{Route, RouteTable};
use client_stream::ClientStream;
use forwarding::{Forwarding, ForwardingEnd};
use request::{DirectRequest, FieldSpans, HeadSpans};
use told::Told;
use told_lines::ToldLines;

pub(crate) use client_stream::poll_read_with;

/// The routes that were in force when a connection looked last; one look tells whether they still are. An idle
/// connection keeps those that were replaced for as long as it may be idle.
type RouteCache<'g> = Cache<&'g ArcSwap<RouteTable>, Arc<RouteTable>>;

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
    /// As the context has it, which is elsewhere.
    peer: Option<IpAddr>,
    client: ClientStream<'g, 'f, I, F>,
    /// What was read and not answered yet.
    input: Vec<u8>,
    /// What was answered and not written yet.
    out: Vec<u8>,
    /// An answer said that it is the last.
    is_last: bool,
}

/// The connection cannot go on.
struct ConnectionOver;

/// What cannot be done at once.
enum NextStep<C: Checker> {
    /// The client has yet to take what was answered, all of it or what its stream has kept.
    Flush,
    /// The first request of the input has to wait for others.
    Request(Box<OpenRequest<C>>),
    /// The first request of the input is hyper's.
    HandOver,
    /// There are no more requests.
    End,
}

/// A request that waits for others: for a store, for its turn, for an upstream.
struct OpenRequest<C: Checker> {
    head: HeadSpans,
    fields: FieldSpans,
    route: Arc<Route>,
    access: Option<Box<AccessRecord>>,
    /// What was decided; none if the store must be waited for.
    admission: Option<Admission<C>>,
    /// What the client and the upstream are told.
    told: ToldLines,
}

impl<'g, 'f, C, I, F> DirectConnection<'g, 'f, C, I, F>
where
    C: Checker,
    I: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    /// A connection of which `input` was read already.
    pub(crate) fn new(
        gateway: &'g Gateway<C>,
        context: &'g ConnectionContext,
        (io, input): (I, Vec<u8>),
        close: &'g mut CloseSignal<'f, F>,
    ) -> Self {
        let client = ClientStream::new(io, close);
        Self { gateway, context, peer: context.socket.peer, client, input, out: Vec::new(), is_last: false }
    }

    /// Answers requests until one is not for here.
    pub(crate) async fn serve(mut self) -> DirectEnd<I> {
        let mut routes = Cache::new(&self.gateway.routes);
        loop {
            let next = poll_fn(|cx| self.poll_next(cx, &mut routes)).await;
            let has_answers = !self.out.is_empty() || matches!(next, NextStep::Flush);
            if has_answers && self.flush().await.is_err() {
                return DirectEnd::Over;
            }
            match next {
                NextStep::Flush => {}
                NextStep::Request(mut open) => {
                    let mut input = std::mem::take(&mut self.input);
                    let answered = self.answer(&mut open, &input).await;
                    input.drain(..open.head.length);
                    input.append(&mut self.client.ahead);
                    self.keep_input(input);
                    if answered.is_err() {
                        return DirectEnd::Over;
                    }
                }
                NextStep::HandOver => return DirectEnd::HandedOver(self.client.io, self.input),
                NextStep::End => {
                    self.client.end().await;
                    return DirectEnd::Over;
                }
            }
        }
    }

    /// Keeps what has yet to be answered.
    fn keep_input(&mut self, input: Vec<u8>) {
        match input.is_empty() {
            true => buffers::give(input),
            false => self.input = input,
        }
    }

    /// Answers a request at the beginning of `input`; what goes wrong is an answer, too.
    async fn answer(&mut self, open: &mut OpenRequest<C>, input: &[u8]) -> Result<(), ConnectionOver> {
        let OpenRequest { head, fields, route, access, admission, told } = open;
        let request = head.of(input, fields);
        if admission.is_none() {
            (*admission, *told) = self.ask_store(request, route, access).await;
        }
        let Some(admission) = admission else { return Ok(()) };
        if matches!(admission.verdict, Verdict::Delay { .. }) {
            if let Some(access) = access {
                access.held();
            }
            let mut turn = std::pin::pin!(admission.turn());
            // Its place is given back if the client goes away.
            let turned = self.client.wait(None, |cx| turn.as_mut().poll(cx)).await;
            turned.map_err(|_| ConnectionOver)?;
            if let Some(access) = access {
                access.released();
            }
        }
        let origin = origin(self.context, route, HeaderFields::Lines(request.fields), Version::HTTP_11);
        let forwarding = Forwarding { request, route, origin: &origin, verdict: admission.verdict, told };
        let forwarded = self.forward(&forwarding, access.as_deref_mut()).await;
        std::mem::take(told).give_back();
        match forwarded {
            Ok(()) => Ok(()),
            Err(ForwardingEnd::Refused(error)) => {
                self.refuse(request, &error, access.take());
                Ok(())
            }
            Err(ForwardingEnd::Over) => Err(ConnectionOver),
        }
    }

    /// Asks a store that has to be waited for: what was decided, and what the client is told; nothing if it
    /// was answered with that.
    async fn ask_store(
        &mut self,
        request: DirectRequest<'_>,
        route: &Route,
        access: &mut Option<Box<AccessRecord>>,
    ) -> (Option<Admission<C>>, ToldLines) {
        let gateway = self.gateway;
        let facts = request.facts(self.peer, true);
        let calendar = || gateway.checker.calendar();
        let mut told = Told::new(self.own_answers(request, &calendar), access.is_some());
        let mut admitted = gateway.admit(route, &facts, &mut told).await;
        let told = told.end();
        if self.is_answered(request, route, (&mut admitted, &told), access) {
            return (None, ToldLines::default());
        }
        (admitted.ok(), told.lines)
    }

    /// Writes what was answered.
    async fn flush(&mut self) -> Result<(), ConnectionOver> {
        let written = self.client.write(&self.out).await;
        buffers::give(std::mem::take(&mut self.out));
        written.map_err(|_| ConnectionOver)
    }
}
