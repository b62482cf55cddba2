//! The question that nearly all callers ask, answered without a server in between.
//!
//! A request to `/v1/check` and its like that arrives whole is decided as soon
//! as it is read, and all that came in one read is answered in one write. A
//! connection that sends anything else goes to hyper with what was read, and
//! stays there: another path, half a request, a body in chunks, a wish to end.
//!
//! Invariants: what is answered here hyper would answer with the same bytes;
//! nothing that is not whole is kept here, so that slow senders are hyper's to
//! cut off.
//!
//! Deliberately not here: how a head is read (httparse, as in hyper), and what
//! is asked and answered (`v1`).

mod question;
mod written;

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::v1;
use crate::bounds::{HTTP_IDLE_MAX, HTTP_READ, LOOK_EVERY, OPENING_MAX};
use crate::listen::life::{Life, stopped};
use crate::listen::write_in_time;
use crate::service::Service;
use question::Question;
use written::Date;

/// A connection that has only asked what is answered here.
pub(super) struct Direct<'a, I> {
    io: I,
    service: &'a Arc<Service>,
    /// What was read and not yet answered.
    input: Vec<u8>,
    /// What was answered and not yet written.
    out: Vec<u8>,
    date: Date,
    quiet: Quiet,
}

/// What happened.
enum Heard {
    Bytes(usize),
    Look,
    Stop,
}

impl<'a, I: AsyncRead + AsyncWrite + Unpin> Direct<'a, I> {
    pub(super) fn new(io: I, service: &'a Arc<Service>) -> Self {
        let (input, out) = (Vec::new(), Vec::new());
        Self { io, service, input, out, date: Date::default(), quiet: Quiet::default() }
    }

    /// Answers what it can; the connection and what was read of it when
    /// somebody else must go on, and nothing when it is over.
    pub(super) async fn serve(mut self, life: &mut Life) -> Option<(I, Vec<u8>)> {
        let mut timer = std::pin::pin!(tokio::time::sleep(LOOK_EVERY));
        loop {
            self.input.reserve(HTTP_READ);
            let heard = tokio::select! {
                biased;
                read = self.io.read_buf(&mut self.input) => Heard::Bytes(read.ok()?),
                () = timer.as_mut() => Heard::Look,
                () = stopped(&mut life.stop) => Heard::Stop,
            };
            match heard {
                Heard::Bytes(0) => return None,
                Heard::Bytes(bytes) => {
                    self.quiet.heard(bytes);
                    if !self.answer().await.ok()? {
                        return Some((self.io, self.input));
                    }
                }
                Heard::Look if self.quiet.is_too_long(life.pass.is_crowded()) => {
                    // Over TLS there is a last word, which nobody need take.
                    drop(tokio::time::timeout(LOOK_EVERY, self.io.shutdown()).await);
                    return None;
                }
                Heard::Look => {
                    let next = timer.deadline() + LOOK_EVERY;
                    timer.as_mut().reset(next);
                }
                Heard::Stop => return Some((self.io, self.input)),
            }
        }
    }

    /// Answers what there is; whether that was all of it.
    async fn answer(&mut self) -> io::Result<bool> {
        let mut used = 0;
        while let Some(question) = self.input.get(used..).and_then(Question::read) {
            let Question { operation, content_type, body, length } = question;
            let written = v1::answer(self.service, operation, content_type, body).await;
            written::put(&written, self.date.at(self.service.now()), &mut self.out);
            used += length;
        }
        write_in_time(&mut self.io, &self.out).await?;
        self.out.clear();
        self.out.shrink_to(HTTP_READ);
        self.input.drain(..used);
        Ok(self.input.is_empty())
    }
}

/// For how long a connection has said nothing.
#[derive(Debug, Default)]
struct Quiet {
    has_spoken: bool,
    /// Since the last look.
    speaks: bool,
    /// Looks at which it had said nothing.
    looks: u32,
}

impl Quiet {
    fn heard(&mut self, bytes: usize) {
        self.speaks |= bytes > 0;
    }

    /// Looks, [`LOOK_EVERY`] after the last time.
    fn is_too_long(&mut self, is_crowded: bool) -> bool {
        let speaks = std::mem::take(&mut self.speaks);
        self.has_spoken |= speaks;
        self.looks = if speaks { 0 } else { self.looks + 1 };
        let most = if self.has_spoken { HTTP_IDLE_MAX } else { OPENING_MAX };
        !speaks && (LOOK_EVERY * self.looks >= most || (is_crowded && self.has_spoken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(quiet: &mut Quiet, is_crowded: bool) -> usize {
        (1..).find(|_| quiet.is_too_long(is_crowded)).unwrap()
    }

    #[test]
    fn who_says_nothing_at_all_has_ten_seconds() {
        assert_eq!(LOOK_EVERY * 2, OPENING_MAX);
        assert_eq!(looks(&mut Quiet::default(), true), 2);
    }

    #[test]
    fn who_has_spoken_may_be_silent_for_a_minute_unless_others_need_the_room() {
        let spoken = || Quiet { speaks: true, ..Quiet::default() };
        assert_eq!(LOOK_EVERY * 12, HTTP_IDLE_MAX);
        assert_eq!(looks(&mut spoken(), false), 13);
        assert_eq!(looks(&mut spoken(), true), 2);
    }
}
