//! Serves connections of RESP.
//!
//! Reads what there is, has `session` answer all of it, and writes the replies
//! back in one go.
//!
//! Invariants: a connection holds the bytes of one read, and more only while one
//! command is longer than that, within what all callers together may hold. A
//! caller that does not read its replies gets no more of them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_immediate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::session::{InputProgress, RespContext, RespSession};
use super::to_wire::{RespWriter, close_message};
use crate::body::{HeldBytes, UNFINISHED_BODIES};
use crate::bounds::{RESP_COMMAND_MAX, RESP_READ};
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::{
    CloseReason, Due, Lifetime, LifetimePolicy, ReadEvent, RequestProgress, write_in_time,
};
use crate::listen::stream::Io;
use crate::service::Service;
use crate::tls::Tls;
use crate::turn::after_others;
use tollgate_metrics::Call;
use tollgate_settings::LimitedListener;
use tollgate_settings::Secret;

/// The buffer grows when it has less room than this.
const READ_LEAST: usize = RESP_READ / 4;
/// After the last reply we go on reading for so long and drop what comes, so
/// that the reply is not lost to a reset of the connection.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// Serves connections of RESP.
#[derive(Debug, Clone)]
pub(crate) struct ServeResp {
    context: Arc<RespContext>,
    tls: Option<Arc<Tls>>,
}

impl ServeResp {
    /// Serves callers that send the password, if there is one.
    pub(crate) fn new(service: Arc<Service>, password: Option<Secret>, tls: Option<Arc<Tls>>) -> Self {
        Self { context: Arc::new(RespContext { service, password }), tls }
    }
}

impl Serve for ServeResp {
    fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// A client may keep a silent connection for as long as it likes.
    fn listener(&self) -> LimitedListener {
        LimitedListener::Resp
    }

    fn policy(&self) -> LifetimePolicy {
        LifetimePolicy::default()
    }

    async fn serve(&self, connection: ServerConnection) {
        let connection = RespConnection {
            io: connection.io,
            lifetime: connection.lifetime,
            session: RespSession::new(Arc::clone(&self.context)),
            input: Vec::new(),
            out: Vec::new(),
            held: None,
            answered: 0,
        };
        if let Err(error) = connection.run().await {
            tracing::debug!(%error, "a RESP connection ended with an error");
        }
    }
}

/// One connection.
struct RespConnection {
    io: Io,
    lifetime: Lifetime,
    session: RespSession,
    /// What was read and not yet answered.
    input: Vec<u8>,
    /// Replies that are not yet written.
    out: Vec<u8>,
    /// Accounts for a command that is longer than a read.
    held: Option<HeldBytes>,
    /// Commands so far.
    answered: u64,
}

impl RespConnection {
    async fn run(mut self) -> io::Result<()> {
        loop {
            self.make_room();
            match self.lifetime.read(&mut self.io, &mut self.input).await? {
                ReadEvent::Bytes(0) => return Ok(()),
                ReadEvent::Bytes(_) => {
                    if self.answer_all().await? {
                        return self.end().await;
                    }
                }
                ReadEvent::Due(Due::Stop) => return self.stop().await,
                ReadEvent::Due(Due::Check) => {
                    let progress = RequestProgress {
                        answered: self.answered,
                        is_partial: !self.input.is_empty(),
                        needs_password: !self.session.is_admitted(),
                    };
                    if let Some(reason) = self.lifetime.check(progress) {
                        return self.close(reason).await;
                    }
                }
            }
        }
    }

    fn make_room(&mut self) {
        if self.input.is_empty() && self.input.capacity() > RESP_READ {
            (self.input, self.held) = (Vec::new(), None);
        }
        if self.input.capacity() - self.input.len() < READ_LEAST {
            self.input.reserve(RESP_READ - self.input.len().min(RESP_READ - READ_LEAST));
        }
    }

    /// Answers what was read and writes the replies, in parts if they are long;
    /// whether the connection is to end.
    async fn answer_all(&mut self) -> io::Result<bool> {
        loop {
            let progress = self.answer().await;
            let is_over = progress.is_over || !self.may_hold();
            after_others().await;
            self.write().await?;
            if is_over || !progress.has_more {
                return Ok(is_over);
            }
        }
    }

    async fn answer(&mut self) -> InputProgress {
        let service = Arc::clone(&self.session.context.service);
        let now = service.now();
        let progress = self.session.answer(&self.input, now, &mut self.out).await;
        if progress.used == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..progress.used);
        }
        self.answered += progress.commands;
        if progress.commands > 0 {
            service.metrics().served_together(Call::Resp, service.now().since(now), progress.commands);
        }
        progress
    }

    /// Accounts for a long command that has begun, or says that there are too many.
    fn may_hold(&mut self) -> bool {
        if self.input.len() <= RESP_READ || self.held.is_some() {
            return true;
        }
        let mut held = UNFINISHED_BODIES.none();
        let may = held.add(RESP_COMMAND_MAX).is_ok();
        self.held = Some(held);
        if !may {
            let mut writer = RespWriter::new(&mut self.out, self.session.version);
            writer.error(&"ERR too many long commands are arriving at once; send it again later");
        }
        may
    }

    async fn write(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        write_in_time(&mut self.io, &self.out).await?;
        self.out.clear();
        self.out.shrink_to(RESP_READ);
        Ok(())
    }

    /// Says why, and ends.
    async fn close(mut self, reason: CloseReason) -> io::Result<()> {
        let needs_password = !self.session.is_admitted();
        RespWriter::new(&mut self.out, self.session.version).error(&close_message(reason, needs_password));
        self.write().await?;
        self.end().await
    }

    /// Answers what has already arrived, and ends.
    async fn stop(mut self) -> io::Result<()> {
        self.make_room();
        let arrived = poll_immediate(pin!(self.io.read_buf(&mut self.input))).await;
        if let Some(Ok(_)) = arrived {
            self.answer_all().await?;
        }
        self.end().await
    }

    /// Ends the connection so that the last reply arrives.
    async fn end(mut self) -> io::Result<()> {
        self.io.shutdown().await?;
        let mut rest = [0; 1_024];
        let silence = async { while matches!(self.io.read(&mut rest).await, Ok(1..)) {} };
        // A caller that goes on sending is cut off.
        drop(tokio::time::timeout(LINGER_MAX, silence).await);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
