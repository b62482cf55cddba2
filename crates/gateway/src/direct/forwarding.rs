//! A request → an upstream's answer, as bytes.
//!
//! Called by [`super::DirectConnection`] for a request that was let through. What becomes of it is
//! learnt by the group as on hyper's way, and the rules for trying again are those of
//! [`crate::forward`].

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tollgate_core::Verdict;
use tollgate_http::Checker;

use super::client_stream::{WaitError, poll_read_with};
use super::relay::BodyRelay;
use super::request::DirectRequest;
use super::response_head::{self, Additions, UpstreamHead};
use super::told_lines::ToldLines;
use super::{DirectConnection, buffers, outgoing_head};
use crate::access_log::AccessRecord;
use crate::bounds::UPSTREAM_HEAD_MAX;
use crate::error::GatewayError;
use crate::exchange::is_idempotent;
use crate::fields::Origin;
use crate::forward::{SendRecord, StreamLease};
use crate::route_table::Route;

/// A request that was let through.
pub(super) struct Forwarding<'a> {
    pub(super) request: DirectRequest<'a>,
    pub(super) route: &'a Arc<Route>,
    pub(super) origin: &'a Origin<'a>,
    /// What was decided.
    pub(super) verdict: Verdict,
    /// What upstream and client are told about limits.
    pub(super) told: &'a ToldLines,
}

/// Why a request was not answered by an upstream.
#[derive(Debug)]
pub(super) enum ForwardingEnd {
    /// The client has yet to be told.
    Refused(GatewayError),
    /// The client has gone, or its answer broke off.
    Over,
}

/// Why there is no head of an answer.
enum NoHead {
    Late,
    Gone,
    /// The connection was closed before anything was sent.
    NotSent,
    /// It was closed before a byte of an answer.
    NoByte,
    /// What came is no head.
    Bad,
}

impl From<WaitError> for NoHead {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Gone => Self::Gone,
            WaitError::Late => Self::Late,
        }
    }
}

/// An answer whose head was passed on.
struct UpstreamReply {
    lease: StreamLease,
    head: UpstreamHead,
    /// What was read of it, with the head.
    read: Vec<u8>,
}

