//! The short way for what nearly all callers send: no server in between.
//!
//! A request to `/v1/check` and its like that arrives whole is decided as soon
//! as it is read, and all that came in one read is answered in one write. A
//! connection that sends anything else goes to hyper with what was read, and
//! stays there: another path, half a request, a chunked body, `connection: close`.
//!
//! Invariants: hyper would answer with the same bytes; what is not whole is not
//! kept here, so that timeouts of heads and bodies are hyper's business.
//!
//! Deliberately not here: how a head is read (httparse, as in hyper), and what
//! is decided (`v1`).

mod request;
mod response;

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;

use super::v1::{self, BatchParts, ResponseBody};
use crate::bounds::{HTTP_READ, LOOK_EVERY, RESPONSE_PART};
use crate::listen::lifetime::{Due, Lifetime, ReadEvent, RequestProgress, write_in_time};
use crate::listen::stream::Io;
use crate::service::Service;
use crate::turn::{Turn, after_others};
use request::WholeRequest;
use response::DateHeader;

/// A connection that has only sent what is answered here.
pub(super) struct DirectConnection<'a> {
    io: Io,
    service: &'a Arc<Service>,
    /// What was read and not yet answered.
    input: Vec<u8>,
    /// What was answered and not yet written.
    out: Vec<u8>,
    date: DateHeader,
}

impl<'a> DirectConnection<'a> {
    pub(super) fn new(io: Io, service: &'a Arc<Service>) -> Self {
        Self { io, service, input: Vec::new(), out: Vec::new(), date: DateHeader::default() }
    }

    /// Answers what it can. Returns the connection and what was read of it if
    /// hyper has to go on, and nothing if it is over.
    pub(super) async fn serve(mut self, lifetime: &mut Lifetime) -> Option<(Io, Vec<u8>)> {
        loop {
            self.input.reserve(HTTP_READ);
            match lifetime.read(&mut self.io, &mut self.input).await.ok()? {
                ReadEvent::Bytes(0) => return None,
                ReadEvent::Bytes(_) => {
                    if !self.answer().await.ok()? {
                        return Some((self.io, self.input));
                    }
                }
                ReadEvent::Due(Due::Stop) => return Some((self.io, self.input)),
                ReadEvent::Due(Due::Check) => {
                    if lifetime.check(RequestProgress::default()).is_some() {
                        // TLS says goodbye, and the caller need not listen.
                        drop(tokio::time::timeout(LOOK_EVERY, self.io.shutdown()).await);
                        return None;
                    }
                }
            }
        }
    }

    /// Answers the whole requests that were read; whether nothing is left.
    async fn answer(&mut self) -> io::Result<bool> {
        let (mut used, mut turn) = (0, Turn::default());
        while let Some(request) = self.input.get(used..).and_then(WholeRequest::read) {
            let WholeRequest { operation, content_type, body, length } = request;
            let now = self.service.now();
            let answered = v1::answer(self.service, operation, content_type, body, now).await;
            response::append_head(&answered, self.date.at(now), &mut self.out);
            used += length;
            match answered.body {
                ResponseBody::Whole(bytes) => self.out.extend_from_slice(&bytes),
                ResponseBody::Parts(parts) => self.write_parts(parts).await?,
            }
            if self.out.len() >= RESPONSE_PART {
                self.write().await?;
            }
            turn.decided(1).await;
        }
        after_others().await;
        self.write().await?;
        self.input.drain(..used);
        Ok(self.input.is_empty())
    }

    async fn write_parts(&mut self, mut parts: BatchParts) -> io::Result<()> {
        while let Some(part) = parts.next().await {
            response::append_chunk(&part.map_err(io::Error::other)?, &mut self.out);
            self.write().await?;
        }
        self.out.extend_from_slice(response::LAST_CHUNK);
        Ok(())
    }

    async fn write(&mut self) -> io::Result<()> {
        write_in_time(&mut self.io, &self.out).await?;
        self.out.clear();
        self.out.shrink_to(HTTP_READ);
        Ok(())
    }
}
