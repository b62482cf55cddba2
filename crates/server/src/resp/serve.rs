//! Serves connections of RESP, with TLS or without.
//!
//! Reads what there is, has `session` answer all of it, and writes the answers
//! back at once.
//!
//! Invariants: a connection holds one read's bytes, and more only while one
//! command is longer than that, within what all callers may have us hold. A
//! caller that does not take its answers gets no more of them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::life::{Cut, Looks, Sight};
use super::session::{Session, Shared};
use super::to_wire::Writer;
use crate::body::Held;
use crate::bounds::{LOOK_EVERY, RESP_COMMAND_MAX, RESP_READ};
use crate::listen::accept::{Arrival, Serve, Stream};
use crate::listen::gate::Pass;
use crate::listen::life::stopped;
use crate::listen::{at_once, write_in_time};
use crate::service::Service;
use crate::tls::Tls;
use tollgate_metrics::Call;
use tollgate_settings::Secret;

/// Room for a read is made when there is less than this.
const READ_LEAST: usize = RESP_READ / 4;
/// After the last answer, so long is what still comes thrown away, so that the
/// answer is not lost to a reset of the connection.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// Serves connections of RESP.
#[derive(Debug, Clone)]
pub(crate) struct ServeResp {
    shared: Arc<Shared>,
    tls: Option<Arc<Tls>>,
}

impl ServeResp {
    /// Serves callers who show the password, if there is one.
    pub(crate) fn new(service: Arc<Service>, password: Option<Secret>, tls: Option<Arc<Tls>>) -> Self {
        Self { shared: Arc::new(Shared { service, password }), tls }
    }

    async fn serve_io<I: AsyncRead + AsyncWrite + Unpin + Send>(&self, io: I, arrival: Rest) {
        let mut stop = arrival.stop;
        let talk = Talk {
            io,
            session: Session::new(Arc::clone(&self.shared)),
            pass: arrival.pass,
            input: Vec::new(),
            out: Vec::new(),
            held: None,
            sight: Sight::default(),
        };
        if let Err(error) = talk.go_on(stopped(&mut stop)).await {
            tracing::debug!(%error, "a connection of RESP ended early");
        }
    }
}

/// What belongs to a connection besides its stream.
struct Rest {
    pass: Pass,
    stop: tokio::sync::watch::Receiver<bool>,
}

impl Serve for ServeResp {
    async fn serve(&self, arrival: Arrival) {
        // The seat is given back when the connection ends.
        let Arrival { stream, pass, seat: _seat, stop } = arrival;
        let rest = Rest { pass, stop };
        match (stream, &self.tls) {
            (Stream::Tcp(stream), None) => self.serve_io(stream, rest).await,
            (Stream::Unix(stream), _) => self.serve_io(stream, rest).await,
            (Stream::Tcp(stream), Some(tls)) => {
                if let Some(stream) = tls.greet(stream).await {
                    self.serve_io(stream, rest).await;
                }
            }
        }
    }
}

/// One connection.
struct Talk<I> {
    io: I,
    session: Session,
    pass: Pass,
    /// What was read and not yet answered.
    input: Vec<u8>,
    /// What was answered and not yet written.
    out: Vec<u8>,
    /// Accounts for a command that is longer than a read.
    held: Option<Held>,
    sight: Sight,
}

/// What happened.
enum Heard {
    Bytes(usize),
    Look,
    Stop,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Talk<I> {
    async fn go_on(mut self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let (mut looks, mut stop) = (Looks::default(), pin!(stop));
        let mut timer = pin!(tokio::time::sleep(LOOK_EVERY));
        loop {
            self.make_room();
            let heard = tokio::select! {
                biased;
                read = self.io.read_buf(&mut self.input) => Heard::Bytes(read?),
                () = timer.as_mut() => Heard::Look,
                () = stop.as_mut() => Heard::Stop,
            };
            match heard {
                Heard::Bytes(0) => return Ok(()),
                Heard::Bytes(bytes) => {
                    let is_over = self.answer(bytes).await;
                    self.write().await?;
                    if is_over {
                        return self.end().await;
                    }
                }
                Heard::Look => {
                    if let Some(cut) = self.look(&mut looks) {
                        return self.cut(cut).await;
                    }
                    let next = timer.deadline() + LOOK_EVERY;
                    timer.as_mut().reset(next);
                }
                Heard::Stop => return self.stop().await,
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

    /// Answers what there is; whether that was the last.
    async fn answer(&mut self, bytes: usize) -> bool {
        let service = Arc::clone(&self.session.shared.service);
        let now = service.now();
        let answered = self.session.answer(&self.input, now, &mut self.out).await;
        if answered.used == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..answered.used);
        }
        self.sight.commands += answered.commands;
        self.sight.bytes += u64::try_from(bytes).unwrap_or(0);
        if answered.commands > 0 {
            service.metrics().served_together(Call::Resp, service.now().since(now), answered.commands);
        }
        answered.is_over || !self.may_hold()
    }

    /// Accounts for what is held of a long command, or says that it is too much.
    fn may_hold(&mut self) -> bool {
        if self.input.len() <= RESP_READ || self.held.is_some() {
            return true;
        }
        let mut held = Held::default();
        let may = held.more(RESP_COMMAND_MAX).is_ok();
        self.held = Some(held);
        if !may {
            let mut writer = Writer::new(&mut self.out, self.session.protocol);
            writer.error(&"ERR too many long commands are arriving at once; send it again later");
        }
        may
    }

    /// Writes all answers, unless the caller does not take them.
    async fn write(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        write_in_time(&mut self.io, &self.out).await?;
        self.out.clear();
        self.out.shrink_to(RESP_READ);
        Ok(())
    }

    fn look(&mut self, looks: &mut Looks) -> Option<Cut> {
        looks.look(Sight {
            is_partial: !self.input.is_empty(),
            is_stranger: !self.session.is_admitted(),
            is_crowded: self.pass.is_crowded(),
            ..self.sight
        })
    }

    async fn cut(mut self, cut: Cut) -> io::Result<()> {
        Writer::new(&mut self.out, self.session.protocol).error(&cut);
        self.write().await?;
        self.end().await
    }

    /// Answers what has already arrived, and ends.
    async fn stop(mut self) -> io::Result<()> {
        self.make_room();
        let arrived = at_once(pin!(self.io.read_buf(&mut self.input))).await;
        if let Some(Ok(bytes)) = arrived {
            self.answer(bytes).await;
            self.write().await?;
        }
        self.end().await
    }

    /// Ends the connection so that the last answer arrives.
    async fn end(mut self) -> io::Result<()> {
        self.io.shutdown().await?;
        let mut rest = [0; 1_024];
        let silence = async { while matches!(self.io.read(&mut rest).await, Ok(1..)) {} };
        // Whoever goes on talking is cut off.
        drop(tokio::time::timeout(LINGER_MAX, silence).await);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