impl<C, I, F> DirectConnection<'_, '_, C, I, F>
where
    C: Checker,
    I: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    /// Sends a request and passes the answer on.
    pub(super) async fn forward(
        &mut self,
        forwarding: &Forwarding<'_>,
        mut access: Option<&mut AccessRecord>,
    ) -> Result<(), ForwardingEnd> {
        let Forwarding { route, .. } = forwarding;
        let start = Instant::now();
        let deadline = route.timeouts.total.map(|total| start + total);
        let mut record = SendRecord { deadline, ..SendRecord::default() };
        let answer = self.send(forwarding, start, &mut record).await;
        let status = match &answer {
            Ok(answer) => Ok(answer.head.status),
            Err(ForwardingEnd::Refused(error)) => Err(error),
            // Nobody waits for it, and it is nobody's failure.
            Err(ForwardingEnd::Over) => return Err(ForwardingEnd::Over),
        };
        let took = route.group.learn(&record, status, (start, start));
        if let (Some(access), Ok(status)) = (&mut access, status) {
            access.answered(status.as_u16(), Some(took));
        } else if let Some(access) = &mut access {
            access.asked(took);
        }
        let answer = answer.inspect_err(|error| {
            let upstream = record.upstream.as_ref().map(|upstream| tracing::field::display(upstream.url()));
            tracing::debug!(?error, upstream, ?took, "a request got no answer from the upstream");
        })?;
        let mut relay = BodyRelay::new(answer.head.framing);
        // Most answers are whole by now, and nobody has to look at the clock for them again.
        self.client.idle_since = Some(start + took);
        let passed_on = self.pass_on(answer, &mut relay, forwarding, deadline).await;
        if let Some(access) = access {
            access.sent(usize::try_from(relay.bytes).unwrap_or(usize::MAX));
        }
        passed_on.map_err(|_| ForwardingEnd::Over)
    }

    /// Sends a request, once more if that is safe, and reads the head of the answer.
    async fn send(
        &mut self,
        forwarding: &Forwarding<'_>,
        start: Instant,
        record: &mut SendRecord,
    ) -> Result<UpstreamReply, ForwardingEnd> {
        let Forwarding { route, request, .. } = forwarding;
        let may_repeat = request.body.is_empty() && is_idempotent(request.method);
        let (deadline, mut is_retry) = (record.deadline, false);
        loop {
            // A retry wants a connection that nobody has closed meanwhile, which is a new one.
            let now = Some(start).filter(|_| !is_retry);
            let mut leasing = pin!(route.group.lease_stream(now, &route.timeouts, record));
            let leased = self.client.wait(deadline, |cx| leasing.as_mut().poll(cx)).await;
            let mut lease = match leased {
                Ok(leased) => leased.map_err(ForwardingEnd::Refused)?,
                Err(WaitError::Late) => return Err(ForwardingEnd::Refused(GatewayError::FirstByteTimeout)),
                Err(WaitError::Gone) => return Err(ForwardingEnd::Over),
            };
            let mut buffer = buffers::take();
            let sent = self.ask(&mut lease, forwarding, deadline, &mut buffer).await;
            let can_retry = match sent {
                Ok(head) => return Ok(UpstreamReply { lease, head, read: buffer }),
                Err(NoHead::Gone) => return Err(ForwardingEnd::Over),
                Err(NoHead::Late) => return Err(ForwardingEnd::Refused(GatewayError::FirstByteTimeout)),
                Err(NoHead::NotSent) => true,
                Err(NoHead::NoByte) => may_repeat && lease.is_reused,
                Err(NoHead::Bad) => false,
            };
            if is_retry || !can_retry {
                return Err(ForwardingEnd::Refused(GatewayError::NoAnswer));
            }
            is_retry = true;
        }
    }

    /// Sends a request on a connection and reads the head of the answer.
    async fn ask(
        &mut self,
        lease: &mut StreamLease,
        forwarding: &Forwarding<'_>,
        deadline: Option<Instant>,
        buffer: &mut Vec<u8>,
    ) -> Result<UpstreamHead, NoHead> {
        let Forwarding { request, route, origin, verdict, told } = forwarding;
        let decided = (*verdict, told.rule());
        outgoing_head::write(*request, origin, lease.server().own_host(), decided, buffer);
        let first_byte = lease.leased_at + route.timeouts.first_byte;
        let until = Some(deadline.map_or(first_byte, |deadline| deadline.min(first_byte)));
        let (stream, mut sent) = (&mut lease.stream, 0);
        while let Some(rest) = buffer.get(sent..).filter(|rest| !rest.is_empty()) {
            let written = self.client.wait(until, |cx| Pin::new(&mut *stream).poll_write(cx, rest)).await?;
            match written {
                Ok(count) => sent += count,
                Err(_) if sent == 0 => return Err(NoHead::NotSent),
                Err(_) => return Err(NoHead::NoByte),
            }
        }
        buffer.clear();
        loop {
            let reading = |cx: &mut Context<'_>| {
                poll_read_with(stream, cx, |bytes| {
                    buffer.extend_from_slice(bytes);
                    bytes.len()
                })
            };
            let read: io::Result<usize> = self.client.wait(until, reading).await?;
            match read {
                Ok(1..) => {}
                Ok(0) | Err(_) if buffer.is_empty() => return Err(NoHead::NoByte),
                Ok(0) | Err(_) => return Err(NoHead::Bad),
            }
            if let Some(head) = self.pass_head_on(forwarding, buffer)? {
                return Ok(head);
            }
        }
    }

    /// Passes the head on if it is there; what comes before it, such as `103 Early Hints`, is dropped.
    fn pass_head_on(
        &mut self,
        forwarding: &Forwarding<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<UpstreamHead>, NoHead> {
        self.is_last = self.client.is_closing();
        if self.out.capacity() == 0 {
            self.out = buffers::take();
        }
        let calendar = || self.gateway.checker.calendar();
        let (told, is_last) = (forwarding.told, self.is_last);
        let additions = Additions { told, is_last, calendar: &calendar };
        let is_head_request = forwarding.request.is_head();
        loop {
            let head = response_head::pass_on(buffer, is_head_request, &additions, &mut self.out);
            match head.map_err(|_| NoHead::Bad)? {
                // Nobody asked to speak anything else.
                Some(head) if head.status == http::StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(NoHead::Bad);
                }
                Some(head) if head.status.is_informational() => drop(buffer.drain(..head.length)),
                Some(head) => return Ok(Some(head)),
                None if buffer.len() > UPSTREAM_HEAD_MAX => return Err(NoHead::Bad),
                None => return Ok(None),
            }
        }
    }

    /// Passes the body on, as fast as the client takes it.
    async fn pass_on(
        &mut self,
        answer: UpstreamReply,
        relay: &mut BodyRelay,
        forwarding: &Forwarding<'_>,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let UpstreamReply { lease, head, read } = answer;
        let mut lease = Some(lease);
        let body = read.get(head.length..).unwrap_or_default();
        let taken = relay.pass_on(body, &mut self.out).map_err(io::Error::other)?;
        let mut is_clean = taken == body.len();
        buffers::give(read);
        loop {
            if relay.is_done()
                && let Some(lease) = lease.take_if(|_| head.is_reusable && is_clean)
            {
                // Another request can have it while the client takes the rest.
                lease.give_back(self.client.idle_since.unwrap_or_else(Instant::now), head.idle);
            }
            // From here on the upstream does not wait for a client that is slow.
            let end = deadline.filter(|_| !relay.is_done());
            self.client.write_until(end, &self.out).await?;
            self.out.clear();
            let Some(lease) = lease.as_mut().filter(|_| !relay.is_done()) else { break };
            let idle = Instant::now() + forwarding.route.timeouts.idle;
            let until = deadline.map_or(idle, |deadline| deadline.min(idle));
            let out = &mut self.out;
            let reading = |cx: &mut Context<'_>| -> Poll<io::Result<bool>> {
                let read = poll_read_with(&mut lease.stream, cx, |bytes| match bytes.len() {
                    0 if relay.end(out) => Ok(true),
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    count => relay.pass_on(bytes, out).map(|taken| taken == count).map_err(io::Error::other),
                });
                read.map(|read| read?)
            };
            is_clean =
                self.client.wait(Some(until), reading).await.map_err(|_| io::ErrorKind::TimedOut)??;
        }
        buffers::give(std::mem::take(&mut self.out));
        Ok(())
    }
}
